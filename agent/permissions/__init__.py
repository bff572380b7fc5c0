"""What the agent may do without asking: modes, rules, the developer's answers, and the desk where calls are decided."""

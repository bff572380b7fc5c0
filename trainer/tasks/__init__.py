"""Single-turn tasks that a small policy can act in, judged for real."""

"""What a person sees: the command line and the terminal IDE."""

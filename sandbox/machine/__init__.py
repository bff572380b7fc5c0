"""What this machine is and has: its devices and who uses them, its compilers and caches, and whether they fit together."""

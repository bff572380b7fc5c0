"""What runs in the developer's interpreter: the standard library and torch only, Python 3.9 and newer."""

"""Runs the developer's own script for a while, and ranks the classes of its modules by the time spent in them."""

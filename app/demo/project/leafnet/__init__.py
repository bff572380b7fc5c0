"""Tells leaves apart from photographs."""

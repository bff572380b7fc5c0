"""Modules of public packages on the whole way: ranked, captured, optimised, landed in a clone, compared end to end, undone."""

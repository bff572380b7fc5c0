"""Running code that nobody trusts, behind one protocol, with one file per way of doing it."""

from __future__ import annotations

from sandbox.isolation.cell import Cell, CellProcess, Isolation, Limits
from sandbox.isolation.choice import HOW_TO_ALLOW, LEVELS, best_isolation, probe
from sandbox.isolation.interpreter import interpreter_paths

__all__ = [
    "HOW_TO_ALLOW",
    "LEVELS",
    "Cell",
    "CellProcess",
    "Isolation",
    "Limits",
    "best_isolation",
    "interpreter_paths",
    "probe",
]

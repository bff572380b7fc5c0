"""A line that a policy wrote, read strictly: nothing but an expression over names that the kernel has goes into the kernel."""

from __future__ import annotations

import re
from collections.abc import Sequence

from trainer.tasks.task import NoAnswer

_RANGE = re.compile(r"first\s*=\s*(.+?)\s*[,;]\s*last\s*=\s*(.+?)\s*;?")
_UPDATE = re.compile(r"total\s*=\s*(.+?)\s*;?")
_TOKEN = re.compile(r"\s*(\d+\.\d*f?|\d*\.\d+f?|\d+|[A-Za-z_]\w*|<=|>=|==|!=|&&|\|\||[-+*/%<>?:(),!])")
_OF_A_RANGE = frozenset({"i", "rows", "columns", "min", "max", "abs"})
_OF_AN_UPDATE = frozenset({"total", "value", "i", "j", "min", "max", "abs"}) | {
    f"{name}{suffix}" for name in ("fmin", "fmax", "fabs", "sin", "cos", "sqrt", "exp", "pow") for suffix in ("", "f")
}


def read_range(answer: str) -> tuple[str, str]:
    """Return the two expressions of ``first = ..., last = ...``.

    Raises:
        NoAnswer: The first line is none of this form.
    """
    found = _RANGE.fullmatch(_first_line(answer))
    if found is None:
        raise NoAnswer("The line does not have the form 'first = ..., last = ...'.")
    return _expression(found[1], _OF_A_RANGE), _expression(found[2], _OF_A_RANGE)


def read_update(answer: str) -> str:
    """Return the expression of ``total = ...``.

    Raises:
        NoAnswer: The first line is none of this form.
    """
    found = _UPDATE.fullmatch(_first_line(answer))
    if found is None:
        raise NoAnswer("The line does not have the form 'total = ...'.")
    return _expression(found[1], _OF_AN_UPDATE)


def _first_line(answer: str) -> str:
    return answer.strip().partition("\n")[0].strip()


def _expression(text: str, names: frozenset[str]) -> str:
    """Return an expression laid out in one way, so that answers which say the same are one candidate."""
    parts, place = [], 0
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            raise NoAnswer(f"{text!r} is no expression of C++.")
        parts.append(found[1])
        place = found.end()
    unknown = [part for part in parts if (part[0].isalpha() or part[0] == "_") and part not in names]
    if unknown:
        raise NoAnswer(f"The kernel knows no {unknown[0]!r} there.")
    if not _balanced(parts):
        raise NoAnswer(f"Parentheses of {text!r} do not match.")
    return " ".join(parts)


def _balanced(parts: Sequence[str]) -> bool:
    depth = 0
    for part in parts:
        depth += (part == "(") - (part == ")")
        if depth < 0:
            return False
    return depth == 0

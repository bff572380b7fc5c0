"""Globs over paths: the same form for the tools that search and for rules about what may be touched."""

from __future__ import annotations

import re


def glob_regex(pattern: str) -> re.Pattern[str]:
    """Return what matches the same paths as a glob: ``**`` any folders, ``*`` and ``?`` within one name, ``{a,b}`` either."""
    choices = [_one_glob(choice.removeprefix("./").split("/")) for choice in _braces(pattern)]
    return re.compile("|".join(choices), re.DOTALL)


def _braces(pattern: str) -> list[str]:
    """Return every pattern that ``{a,b}`` stands for."""
    match = re.search(r"\{([^{}]*)\}", pattern)
    if match is None:
        return [pattern]
    before, after = pattern[: match.start()], pattern[match.end() :]
    return [whole for choice in match[1].split(",") for whole in _braces(before + choice + after)]


def _one_glob(parts: list[str]) -> str:
    expression = ""
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if part == "**":
            expression += ".*" if last else "(?:[^/]+/)*"
        else:
            expression += _one_name(part) + ("" if last else "/")
    return f"(?:{expression})"


def _one_name(part: str) -> str:
    """Return the expression of a glob within one name: ``*``, ``?`` and ``[...]``."""
    pieces = re.findall(r"\[[!^]?\]?[^\]]*\]|.", part, re.DOTALL)
    wild = {"*": "[^/]*", "?": "[^/]"}
    return "".join(
        wild.get(piece)
        or (f"[{piece[1:].replace('!', '^', 1)}" if len(piece) > 1 and piece[1] == "!" else _literal(piece))
        for piece in pieces
    )


def _literal(piece: str) -> str:
    """Return a character class as it is, and any other character escaped."""
    return piece.replace("\\", r"\\") if len(piece) > 1 else re.escape(piece)

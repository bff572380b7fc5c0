"""Replacing text in a file, exactly and never by guess."""

from __future__ import annotations

import difflib
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent.tools.base import ToolProblem

_CONTEXT = 3
_MOST_LINES_SHOWN = 60
_MOST_LINES_COMPARED = 5000
_LONGEST_LINE_SHOWN = 300


@dataclass(frozen=True)
class Replacement:
    """One change: ``old`` becomes ``new``, once or everywhere."""

    old: str
    new: str
    everywhere: bool = False


def replacements(arguments: Mapping[str, Any]) -> list[Replacement]:
    """Return what a call of Edit or MultiEdit asks for, by its arguments."""
    return [
        Replacement(
            str(each.get("old_string", "")), str(each.get("new_string", "")), bool(each.get("replace_all", False))
        )
        for each in arguments.get("edits") or [arguments]
    ]


def decode(content: bytes) -> str:
    """Return a file's text; bytes that are no UTF-8 survive the way back through :func:`encode`."""
    return content.decode(errors="surrogateescape")


def encode(text: str) -> bytes:
    """Return the bytes of a text from :func:`decode`."""
    return text.encode(errors="surrogateescape")


def shown(text: str) -> str:
    """Return a text as it can be sent to a model."""
    return text.encode(errors="surrogateescape").decode(errors="replace")


def clean(text: str) -> str:
    """Return a text without half characters, which JSON allows and files do not."""
    return text.encode(errors="replace").decode()


def line_end(text: str) -> str:
    """Return the line end a text uses throughout: that of DOS, or a line feed if it uses anything else."""
    breaks = text.count("\n")
    return "\r\n" if breaks and text.count("\r\n") == breaks else "\n"


def with_line_end(text: str, end: str) -> str:
    """Return a text that uses this line end throughout."""
    return text.replace("\r\n", "\n").replace("\n", end)


def replace(text: str, change: Replacement) -> str:
    """Return the text with one change made.

    Raises:
        ToolProblem: The old text is not there, or stands there several times.
    """
    end = line_end(text)
    old, new = (with_line_end(clean(part), end) for part in (change.old, change.new))
    if not old:
        raise ToolProblem("old_string is empty. Use Write for a new file.")
    if old == new:
        raise ToolProblem("old_string and new_string are the same: nothing would change.")
    places = _places(text, old)
    if not places:
        raise ToolProblem(f"old_string was not found. It must match exactly, white space included.{_near(text, old)}")
    if len(places) > 1 and not change.everywhere:
        lines = ", ".join(str(text.count("\n", 0, place) + 1) for place in places[:10])
        raise ToolProblem(
            f"old_string occurs {len(places)} times, at lines {lines}. Include more of what surrounds it, or set replace_all."
        )
    return text.replace(old, new)


def around_change(before: str, after: str) -> str:
    """Return the numbered lines of ``after`` that differ, with a little around each place; what is too much is counted."""
    old, new = before.split("\n"), after.split("\n")
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=max(len(old), len(new)) > _MOST_LINES_COMPARED)
    shown, left = [], _MOST_LINES_SHOWN
    for place in matcher.get_grouped_opcodes(_CONTEXT):
        begin, stop = place[0][3], place[-1][4]
        shown += [numbered(new[begin : min(stop, begin + left)], begin + 1)] * (left > 0)
        left -= stop - begin
    more = f"\n[{-left} more lines are not shown]" if left < 0 else ""
    return "\n   ...\n".join(shown) + more


def numbered(lines: list[str], first: int) -> str:
    """Return lines with their numbers, as Read shows them."""
    return "\n".join(f"{number:6d}\t{line.rstrip(chr(13))}" for number, line in enumerate(lines, first))


def _places(text: str, old: str) -> list[int]:
    places = []
    place = text.find(old)
    while place >= 0:
        places.append(place)
        place = text.find(old, place + len(old))
    return places


def _near(text: str, old: str) -> str:
    """Say where most lines of what was looked for stand, white space aside, and the first that differs there."""
    lines, wanted = ([line.rstrip("\r") for line in part.split("\n")] for part in (text, old))
    where: dict[str, list[int]] = defaultdict(list)
    for number, line in enumerate(lines):
        if line.strip():
            where[line.strip()].append(number)
    starts = Counter(place - number for number, line in enumerate(wanted) for place in where.get(line.strip(), ()))
    if starts:
        start = max(starts, key=lambda each: (starts[each], -each))
        count = sum(1 for line in wanted if line.strip())
        return f" {starts[start]} of its {count} lines stand at line {start + 1} on.{_first_difference(lines, wanted, start)}"
    first = next((line for line in wanted if line.strip()), "")
    close = difflib.get_close_matches(first.strip(), where, 1) if len(where) < _MOST_LINES_COMPARED else []
    if not close:
        return " None of its lines stands in the file. Read it again."
    number = where[close[0]][0]
    return f" The nearest is line {number + 1}:\n  file:  {_quoted(lines[number])}\n  yours: {_quoted(first)}"


def _first_difference(lines: list[str], wanted: list[str], start: int) -> str:
    """Show the first line of ``wanted`` that ``lines`` do not hold from ``start`` on; the last may be a part of a line."""
    for number, line in enumerate(wanted):
        place, last = start + number, number == len(wanted) - 1
        here = lines[place] if 0 <= place < len(lines) else None
        fits = here is not None and (
            here == line or (number == 0 and here.endswith(line)) or (last and here.startswith(line))
        )
        if not fits:
            theirs = "(no such line)" if here is None else _quoted(here)
            spaces = " (in white space only)" if here is not None and here.split() == line.split() else ""
            return f" The first that differs is line {place + 1}{spaces}:\n  file:  {theirs}\n  yours: {_quoted(line)}"
    return ""


def _quoted(line: str) -> str:
    return repr(shown(line) if len(line) <= _LONGEST_LINE_SHOWN else f"{shown(line[:_LONGEST_LINE_SHOWN])}...")

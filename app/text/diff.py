"""What turns one state of the workspace into another: hunks with their context, signs, colours and decisions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

from textual.content import Content

from app.state import Decision
from app.text.code import coloured, language_of
from app.text.marks import BAD, GOOD
from app.text.plain import clean
from app.text.rows import Row, row

if TYPE_CHECKING:
    from agent.landing.hunks import Hunk

CONTEXT = 3
GUTTER = 12


@dataclass(frozen=True)
class Section:
    """Where a hunk stands among the rows: those from ``start`` up to ``end``."""

    hunk: Hunk
    start: int
    end: int


@dataclass
class Diff:
    """A drawn difference: its rows, and where each hunk is."""

    rows: list[Row] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)


@dataclass(frozen=True)
class Marks:
    """What the developer decided about the hunks of one attempt, and what they rejected in earlier ones.

    ``decidable`` is false for a difference that is only looked at.
    """

    decided: Mapping[tuple[str, str], Decision] = field(default_factory=dict)
    earlier: Mapping[tuple[str, str], tuple[int, str]] = field(default_factory=dict)
    decidable: bool = True


def diff(old: Mapping[str, bytes], new: Mapping[str, bytes], marks: Marks) -> Diff:
    """Draw what turns one state into another; kernels come last."""
    # Imported here because the package it lies in brings the compilers' side along, which the first frame can do without.
    from agent.landing.hunks import hunks

    drawn = Diff()
    found = sorted(hunks(old, new), key=lambda hunk: hunk.file.startswith("kernels/"))
    for file, group in groupby(found, key=lambda hunk: hunk.file):
        _File(file, old.get(file), new.get(file), list(group), marks).draw(drawn)
    return drawn


class _File:
    """One file of a difference."""

    def __init__(self, file: str, old: bytes | None, new: bytes | None, found: list[Hunk], marks: Marks) -> None:
        self.file = file
        self.hunks = found
        self.marks = marks
        self.fate = "new" if old is None else "deleted" if new is None else ""
        self.old_count = (old or b"").count(b"\n") + (not (old or b"\n").endswith(b"\n"))
        language = language_of(file)
        self.old = coloured(_shown(old), language)
        self.new = coloured(_shown(new), language)

    def draw(self, drawn: Diff) -> None:
        """Add the file's heading and its hunks, each with its context."""
        comes = sum(len(hunk.new_lines) for hunk in self.hunks)
        goes = sum(len(hunk.old_lines) for hunk in self.hunks)
        if drawn.rows:
            drawn.rows.append(row(""))
        drawn.rows.append(
            row(
                (f" {clean(self.file)} ", "bold"),
                (f" {self.fate} " if self.fate else "", "$accent"),
                (f" +{comes}", "$text-success"),
                (f" −{goes}", "$text-error"),
                fill="on $panel",
            )
        )
        shown_upto = 1
        for number, hunk in enumerate(self.hunks, 1):
            before = max(shown_upto, hunk.old_start - CONTEXT)
            self._skip(drawn, before - shown_upto)
            self._context(drawn, before, hunk.old_start, hunk.new_start - hunk.old_start)
            start = len(drawn.rows)
            drawn.rows.append(self._heading(hunk, number))
            self._changes(drawn, hunk)
            drawn.sections.append(Section(hunk, start, len(drawn.rows)))
            shown_upto = hunk.old_start + len(hunk.old_lines)
            shift = hunk.new_start + len(hunk.new_lines) - shown_upto
            following = self.hunks[number].old_start if number < len(self.hunks) else self.old_count + 1
            after = min(shown_upto + CONTEXT, following)
            self._context(drawn, shown_upto, after, shift)
            shown_upto = after
        self._skip(drawn, self.old_count + 1 - shown_upto)

    def _skip(self, drawn: Diff, lines: int) -> None:
        if lines > 0:
            plural = "s" if lines > 1 else ""
            drawn.rows.append(row(" " * GUTTER, (f"⋯ {lines} line{plural} unchanged", "$faint"), gutter=GUTTER))

    def _context(self, drawn: Diff, start: int, end: int, shift: int) -> None:
        for number in range(start, end):
            drawn.rows.append(_line(number, number + shift, " ", self.old[number - 1], ""))

    def _changes(self, drawn: Diff, hunk: Hunk) -> None:
        rejected = self._is_rejected(hunk)
        removed, added = ("", "") if rejected else ("on $removed", "on $added")
        for number, text in enumerate(hunk.old_lines, hunk.old_start):
            drawn.rows.append(_line(number, None, "-", _ended(self.old[number - 1], text), removed))
        for number, text in enumerate(hunk.new_lines, hunk.new_start):
            content = _ended(self.new[number - 1], text)
            drawn.rows.append(_line(None, number, "+", content.stylize("dim strike") if rejected else content, added))

    def _heading(self, hunk: Hunk, number: int) -> Row:
        what = "whole file" if hunk.id == "file" else f"hunk {number} of {len(self.hunks)}"
        counts = f"+{len(hunk.new_lines)} −{len(hunk.old_lines)}"
        return row("  ", (f"── {what} ", "$text-primary"), (f"{counts}  ", "$muted"), *self._decision(hunk))

    def _is_rejected(self, hunk: Hunk) -> bool:
        decision = self.marks.decided.get((hunk.file, hunk.id))
        return decision is not None and not decision.accepted

    def _decision(self, hunk: Hunk) -> list[tuple[str, str]]:
        """What was decided about a hunk, in words; what was rejected before and comes back is said too."""
        key = (hunk.file, hunk.id)
        decision = self.marks.decided.get(key)
        if decision is not None and decision.accepted:
            return [(f"{GOOD} accepted", "$text-success")]
        if decision is not None:
            reason = f": {clean(decision.reason)}" if decision.reason else ""
            return [(f"{BAD} rejected{reason}", "$text-error")]
        if key in self.marks.earlier:
            attempt, reason = self.marks.earlier[key]
            because = f": {clean(reason)}" if reason else ""
            return [(f"! you rejected this in attempt {attempt}{because}", "$text-warning")]
        return []


def _shown(content: bytes | None) -> str:
    return clean((content or b"").decode("utf-8", "surrogateescape"))


def _ended(content: Content, text: str) -> Content:
    """Say it where a line has no end."""
    return content if text.endswith("\n") else content + Content.styled("  (no newline at the end)", "$faint italic")


def _line(old: int | None, new: int | None, sign: str, content: Content, fill: str) -> Row:
    styles = {"+": "$text-success bold", "-": "$text-error bold", " ": ""}
    numbers = f" {old or '':>4} {new or '':>4} "
    return row((numbers, "$faint"), (f"{sign} ", styles[sign]), content, fill=fill, gutter=GUTTER + 1)

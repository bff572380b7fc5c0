"""Hunks: what changed between two states of the workspace, cut where a person decides, and putting decisions together.

A hunk is a contiguous block of changed lines; neighbours are never merged, so that each can be decided alone. Kernel
files, and files that only one state has, are one hunk each, with the id ``"file"``.

Lines end at a line feed alone and keep their ends; bytes that are not UTF-8 are surrogate escapes. So whatever is selected
has exactly the bytes of the two states: carriage returns, tabs, byte order marks and a missing final newline included.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from difflib import SequenceMatcher

WHOLE_FILE = "file"
"""The id of a hunk that is a whole file."""


@dataclass(frozen=True)
class Hunk:
    """A block of changed lines, accepted or rejected as one.

    Attributes:
        id: The same in every attempt that changes the same old lines into the same new ones; ``"file"`` for a whole file.
        file: Workspace path of the file.
        old_start: Number, from 1, of the first old line; for an insertion, of the old line it stands before.
        old_lines: Lines that go, with their ends; empty for an insertion.
        new_start: Number, from 1, of the first new line; for a deletion, of the new line it stood before.
        new_lines: Lines that come, with their ends; empty for a deletion.
    """

    id: str
    file: str
    old_start: int
    old_lines: tuple[str, ...]
    new_start: int
    new_lines: tuple[str, ...]


@dataclass(frozen=True)
class Block:
    """A change as line positions: lines ``old_from`` up to ``old_to`` become lines ``new_from`` up to ``new_to``."""

    old_from: int
    old_to: int
    new_from: int
    new_to: int


def hunks(old: Mapping[str, bytes], new: Mapping[str, bytes]) -> list[Hunk]:
    """Return the hunks that turn one state into another, by file and by line."""
    found: list[Hunk] = []
    for file in sorted({*old, *new}):
        if old.get(file) != new.get(file):
            found.extend(_hunks_of_file(file, old.get(file), new.get(file)))
    return found


def select(
    old: Mapping[str, bytes], new: Mapping[str, bytes], rejected: AbstractSet[tuple[str, str]]
) -> dict[str, bytes]:
    """Return the new state without the rejected hunks, named as ``(file, id)``; names that fit no hunk are ignored.

    A rejected whole file is as it was in the old state: gone, if it was not there.
    """
    selected = dict(new)
    for file in {file for file, _ in rejected}:
        before, after = old.get(file), new.get(file)
        if before == after:
            continue
        if before is None or after is None or _is_whole(file):
            kept = before if (file, WHOLE_FILE) in rejected else after
        else:
            kept = _without(file, before, after, rejected)
        if kept is None:
            selected.pop(file, None)
        else:
            selected[file] = kept
    return selected


def changed_blocks(old: Sequence[str], new: Sequence[str]) -> list[Block]:
    """Return where two sequences of lines differ, in order; there is an equal line between any two."""
    opcodes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [Block(*positions) for tag, *positions in opcodes if tag != "equal"]


def split_lines(content: bytes) -> list[str]:
    """Split after each newline; :func:`join_lines` gives back the same bytes."""
    parts = content.split(b"\n")
    whole = [part + b"\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])
    return [line.decode("utf-8", "surrogateescape") for line in whole]


def join_lines(lines: Iterable[str]) -> bytes:
    """Put lines together again."""
    return b"".join(line.encode("utf-8", "surrogateescape") for line in lines)


def _is_whole(file: str) -> bool:
    return file.startswith("kernels/")


def _hunks_of_file(file: str, before: bytes | None, after: bytes | None) -> list[Hunk]:
    old, new = split_lines(before or b""), split_lines(after or b"")
    if before is None or after is None or _is_whole(file):
        return [Hunk(WHOLE_FILE, file, 1, tuple(old), 1, tuple(new))]
    return [_hunk(file, old, new, block) for block in changed_blocks(old, new)]


def _hunk(file: str, old: Sequence[str], new: Sequence[str], block: Block) -> Hunk:
    goes, comes = tuple(old[block.old_from : block.old_to]), tuple(new[block.new_from : block.new_to])
    return Hunk(_identity(file, block, goes, comes), file, block.old_from + 1, goes, block.new_from + 1, comes)


def _identity(file: str, block: Block, goes: Sequence[str], comes: Sequence[str]) -> str:
    """Hash what a hunk does and where in the old file, which stays the same from attempt to attempt.

    The place tells equal blocks apart, so no two hunks of a file share an id.
    """
    digest = hashlib.sha256(repr((file, block.old_from, tuple(goes), tuple(comes))).encode("ascii", "backslashreplace"))
    return digest.hexdigest()[:16]


def _without(file: str, before: bytes, after: bytes, rejected: AbstractSet[tuple[str, str]]) -> bytes:
    old, new = split_lines(before), split_lines(after)
    result: list[str] = []
    done = 0
    for block in changed_blocks(old, new):
        refused = (file, _hunk(file, old, new, block).id) in rejected
        result += old[done : block.old_from]
        result += old[block.old_from : block.old_to] if refused else new[block.new_from : block.new_to]
        done = block.old_to
    return join_lines(result + old[done:])

"""Merging a landing with edits that the developer made elsewhere in the same file meanwhile."""

from __future__ import annotations

from agent.landing.hunks import Block, changed_blocks, join_lines, split_lines


def merge(base: bytes, ours: bytes, theirs: bytes, guarded: range) -> bytes | None:
    """Apply what turned ``base`` into ``theirs`` to ``ours`` as well.

    Args:
        base: The text both came from.
        ours: The developer's, edited since.
        theirs: The text to land.
        guarded: Line positions of ``base``, from 0, that the developer must not have edited: the class that was judged.

    Returns:
        The merged text; None where the two sides touch the same or neighbouring lines, or ours the guarded ones.
    """
    old, edited, wanted = split_lines(base), split_lines(ours), split_lines(theirs)
    edits, changes = changed_blocks(old, edited), changed_blocks(old, wanted)
    if any(_meet(edit, guarded.start, guarded.stop) for edit in edits):
        return None
    if any(_meet(edit, change.old_from, change.old_to) for edit in edits for change in changes):
        return None
    sides = [(edit, edited) for edit in edits] + [(change, wanted) for change in changes]
    result: list[str] = []
    done = 0
    for block, side in sorted(sides, key=lambda pair: pair[0].old_from):
        result += [*old[done : block.old_from], *side[block.new_from : block.new_to]]
        done = block.old_to
    return join_lines(result + old[done:])


def _meet(edit: Block, start: int, stop: int) -> bool:
    """Whether an edit overlaps or touches the lines from ``start`` up to ``stop``."""
    return edit.old_from <= stop and start <= edit.old_to

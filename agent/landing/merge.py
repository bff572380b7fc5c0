"""Merging a landing with edits that the developer made elsewhere in the same file meanwhile."""

from __future__ import annotations

from agent.landing.hunks import Block, changed_blocks, join_lines, split_lines


def merge(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """Apply what turned ``base`` into ``theirs`` to ``ours`` as well; None where both changed the same lines."""
    old, edited, wanted = split_lines(base), split_lines(ours), split_lines(theirs)
    edits, changes = changed_blocks(old, edited), changed_blocks(old, wanted)
    if any(_meet(edit, change) for edit in edits for change in changes):
        return None
    sides = [(edit, edited) for edit in edits] + [(change, wanted) for change in changes]
    result: list[str] = []
    done = 0
    for block, side in sorted(sides, key=lambda pair: (pair[0].old_from, pair[0].old_to)):
        result += [*old[done : block.old_from], *side[block.new_from : block.new_to]]
        done = block.old_to
    return join_lines(result + old[done:])


def _meet(one: Block, other: Block) -> bool:
    """Whether two changes of the same text share a line, or insert at the same place."""
    if (one.old_from, one.old_to) == (other.old_from, other.old_to):
        return True
    return one.old_from < other.old_to and other.old_from < one.old_to

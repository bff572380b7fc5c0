"""What a landing or its undo will do to the developer's tree, said before it is done."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING

from textual.content import Content

from agent.landing.change import FileChange
from agent.landing.hunks import split_lines
from agent.landing.index import is_index
from agent.landing.replaced import told_replaced
from app.clock import now, when
from app.state import Judged, Landing
from app.text.plain import clean, shown_path
from app.text.rows import Row, row, wrapped

if TYPE_CHECKING:
    from agent.landing.commit import Place

KERNEL_SUFFIXES = (".cu", ".cpp")
MOST_FILES = 12


@dataclass(frozen=True)
class Proposal:
    """A landing that was worked out.

    Attributes:
        changes: What is written.
        total: How many changes the attempt has, the rejected ones among them.
        place: Where it can be one commit; None where it cannot, for a reason (``obstacle``).
    """

    changes: Sequence[FileChange]
    total: int
    place: Place | None = None
    obstacle: str = ""


def landing_rows(judged: Judged, proposal: Proposal, rejected: int, width: int) -> list[Row]:
    """Say what landing an attempt will do: files with their counts, what is left out, and what is judged first."""
    changes = [change for change in proposal.changes if not is_index(change.path)]
    folder = common_folder([change.path for change in changes])
    rows = [row(("What will be written", "bold"), ("  in ", "$muted"), shown_path(folder))]
    named = [change for change in changes if change.before is not None or _is_kernel(change.path)]
    rows += [_file(change, folder) for change in named[:MOST_FILES]]
    if rest := len(changes) - len(named[:MOST_FILES]):
        files = f"{rest} more file{'s' if rest > 1 else ''} that build, call and check the kernels"
        rows.append(row("  ", (f"{'new':<8}", "$accent"), (files, "$muted")))
    if len(changes) < len(proposal.changes):
        rows.append(
            row("  ", (f"{'noted':<8}", "$accent"), ("in the project's index, .warpsmith/landed.toml", "$muted"))
        )
    rows.append(row(""))
    if rejected:
        left = f"{rejected} of {proposal.total} changes are left out, because you rejected them."
        rows += wrapped(Content.styled(left, "$text-warning"), width, first="! ", rest="  ")
    if replaced := told_replaced(proposal.changes):
        rows += wrapped(Content.styled(clean(replaced), "$text-warning"), width, first="! ", rest="  ")
    rows += wrapped(Content.styled(_proof(judged, partial=bool(rejected)), "$muted"), width)
    if coverage := judged.verdict.coverage:
        rows += wrapped(Content.styled(f"It {clean(coverage)}; other calls run the original.", "$muted"), width)
    rows += wrapped(Content.styled(_commit(proposal), "$muted"), width)
    return rows + wrapped(Content.styled("Nothing else is touched; u takes it back, exactly.", "$muted"), width)


def undo_rows(landing: Landing, inexact: Mapping[str, str], width: int) -> list[Row]:
    """Say what undoing a landing will do to each file; ``inexact`` holds what becomes of those that were edited since."""
    folder = common_folder([Path(file["path"]) for file in landing.files])
    rows = [row(("What will be taken back", "bold"), ("  in ", "$muted"), shown_path(folder))]
    files = sorted(landing.files, key=lambda file: file["path"] not in inexact)
    for file in files[:MOST_FILES]:
        edited = inexact.get(file["path"])
        fate = edited or ("is removed" if file["before"] is None else "becomes what it was")
        colour = "$text-warning" if edited else "$muted"
        rows.append(row("  ", clean(str(Path(file["path"]).relative_to(folder))), (f"  {fate}", colour)))
    if len(landing.files) > MOST_FILES:
        rows.append(row("  ", (f"⋯ and {len(landing.files) - MOST_FILES} more files", "$muted")))
    rows.append(row(""))
    said = f"Attempt {landing.attempt} landed {when(landing.time, now())}. A file you changed since is left alone."
    if landing.commit:
        said += f" It was committed as {landing.commit[:9]}; where the branch still has that, a commit takes it back."
    return rows + wrapped(Content.styled(said, "$muted"), width)


def redo_rows(landing: Landing, width: int) -> list[Row]:
    """Say what landing again does."""
    said = f"Attempt {landing.attempt} lands as it did before it was taken back. A file you changed since prevents it."
    return wrapped(Content.styled(said, "$muted"), width)


def _commit(proposal: Proposal) -> str:
    """Say what a commit would hold, or why it cannot be one."""
    if proposal.place is None:
        return f"It cannot be a commit: {proposal.obstacle}"
    place = proposal.place
    return " ".join(
        [f"A commit on {place.branch} would hold these files and nothing else, by {clean(place.author)}.", *place.notes]
    )


def _proof(judged: Judged, *, partial: bool) -> str:
    if not partial and judged.verdict.tier == "full" and judged.verdict.reward is not None:
        return f"It was judged in full {when(judged.time, now())}."
    first = (
        "It is judged in full first (half a minute); if it is not correct, nothing is written. Where the machine is too "
        "busy to time it, what is correct lands, and that is said."
    )
    if judged.verdict.reward is None:
        return f"How fast it is was not measured: {judged.verdict.reason} {first}"
    return first


def _is_kernel(path: Path) -> bool:
    return path.suffix in KERNEL_SUFFIXES and not path.name.startswith("_")


def _file(change: FileChange, folder: Path) -> Row:
    comes, goes = line_counts(change)
    fate = "new" if change.before is None else "removed" if change.after is None else "changed"
    counts = [(f"+{comes}", "$text-success"), (" ", ""), (f"−{goes}", "$text-error")]
    return row("  ", (f"{fate:<8}", "$accent"), f"{clean(str(change.path.relative_to(folder)))}  ", *counts)


def line_counts(change: FileChange) -> tuple[int, int]:
    """Return how many lines come and go."""
    old, new = split_lines(change.before or b""), split_lines(change.after or b"")
    comes = goes = 0
    for tag, old_from, old_to, new_from, new_to in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            comes, goes = comes + new_to - new_from, goes + old_to - old_from
    return comes, goes


def common_folder(paths: Sequence[Path]) -> Path:
    """Return the deepest folder that holds all of these files."""
    return Path(os.path.commonpath([path.parent for path in paths])) if paths else Path()

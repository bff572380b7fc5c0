"""What trusting a project's skills means, and where they can be read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from textual.content import Content

from app.text.plain import clean
from app.text.rows import Row, row, wrapped


def skill_rows(folders: Sequence[Path], width: int) -> list[Row]:
    """Name the folders of skills that are left out, and say what it means to trust them."""
    said = "A skill tells the agent what to do, so a project's is left out until you trust it: read it first."
    again = "One that changes is left out again."
    listed = [
        line for folder in folders for line in wrapped(Content(clean(str(folder))), width, first="  ", rest="    ")
    ]
    return [*wrapped(Content(said), width), row(""), *listed, row(""), *wrapped(Content.styled(again, "$muted"), width)]

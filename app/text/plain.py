"""Makes text from outside safe to draw: no terminal sequences, no control characters, no hidden direction changes."""

from __future__ import annotations

import re
from pathlib import Path

_SEQUENCES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")
SHOWN_AS = "�"


def clean(text: str) -> str:
    """Return the text with terminal sequences removed and every other invisible character made visible.

    Code that a model wrote may hide behind characters that change the direction of text; they are shown, not obeyed.
    """
    text = text.replace("\r\n", "\n")
    if "\x1b" in text:
        text = _SEQUENCES.sub("", text)
    return _HIDDEN.sub(SHOWN_AS, text)


def visible(text: str) -> str:
    """Return the text with each invisible character replaced by one that is seen, so that nothing else moves."""
    return _HIDDEN.sub(SHOWN_AS, text)


def clipped(text: str, length: int) -> str:
    """Return the first line of a text, with an ellipsis if that is not all of it or it is longer than ``length``."""
    line, more, _ = text.strip().partition("\n")
    if len(line) > length:
        return line[: max(1, length - 1)] + "…"
    return f"{line} …" if more and len(line) + 2 <= length else line


def shown_path(path: Path) -> str:
    """Return a path as a reader knows it: their home as ``~``."""
    home = Path.home()
    return clean(f"~/{path.relative_to(home)}" if path != home and path.is_relative_to(home) else str(path))

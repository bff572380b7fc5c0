"""C++ text with its comments blanked out, so that what is searched for in it is code."""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"""(?P<comment>/\*.*?(?:\*/|\Z)|//(?:\\\n|[^\n])*)"""
    r"""|R"(?P<mark>[^()\\\s]{0,16})\(.*?(?:\)(?P=mark)"|\Z)|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""",
    re.DOTALL,
)


def without_comments(text: str) -> str:
    """Return ``text`` with every character of a comment replaced by a space; lines and columns stay as they are."""
    return _TOKEN.sub(lambda found: re.sub(r"[^\n]", " ", found[0]) if found["comment"] else found[0], text)


def line_of(text: str, position: int) -> int:
    """Return the number of the line that a position lies on, counting from 1."""
    return text.count("\n", 0, position) + 1

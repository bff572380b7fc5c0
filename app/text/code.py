"""Source text as rows: line numbers, colours, a marked range, and messages under their lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from textual.content import Content

from app.text.rows import Row, row

LARGEST_COLOURED = 200_000
TAB = 4
_LANGUAGES = {".py": "python", ".cu": "cuda", ".cuh": "cuda", ".cpp": "cpp", ".h": "cpp", ".hpp": "cpp", ".c": "c"}


@dataclass(frozen=True)
class CodeRows:
    """What a code view shows: its rows, where each part begins, which row to look at first, and whose lines they are.

    ``sources`` gives for each part its path and the row of its first line.
    """

    rows: list[Row]
    parts: Sequence[int] = ()
    look_at: int | None = None
    sources: Sequence[tuple[str, int]] = ()


def language_of(path: str) -> str:
    """Return the language a file is coloured as, or an empty text."""
    return _LANGUAGES.get("." + path.rpartition(".")[2], "")


@lru_cache(maxsize=64)
def coloured(source: str, language: str) -> tuple[Content, ...]:
    """Return the lines of a source, coloured; plain when it is very long or of no known language."""
    source = source.expandtabs(TAB)
    if not language or len(source) > LARGEST_COLOURED:
        return tuple(Content(line) for line in source.split("\n"))
    from textual.highlight import highlight

    from app.text.colours import Colours

    # The highlighter drops line ends at the edges, so the lines are put back by number.
    lines = highlight(source, language=language, theme=Colours).split("\n", allow_blank=True)
    wanted = source.split("\n")
    return tuple(
        lines[i] if i < len(lines) and lines[i].plain == wanted[i] else Content(wanted[i]) for i in range(len(wanted))
    )


def code_rows(
    source: str,
    path: str,
    *,
    marked: range = range(0),
    messages: Mapping[int, list[str]] | None = None,
) -> Iterator[Row]:
    """Yield a file's rows.

    Args:
        source: Its text.
        path: Its name, which decides the colours.
        marked: Line numbers that are marked in the margin.
        messages: Compiler messages by line number; each follows its line.
    """
    lines = coloured(source, language_of(path))
    if lines and not lines[-1].plain:
        lines = lines[:-1]
    digits = max(3, len(str(len(lines))))
    for number, line in enumerate(lines, 1):
        sign = ("▎", "$accent") if number in marked else " "
        yield row((f"{number:>{digits}} ", "$faint"), sign, " ", line, gutter=digits + 3)
        for message in (messages or {}).get(number, []):
            yield row(
                " " * (digits + 1),
                ("✗ ", "$text-error bold"),
                (message, "$text-error"),
                fill="on $removed",
                gutter=digits + 3,
            )

"""The model's Markdown as rows, cheap enough to draw again fifteen times a second while it streams.

Only what models write is understood: headings, lists, quotes, fenced code, and bold, italic and code inside a line. The
text is cut into pieces at blank lines, and drawn pieces are kept, so a streaming answer costs its last piece only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from textual.content import Content, Span

from app.text.code import coloured
from app.text.plain import clean
from app.text.rows import Row, row, wrapped

CHUNK = 600
_INLINE = re.compile(r"`([^`\n]+)`|\*\*([^*\n]+)\*\*|__([^_\n]+)__|(?<![\w*])\*([^*\n]+)\*(?![\w*])")
_INLINE_STYLES = ("$syn-type", "bold", "bold", "italic")
_LIST = re.compile(r"(\s*)(?:[-*+]|(\d+)[.)])\s+(.*)")
_HEADING = re.compile(r"(#{1,6})\s+(.*)")
_FENCE = re.compile(r"\s*(```+|~~~+)\s*([\w+-]*)")


def markdown_rows(text: str, width: int, margin: int = 0) -> list[Row]:
    """Return a Markdown text as rows of at most ``width`` cells, the first ``margin`` of them empty."""
    rows: list[Row] = []
    for piece in pieces(clean(text)):
        if rows:
            rows.append(row(""))
        rows.extend(_piece_rows(piece, width, margin))
    return rows


def pieces(text: str) -> Iterator[str]:
    """Cut a text at its blank lines, but never inside fenced code."""
    held: list[str] = []
    fence = ""
    for line in text.split("\n"):
        opened = _FENCE.match(line)
        if opened and not fence:
            fence = opened[1]
        elif fence and line.strip().startswith(fence):
            fence = ""
        if line.strip() or fence:
            held.append(line)
        elif held:
            yield "\n".join(held)
            held = []
    if held:
        yield "\n".join(held)


@lru_cache(maxsize=1024)
def _piece_rows(piece: str, width: int, margin: int) -> tuple[Row, ...]:
    left = " " * margin
    rows: list[Row] = []
    prose: list[str] = []
    lines = iter(piece.split("\n"))
    for line in lines:
        fence = _FENCE.match(line)
        special = fence or _HEADING.match(line) or _LIST.match(line) or line.startswith(("> ", "|"))
        if not special:
            prose.append(line.strip())
            continue
        rows += _prose(prose, width, left)
        prose = []
        drawn = _code(lines, fence[1], fence[2], width - margin) if fence else _special(line, width - margin)
        rows += [Row(Content(left) + row.content, row.fill, row.gutter + margin) for row in drawn]
    return (*rows, *_prose(prose, width, left))


def _prose(lines: list[str], width: int, left: str) -> list[Row]:
    """Wrap a paragraph, a long one chunk by chunk, so that the chunks before its growing end are wrapped once."""
    if not lines:
        return []
    text = " ".join(lines)
    rows: list[Row] = []
    carry = ""
    while len(text) > CHUNK and (cut := text.rfind(" ", 0, CHUNK)) > 0:
        whole, carry = _wrapped_chunk(carry, text[:cut], width, left)
        rows += whole
        text = text[cut + 1 :]
    return rows + wrapped(inline(f"{carry} {text}" if carry else text), width, first=left, rest=left)


@lru_cache(maxsize=1024)
def _wrapped_chunk(carry: str, chunk: str, width: int, left: str) -> tuple[tuple[Row, ...], str]:
    """Return the full rows of what is carried over and a chunk, and the text of the row that goes on."""
    *whole, last = wrapped(inline(f"{carry} {chunk}" if carry else chunk), width, first=left, rest=left)
    return tuple(whole), last.content.plain[len(left) :]


def _special(line: str, width: int) -> list[Row]:
    """Draw a heading, a list item, a quote or a table's line."""
    if heading := _HEADING.match(line):
        return wrapped(inline(heading[2]).stylize("bold $text-primary"), width)
    if item := _LIST.match(line):
        indent = " " * min(len(item[1]), 8)
        bullet = f"{item[2]}. " if item[2] else "• "
        return wrapped(inline(item[3]), width, first=indent + bullet, rest=indent + " " * len(bullet))
    if line.startswith("> "):
        return wrapped(inline(line[2:]).stylize("italic"), width, first="│ ", rest="│ ")
    return [row(inline(line))]


def _code(lines: Iterator[str], fence: str, language: str, width: int) -> list[Row]:
    """Draw fenced code up to its closing fence, or to the end while it streams."""
    code: list[str] = []
    for line in lines:
        if line.strip().startswith(fence):
            break
        code.append(line)
    known = {"c++": "cpp", "cu": "cuda", "py": "python", "sh": "bash"}.get(language, language)
    drawn: list[Row] = []
    for content in coloured("\n".join(code), known or "text"):
        drawn.extend(
            Row(Content("  ") + part, "on $surface", 2) for part in (content.fold(max(8, width - 2)) or [content])
        )
    return drawn


def inline(text: str) -> Content:
    """Return one line with its code, bold and italic parts styled and their signs gone."""
    plain, spans, position = "", [], 0
    for match in _INLINE.finditer(text):
        plain += text[position : match.start()]
        group = match.lastindex or 1
        inside = match[group]
        spans.append(Span(len(plain), len(plain) + len(inside), _INLINE_STYLES[group - 1]))
        plain += inside
        position = match.end()
    return Content(plain + text[position:], spans=spans)

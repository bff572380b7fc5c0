"""Renaming a class in its source text, leaving every other byte as it is."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path

from sandbox.errors import TaskError


def rename_class(source: bytes, old: str, new: str, *, where: Path) -> bytes:
    """Return the source with class ``old`` called ``new``, where it is defined and wherever its name is used as a name.

    Raises:
        TaskError: The source does not parse, or does not define the class.
    """
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
        text = source.decode(encoding)
        tree = ast.parse(text)
    except (SyntaxError, ValueError) as error:
        raise TaskError(f"The reference does not parse: {error}.", where=str(where)) from error
    if not any(isinstance(node, ast.ClassDef) and node.name == old for node in tree.body):
        raise TaskError(f"There is no class {old} in the reference.", where=str(where))
    content = text.encode()
    for start in sorted(_places(content, tree, old), reverse=True):
        content = content[:start] + new.encode() + content[start + len(old.encode()) :]
    return content.decode().encode(encoding)


def _places(content: bytes, tree: ast.Module, name: str) -> set[int]:
    """Return the byte offsets at which the name stands as a name; the parser counts columns in UTF-8 bytes."""
    starts = [0, *(match.end() for match in re.finditer(rb"\r\n|\n|\r", content))]
    wanted = name.encode()
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == name:
            begin = starts[node.lineno - 1] + node.col_offset
            if match := re.compile(rb"class\s+(?=%s\b)" % re.escape(wanted)).match(content, begin):
                found.add(match.end())
        elif isinstance(node, ast.Name) and node.id == name:
            begin = starts[node.lineno - 1] + node.col_offset
            if content.startswith(wanted, begin):
                found.add(begin)
    return found

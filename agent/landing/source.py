"""The one addition a landing makes to the judged source: a decorator that runs the original code where nothing was verified."""

from __future__ import annotations

import ast
import codecs
import re
from collections.abc import Iterator

_LINE_END = re.compile(rb"\r\n|\n")
_LONGEST_LINE = 88
GUARD = "landed"
"""The decorator's name in the folder of kernels."""


def in_style_of(original: bytes, source: bytes) -> bytes:
    """Return a rewritten file with the byte order mark and the line ends of its original, where that has one kind only."""
    ends = set(_LINE_END.findall(original))
    if len(ends) == 1:
        source = _LINE_END.sub(ends.pop(), source)
    return (codecs.BOM_UTF8 if original.startswith(codecs.BOM_UTF8) else b"") + source.removeprefix(codecs.BOM_UTF8)


def add_guard(source: bytes, class_name: str, kernels_import: str) -> bytes:
    """Decorate a class with ``@landed`` and import that beside the kernels; every other byte stays.

    Args:
        source: A Python file that parses and holds the class.
        class_name: The class that was judged.
        kernels_import: ``from .blocks_kernels import``, as the file imports its kernels.
    """
    tree = ast.parse(source)
    lines = source.splitlines(keepends=True)
    start = _first_line(find_class(tree, class_name))
    class_line = lines[start - 1]
    indent = class_line[: len(class_line) - len(class_line.lstrip())]
    end = class_line[len(class_line.rstrip(b"\r\n")) :] or b"\n"
    name = _free_name(tree)
    lines.insert(start - 1, indent + b"@" + name.encode() + end)
    imported = f"{GUARD} as {name}" if name != GUARD else GUARD
    statement = next((node for node in tree.body if _is_kernels_import(node, kernels_import)), None)
    if statement is None or statement.lineno >= start:
        lines.insert(start - 1, indent + f"{kernels_import} {imported}".encode() + end)
    elif extended := _extended(lines[statement.lineno - 1], kernels_import, imported):
        lines[statement.lineno - 1] = extended
    else:
        lines.insert(statement.end_lineno or statement.lineno, f"{kernels_import} {imported}".encode() + end)
    return b"".join(lines)


def remove_guard(source: bytes, class_name: str, kernels_import: str) -> bytes:
    """Return a landed file as it was judged: :func:`add_guard` taken back; as it is where there is no guard any more."""
    tree, lines = ast.parse(source), source.splitlines(keepends=True)
    for statement in ast.walk(tree):
        if not isinstance(statement, ast.ImportFrom) or not _is_kernels_import(statement, kernels_import):
            continue
        guard = next((each for each in statement.names if each.name == GUARD), None)
        if guard is None:
            continue
        name = guard.asname or guard.name
        found = [each for each in find_class(tree, class_name).decorator_list if _is_name(each, name)]
        others = ", ".join(ast.unparse(each) for each in statement.names if each is not guard)
        first, last = statement.lineno - 1, statement.end_lineno or statement.lineno
        end = lines[last - 1][len(lines[last - 1].rstrip(b"\r\n")) :]
        lines[first:last] = [
            f"{kernels_import} {others}".encode() + end if others else b"",
            *[b""] * (last - first - 1),
        ]
        for decorator in found:
            lines[decorator.lineno - 1] = b""
    return b"".join(lines)


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _extended(line: bytes, kernels_import: str, name: str) -> bytes | None:
    """Return an import of plain names on a line of its own with one more, in its place if they are sorted; else None."""
    found = re.fullmatch(rb"(%s )(\w+(?:, \w+)*)(\r?\n|)" % re.escape(kernels_import).encode(), line)
    if found is None or len(line) + len(name) > _LONGEST_LINE:
        return None
    names = found[2].decode().split(", ")
    ordered = sorted([*names, name]) if names == sorted(names) else [*names, name]
    return found[1] + ", ".join(ordered).encode() + found[3]


def find_class(tree: ast.Module, name: str) -> ast.ClassDef:
    """Return the class statement that gives a name its value: the last one. Raises ``LookupError`` if there is none."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == name]
    if not found:
        raise LookupError(name)
    return max(found, key=lambda node: node.lineno)


def _first_line(node: ast.ClassDef) -> int:
    """Return the number of a class statement's first line, its decorators included."""
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def imports_kernels(tree: ast.Module, kernels_import: str) -> bool:
    """Whether a file imports from the folder of kernels anywhere."""
    return any(_is_kernels_import(node, kernels_import) for node in ast.walk(tree))


def _is_kernels_import(node: ast.AST, kernels_import: str) -> bool:
    if not isinstance(node, ast.ImportFrom):
        return False
    return f"from {'.' * node.level}{node.module or ''} import" == kernels_import


def _free_name(tree: ast.Module) -> str:
    taken = set(_names(tree))
    name = GUARD
    while name in taken:
        name = f"_{name}"
    return name


def _names(tree: ast.Module) -> Iterator[str]:
    """Yield every name a file binds or uses."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]
        elif isinstance(node, ast.arg):
            yield node.arg

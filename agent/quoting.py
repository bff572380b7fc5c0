"""What of the developer's file the agent is shown: all of a short one, of a longer one the class and what it uses."""

from __future__ import annotations

import ast
from collections.abc import Sequence

LONGEST_WHOLE = 8_000
"""Characters of a file that is quoted whole, some 2,500 tokens: what is quoted is sent again with every answer."""
_LONGEST = 24_000
_LONGEST_FUNCTION = 2_000


def shows_whole(source: str) -> bool:
    """Tell whether all of a file with this text is quoted."""
    return len(source) <= LONGEST_WHOLE


def quoted(source: str, class_name: str) -> str:
    """Return a file's text, or of a long one its imports, the class and the definitions that the class uses.

    Every piece names its lines, so that the rest can be read where it is needed.
    """
    if shows_whole(source):
        return source.rstrip()
    try:
        body = ast.parse(source).body
    except SyntaxError:  # the judge says so, as the task's fault
        body = []
    node = next((each for each in body if isinstance(each, ast.ClassDef) and each.name == class_name), None)
    lines = source.split("\n")
    if node is None:
        return f"# the beginning of {len(lines)} lines; Read the file for the rest\n{source[:_LONGEST]}"
    imports = [each for each in body if isinstance(each, ast.Import | ast.ImportFrom)]
    text = _shown(lines, [*imports, *_used(node, body), node])
    return text if len(text) <= _LONGEST else _shown(lines, [node])[:_LONGEST]


def function_quoted(source: str, name: str) -> str:
    """Return the text of a function of a file; empty if there is none, or if it is long."""
    try:
        body = ast.parse(source).body
    except SyntaxError:
        return ""
    node = next((each for each in body if isinstance(each, ast.FunctionDef) and each.name == name), None)
    text = ast.get_source_segment(source, node) if node else ""
    return text if text and len(text) <= _LONGEST_FUNCTION else ""


def _shown(lines: Sequence[str], statements: Sequence[ast.stmt]) -> str:
    spans = _joined([_span(each) for each in statements])
    told = [
        f"# lines {first} to {last} of {len(lines)}\n" + "\n".join(lines[first - 1 : last]) for first, last in spans
    ]
    return "\n\n".join([*told, "# Read the file for the rest"])


def _used(node: ast.ClassDef, body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Return the module's definitions that a class names, and those that they name in turn."""
    definitions = {name: each for each in body if each is not node for name in _names_of(each)}
    found: dict[str, ast.stmt] = {}
    waiting = _mentioned(node)
    while waiting:
        name = waiting.pop()
        if name in definitions and name not in found:
            found[name] = definitions[name]
            waiting |= _mentioned(definitions[name])
    return list(found.values())


def _names_of(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [statement.name]
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        return [target.id for target in targets if isinstance(target, ast.Name)]
    return []


def _mentioned(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _span(statement: ast.stmt) -> tuple[int, int]:
    """Return the first and last line, decorators included."""
    decorators = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(each.lineno for each in decorators)]), statement.end_lineno or statement.lineno


def _joined(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return spans in order, those with no more than two lines between them as one."""
    joined: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if joined and first <= joined[-1][1] + 3:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return joined

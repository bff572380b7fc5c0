"""What the original forward needs so that it still runs once its class has been rewritten.

The original source lands beside the kernels, whole. Of it only those top-level statements are executed again that
differ from the landed file, or lean on one that does, and that the original class reaches: everything else (imports,
records it returns, registries) is shared with the landed module, so identities stay what they were.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from agent.landing.source import find_class

_REGISTERS = {"register_buffer", "register_parameter", "register_module", "add_module"}


@dataclass(frozen=True)
class Fallback:
    """How to make the original class again from its source.

    Attributes:
        statements: Positions, from 0, of the top-level statements of the original file to execute.
        classes: By their names in the landed module, the classes among them, each with its original's name.
        direct: Whether the original forward can be called on the landed instance itself, because nothing else that it
            uses has changed. Otherwise it runs on a view of the instance that has the original class.
    """

    statements: tuple[int, ...]
    classes: dict[str, str]
    direct: bool

    def to_json(self) -> dict[str, Any]:
        """Return the record as JSON data."""
        return asdict(self)


def plan_fallback(original: bytes, landed: bytes, original_class: str, landed_class: str) -> Fallback:
    """Find out what of the original file the original forward needs. Raises ``LookupError`` where a class is missing."""
    before, after = ast.parse(original), ast.parse(landed)
    old, new = find_class(before, original_class), find_class(after, landed_class)
    unchanged = {ast.dump(statement) for statement in after.body}
    taken = _statements(before.body, unchanged, original_class)
    names = {node.name for node in after.body if isinstance(node, ast.ClassDef)}
    again = {node.name for node in taken if isinstance(node, ast.ClassDef) and node.name in names}
    classes = {landed_class: original_class, **{name: name for name in sorted(again - {original_class})}}
    return Fallback(
        statements=tuple(position for position, node in enumerate(before.body) if node in taken),
        classes=classes,
        direct=len(classes) == 1 and _is_direct(old, new),
    )


def missing_attributes(original: bytes, landed: bytes, original_class: str, landed_class: str) -> list[str]:
    """Return the attributes that the original class gives its instances and the landed class does not."""
    old = find_class(ast.parse(original), original_class)
    new = find_class(ast.parse(landed), landed_class)
    return sorted(_attributes(old) - _attributes(new))


def _statements(body: list[ast.stmt], unchanged: set[str], class_name: str) -> list[ast.stmt]:
    """Select the statements that are changed, or lean on a changed one, and that the class reaches; the class always."""
    uses = {node: _used(node) for node in body}
    gives = {node: _given(node) for node in body}
    stale = {node for node in body if ast.dump(node) not in unchanged}
    own = {node for node in body if class_name in gives[node]}
    while True:
        names = _union(gives[node] for node in stale)
        more = {node for node in body if uses[node] & names} - stale
        if not more:
            break
        stale |= more
    reached = set(own)
    while True:
        names = _union(uses[node] for node in reached)
        more = {node for node in body if gives[node] & names or "*" in gives[node]} - reached
        if not more:
            break
        reached |= more
    return [node for node in body if node in own or (node in stale and node in reached)]


def _is_direct(old: ast.ClassDef, new: ast.ClassDef) -> bool:
    """Whether the classes differ in ``__init__``, ``forward`` and new members only, and forward needs no class of its own."""
    here = {ast.dump(member) for member in new.body}
    functions = [node for node in old.body if isinstance(node, ast.FunctionDef)]
    forward = next((node for node in functions if node.name == "forward"), None)
    others = [
        node for node in old.body if not (isinstance(node, ast.FunctionDef) and node.name in ("__init__", "forward"))
    ]
    if any(ast.dump(node) not in here for node in others if not _is_docstring(node)):
        return False
    if [ast.dump(base) for base in old.bases] != [ast.dump(base) for base in new.bases]:
        return False
    return forward is None or not (forward.decorator_list or old.name in _used(forward))


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _used(node: ast.AST) -> set[str]:
    return {name.id for name in ast.walk(node) if isinstance(name, ast.Name) and not isinstance(name.ctx, ast.Store)}


def _given(statement: ast.stmt) -> set[str]:
    """Return the module-level names a statement may bind; ``*`` for a star import."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}
    given: set[str] = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            given.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            given.add(node.name)
        elif isinstance(node, ast.alias):
            given.add((node.asname or node.name).partition(".")[0])
    return given


def _attributes(node: ast.ClassDef) -> set[str]:
    """Return what a class's methods set on ``self``, and what its body sets."""
    found = {name for member in node.body for name in _given(member)}
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store) and _is_self(part.value):
            found.add(part.attr)
        elif isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr in _REGISTERS:
            found |= {str(argument.value) for argument in part.args[:1] if isinstance(argument, ast.Constant)}
    return {name for name in found if name not in _methods(node)}


def _methods(node: ast.ClassDef) -> set[str]:
    return {member.name for member in node.body if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef)}


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _union(sets: Iterable[set[str]]) -> set[str]:
    return set().union(*sets)

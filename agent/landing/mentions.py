"""By which names a rewritten class may read attributes of its instances: what a landing has to hold to their verified values.

Read from the source, and cautious: whatever could read an attribute by a name that is not written there, or could hand an
instance to code that is not in the file, counts as reading any.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from agent.landing.source import find_class

_CONSTRUCTORS = ("__init__", "__new__", "__post_init__")
_UNWRITTEN = {"vars", "eval", "exec", "attrgetter", "methodcaller", "locals", "super", "__dict__", "__getattribute__"}
_BY_TEXT = ("getattr", "hasattr", "setattr")


def mentioned_names(original: bytes, rewritten: bytes, class_name: str) -> frozenset[str] | None:
    """Return every name that what a rewritten class reaches in its file says outside of constructors; None for any name.

    Where a constructor differs from the original's, what it makes of its arguments is not known, and any name counts.

    Args:
        original: The developer's file.
        rewritten: The same file, rewritten.
        class_name: The class.

    Raises:
        LookupError: A file has no such class.
    """
    before, after = ast.parse(original), ast.parse(rewritten)
    find_class(before, class_name)
    known = _constructors(before)
    if any(known.get(name, text) != text for name, text in _constructors(after).items()):
        return None
    reached = _reached(after, class_name)
    methods = {node.name for statement in reached for node in ast.walk(statement) if isinstance(node, ast.FunctionDef)}
    stored = {node.attr for node in ast.walk(after) if isinstance(node, ast.Attribute) and _is_stored(node)}
    names: set[str] = set()
    for function in _functions(reached):
        if _is_unwritten(function, methods | stored):
            return None
        names.update(_said(function))
    return frozenset(names)


def _constructors(tree: ast.Module) -> dict[str, str]:
    """Return the constructors of a file's classes as text, by class and name; of a class without one, an empty text."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            own = {each.name: ast.dump(each) for each in node.body if isinstance(each, ast.FunctionDef)}
            found |= {f"{node.name}.{name}": own.get(name, "") for name in _CONSTRUCTORS}
    return found


def _reached(tree: ast.Module, class_name: str) -> list[ast.stmt]:
    """Return the statements of a file that a class leans on, itself among them."""
    taken: list[ast.stmt] = []
    names = {class_name}
    while True:
        more = [node for node in tree.body if node not in taken and names & _given(node)]
        if not more:
            return taken
        taken += more
        names |= {each for node in more for each in _said(node)}


def _given(statement: ast.stmt) -> set[str]:
    """Return what a statement gives a value, functions and classes at any depth included; imports aside."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    found = {node.name for node in ast.walk(statement) if isinstance(node, kinds)}
    return found | {
        node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def _functions(statements: list[ast.stmt]) -> Iterator[ast.AST]:
    """Yield all that is not a constructor: functions and statements of modules and classes."""
    for statement in statements:
        if isinstance(statement, ast.ClassDef):
            yield from _functions([*statement.body, *(ast.Expr(each) for each in statement.decorator_list)])
        elif not (isinstance(statement, ast.FunctionDef) and statement.name in _CONSTRUCTORS):
            yield statement


def _said(node: ast.AST) -> Iterator[str]:
    """Yield the names and texts that stand somewhere in a piece of source."""
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            yield each.id
        elif isinstance(each, ast.Attribute):
            yield each.attr
        elif isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value
        elif isinstance(each, ast.arg):
            yield each.arg


def _is_unwritten(function: ast.AST, known: set[str]) -> bool:
    """Whether a function may read attributes by names that are not written in it, or hand an instance on.

    Args:
        function: The function.
        known: Names of methods and of attributes of the file; a call of another method of ``self`` is of inherited code.
    """
    held = {id(node.value) for node in ast.walk(function) if isinstance(node, ast.Attribute)}
    held |= {id(node.args[0]) for node in ast.walk(function) if isinstance(node, ast.Call) and _asks_by_text(node)}
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and node.id == "self" and id(node) not in held:
            return True
        if (isinstance(node, ast.Name) and node.id in _UNWRITTEN) or (
            isinstance(node, ast.Attribute) and node.attr in _UNWRITTEN
        ):
            return True
        if isinstance(node, ast.Call) and _calls_unknown(node, known):
            return True
    return False


def _calls_unknown(call: ast.Call, known: set[str]) -> bool:
    called = call.func
    if isinstance(called, ast.Name) and called.id in _BY_TEXT:
        return not _asks_by_text(call)
    of_self = isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id == "self"
    return of_self and isinstance(called, ast.Attribute) and called.attr not in known


def _asks_by_text(call: ast.Call) -> bool:
    """Whether a call is a ``getattr`` or the like with a name that is written there."""
    by_text = isinstance(call.func, ast.Name) and call.func.id in _BY_TEXT
    return by_text and len(call.args) > 1 and isinstance(call.args[1], ast.Constant)


def _is_stored(node: ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name) and node.value.id == "self"

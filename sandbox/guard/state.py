"""What the guard has learnt so far about the names, attributes and functions of the candidate's file."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from sandbox.guard.candidate import CandidateFile
from sandbox.guard.findings import Findings
from sandbox.guard.values import PLAIN, Function, Scope, Value, joined

ELEMENTS = "*"
"""The attribute that stands for what an instance of a container class holds."""

_ORDINARY = frozenset({"__init__", "__call__"})
_MODULE: Scope = (0, False)


@dataclass
class Frame:
    """A function being read, in one of two ways: as part of ``forward``, where torch may not compute, or of ``__init__``."""

    key: Scope
    forward: bool
    owner: str = ""
    parents: set[Scope] = field(default_factory=set)
    globals: set[str] = field(default_factory=set)
    outer: set[str] = field(default_factory=set)


class State:
    """Everything learnt; it only grows, and ``changed`` says whether it grew in this round."""

    def __init__(self, file: CandidateFile, findings: Findings) -> None:
        self.file = file
        self.findings = findings
        self.changed = True
        self.reached: dict[tuple[Function, bool], None] = {}
        self.module_frame = Frame(_MODULE, forward=False)
        self._names: dict[Scope, dict[str, Value]] = {_MODULE: {}}
        self._frames: dict[Scope, Frame] = {_MODULE: self.module_frame}
        self._returns: dict[Scope, Value] = {}
        self._attributes: dict[tuple[str, str], Value] = {}

    def begin_round(self) -> None:
        """Forget the findings of the last round: what was unknown then may be known now."""
        self.findings.found.clear()
        self.changed = False

    def compute(self, node: ast.AST, what: str) -> None:
        """Note a computation by torch."""
        self.findings.add("torch-computation", node, f"{what}: torch computes here; do it in a kernel")

    def reach(self, function: Function, *, forward: bool, itself: Value | None = None) -> Frame:
        """Note that a function is called, and return its frame."""
        if (function, forward) not in self.reached:
            self.reached[function, forward] = None
            self.changed = True
        frame = self.frame(function, forward=forward)
        parameters = [*function.node.args.posonlyargs, *function.node.args.args]
        if itself is not None and parameters and function.bound:
            self.assign(frame, parameters[0].arg, itself)
        return frame

    def frame(self, function: Function, *, forward: bool) -> Frame:
        """Return the frame of a function."""
        key = (id(function.node), forward)
        if key not in self._frames:
            self._frames[key] = Frame(key, forward, function.owner)
            arguments = function.node.args
            packed = [each for each in (arguments.vararg, arguments.kwarg) if each is not None]
            names = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *packed]
            self._names[key] = {each.arg: PLAIN for each in names}
        if function.scope is not None:
            self._frames[key].parents.add(function.scope)
        return self._frames[key]

    def assign(self, frame: Frame, name: str, value: Value) -> None:
        """Add to what a name may be."""
        if name in frame.outer:
            for parent in frame.parents:
                self.assign(self._frames[parent], name, value)
        names = self._names[_MODULE if name in frame.globals else frame.key]
        if name not in names or names[name] | value != names[name]:
            names[name] = names[name] | value if name in names else value
            self.changed = True

    def look_up(self, frame: Frame, name: str) -> Value | None:
        """Return what a name may be, or null if the file does not define it."""
        ahead, seen = [frame.key], set[Scope]()
        while ahead:
            scope = ahead.pop(0)
            if name in self._names[scope]:
                return self._names[scope][name]
            seen.add(scope)
            ahead += [parent for parent in self._frames[scope].parents if parent not in seen]
        if name in self._names[_MODULE]:
            return self._names[_MODULE][name]
        if name in self.file.classes:
            return Value(classes=frozenset({name}))
        dotted = self.file.names.get(name)
        return Value(refs=frozenset({dotted})) if dotted else None

    def give_back(self, frame: Frame, value: Value) -> None:
        """Add to what a function may return."""
        before = self._returns.get(frame.key)
        after = value if before is None else before | value
        if after != before:
            self._returns[frame.key] = after
            self.changed = True

    def returned(self, frame: Frame) -> Value:
        """Return what a function may return, as far as is known."""
        return self._returns.get(frame.key, PLAIN)

    def set_attribute(self, owner: str, name: str, value: Value) -> None:
        """Add to what an attribute of a class's instances may be."""
        before = self._attributes.get((owner, name))
        after = value if before is None else before | value
        if after != before:
            self._attributes[owner, name] = after
            self.changed = True

    def get_attribute(self, owner: str, name: str) -> Value | None:
        """Return what an attribute may be, from the class or the classes of this file it derives from; null if unset."""
        found = [self._attributes[each, name] for each in self.lineage(owner) if (each, name) in self._attributes]
        return joined(found) if found else None

    def element(self, value: Value) -> Value:
        """Return what iterating over a value gives: the parts of a tuple, what a container class holds."""
        held = [self.get_attribute(instance, ELEMENTS) for instance in value.instances]
        parts = value.element() if value.items is None else joined(value.items)
        return joined([parts, *filter(None, held), self.answer(value)])

    def answer(self, value: Value) -> Value:
        """Return what the special methods of an instance may give: by an operator, an index, a ``with`` or a loop."""
        special = [method for instance in value.instances for method in self.special_methods(instance)]
        return joined([self.returned(self.frame(method, forward=True)) for method in special])

    def special_methods(self, owner: str) -> list[Function]:
        """Return the methods of a class that Python calls by itself, but for construction and calls."""
        bodies = [getattr(self.file.classes.get(name), "body", []) for name in self.lineage(owner)]
        names = {statement.name for body in bodies for statement in _definitions(body)}
        special = {name for name in names if name.startswith("__") and name.endswith("__")}
        return [method for name in sorted(special - _ORDINARY) for method in self.methods(owner, name)]

    def lineage(self, owner: str) -> list[str]:
        """Return a class and the classes of this file it derives from, nearest first."""
        found: list[str] = []
        ahead = [owner]
        while ahead:
            name = ahead.pop(0)
            if name not in found and (name == owner or name in self.file.classes):
                found.append(name)
                node = self.file.classes.get(name)
                ahead += [base.id for base in (node.bases if node else []) if isinstance(base, ast.Name)]
        return found

    def foreign_bases(self, owner: str) -> set[str]:
        """Return the dotted names of classes outside the file that a class derives from; an unknown one is its text."""
        bases = [base for name in self.lineage(owner) for base in getattr(self.file.classes.get(name), "bases", [])]
        outside = [
            base for base in bases if not (isinstance(base, ast.Name) and base.id in {*self.file.classes, "object"})
        ]
        return {self.file.dotted(base) or ast.unparse(base) for base in outside}

    def methods(self, owner: str, name: str) -> list[Function]:
        """Return the definitions of a method in the nearest class of this file that has one."""
        for each in self.lineage(owner):
            node = self.file.classes.get(each)
            found = [statement for statement in _definitions(node.body if node else []) if statement.name == name]
            if found:
                return [
                    Function(statement, each, bound="staticmethod" not in decorators(statement)) for statement in found
                ]
        return []


def _definitions(body: list[ast.stmt]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield the functions a class body defines, also those under a condition."""
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            yield statement
        elif not isinstance(statement, ast.ClassDef):
            inner = [child for child in ast.iter_child_nodes(statement) if isinstance(child, ast.stmt)]
            yield from _definitions(inner)


def decorators(node: ast.AST) -> set[str]:
    """Return the names of a function's plain decorators."""
    return {each.id for each in getattr(node, "decorator_list", []) if isinstance(each, ast.Name)}

"""Follow tensors through the candidate's Python code, to find where torch computes with them.

An abstract interpretation: every name, attribute and return value is what it may be (``values.Value``), all branches count,
and everything that ``forward`` reaches is read until nothing new is learnt. What only ``__init__`` reaches may compute: it
runs before there are inputs and weights.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from sandbox.guard.candidate import CandidateFile
from sandbox.guard.expressions import Expressions
from sandbox.guard.findings import Findings
from sandbox.guard.hygiene import check_handlers
from sandbox.guard.state import Frame, State
from sandbox.guard.triton_source import is_jitted
from sandbox.guard.values import AN_INPUT, Function, Value

_ROUNDS = 30
_ENTRIES = ("forward", "__call__")


def check_flow(file: CandidateFile, findings: Findings) -> None:
    """Find torch computation, results kept between calls and errors swallowed, in all that ``forward`` reaches."""
    own = Findings(findings.source)
    state = State(file, own)
    flow = _Flow(state)
    for _ in range(_ROUNDS):
        state.begin_round()
        flow.body(file.tree.body, state.module_frame)
        flow.run_candidate()
        for function, forward in list(state.reached):
            flow.run_function(function, forward=forward)
        if not state.changed:
            break
    for (rule, line), (severity, why) in own.found.items():
        findings.add(rule, line, why, severity=severity)


class _Flow:
    """The statements: what each does to the names it assigns."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.expressions = Expressions(state)

    def run_candidate(self) -> None:
        """Reach the candidate's constructor, with plain arguments, and its forward, with the inputs."""
        name = self.state.file.spec.candidate_class
        node = self.state.file.classes[name]
        itself = Value(instances=frozenset({name}))
        frame = Frame(self.state.module_frame.key, forward=True, owner=name)
        if self.state.look_up(self.state.module_frame, name) != Value(classes=frozenset({name})):
            self.state.findings.add("missing-class", node, f"{name} is given another meaning elsewhere in the file")
        for constructor in self.state.methods(name, "__init__"):
            self.state.reach(constructor, forward=False, itself=itself)
        for entry in _ENTRIES:
            methods = self.state.methods(name, entry)
            for function in methods:
                self.state.reach(function, forward=True, itself=itself)
                self._give_inputs(function)
            replaced = self.state.get_attribute(name, entry)
            if replaced is not None:
                self.expressions.calls.apply(replaced, [AN_INPUT], {}, node, frame, receiver=itself)
            elif not methods and entry == "forward":
                inherited = self.expressions.attribute(itself, entry, frame)
                self.expressions.calls.apply(inherited, [AN_INPUT], {}, node, frame, receiver=itself)

    def _give_inputs(self, function: Function) -> None:
        frame = self.state.frame(function, forward=True)
        arguments = function.node.args
        itself = 1 if function.bound else 0
        for parameter in [*[*arguments.posonlyargs, *arguments.args][itself:], *arguments.kwonlyargs]:
            if not self.state.file.forward_is_plain(parameter.arg):
                self.state.assign(frame, parameter.arg, AN_INPUT)
        for packed in (arguments.vararg, arguments.kwarg):
            if packed is not None:
                self.state.assign(frame, packed.arg, AN_INPUT.held())

    def run_function(self, function: Function, *, forward: bool) -> None:
        """Read a function's body, or a lambda's expression."""
        frame = self.state.frame(function, forward=forward)
        for name, default in _defaults(function.node.args):
            self.state.assign(frame, name, self.expressions.evaluate(default, frame))
        if isinstance(function.node, ast.Lambda):
            self.state.give_back(frame, self.expressions.evaluate(function.node.body, frame))
        else:
            self.body(function.node.body, frame)

    def body(self, body: list[ast.stmt], frame: Frame) -> None:
        """Read statements in order."""
        for statement in body:
            self._statement(statement, frame)

    def _statement(self, node: ast.stmt, frame: Frame) -> None:
        evaluate, store = self.expressions.evaluate, self.expressions.store
        match node:
            case ast.Assign():
                value = evaluate(node.value, frame)
                for target in node.targets:
                    store(target, value, frame)
            case ast.AnnAssign(value=ast.expr() as assigned):
                store(node.target, evaluate(assigned, frame), frame)
            case ast.AugAssign():
                self._aug_assign(node, frame)
            case ast.For() | ast.AsyncFor():
                store(node.target, self.state.element(evaluate(node.iter, frame)), frame)
                self.body(node.body + node.orelse, frame)
            case ast.With() | ast.AsyncWith():
                self._with(node, frame)
            case ast.Return(value=ast.expr() as returned):
                self.state.give_back(frame, evaluate(returned, frame))
            case ast.Try() | ast.TryStar():
                self._try(node, frame)
            case ast.Global():
                frame.globals.update(node.names)
            case ast.Nonlocal():
                frame.outer.update(node.names)
            case ast.Match():
                self._match(node, frame)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.state.assign(frame, node.name, self._defined(node, frame))
            case ast.ClassDef():
                self._class(node, frame)
            case ast.Import() | ast.ImportFrom():
                pass
            case _:
                self._others(node, frame)

    def _defined(self, node: ast.FunctionDef | ast.AsyncFunctionDef, frame: Frame) -> Value:
        """Return what a definition makes: a function, or a kernel of Triton's, which is called as those of kernels/."""
        if is_jitted(self.state.file, node):
            return Value(refs=frozenset({f"kernels.{node.name}"}))
        return Value(functions=frozenset({Function(node, frame.owner, scope=frame.key)}))

    def _others(self, node: ast.AST, frame: Frame) -> None:
        """Read whatever a statement is made of."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.expressions.evaluate(child, frame)
            elif isinstance(child, ast.stmt):
                self._statement(child, frame)

    def _aug_assign(self, node: ast.AugAssign, frame: Frame) -> None:
        before = self.expressions.evaluate(node.target, frame)
        value = self.expressions.evaluate(node.value, frame)
        if frame.forward:
            if before.is_tensor or value.is_tensor:
                self.state.compute(node, "arithmetic on a tensor")
            elif isinstance(node.target, ast.Attribute) or getattr(node.target, "id", "") in frame.globals:
                self.state.findings.add(
                    "counts-calls", node, "a call of forward may not depend on how many came before"
                )
        self.expressions.store(node.target, before | value, frame, in_place=True)

    def _with(self, node: ast.With | ast.AsyncWith, frame: Frame) -> None:
        for item in node.items:
            manager = self.expressions.evaluate(item.context_expr, frame)
            value = manager | self.state.answer(manager)
            if item.optional_vars is not None:
                self.expressions.store(item.optional_vars, value, frame)
        self.body(node.body, frame)

    def _match(self, node: ast.Match, frame: Frame) -> None:
        subject = self.expressions.evaluate(node.subject, frame)
        anything = subject | self.state.element(subject) | subject.held()
        for case in node.cases:
            for part in ast.walk(case.pattern):
                name = getattr(part, "rest", None) or getattr(part, "name", None)
                if isinstance(name, str):
                    self.state.assign(frame, name, anything)
            if case.guard is not None:
                self.expressions.evaluate(case.guard, frame)
            self.body(case.body, frame)

    def _try(self, node: ast.Try | ast.TryStar, frame: Frame) -> None:
        if frame.forward:
            check_handlers(node, self.state.findings)
        for handler in node.handlers:
            self.body(handler.body, frame)
        self.body(node.body + node.orelse + node.finalbody, frame)

    def _class(self, node: ast.ClassDef, frame: Frame) -> None:
        self.state.assign(frame, node.name, Value(classes=frozenset({node.name})))
        for statement in node.body:
            if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
                value = self.expressions.evaluate(statement.value, frame)
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                for target in targets:
                    if isinstance(target, ast.Name):
                        self.state.set_attribute(node.name, target.id, value)


def _defaults(arguments: ast.arguments) -> Iterator[tuple[str, ast.expr]]:
    positional = [*arguments.posonlyargs, *arguments.args]
    first = len(positional) - len(arguments.defaults)
    yield from zip((each.arg for each in positional[first:]), arguments.defaults, strict=True)
    for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if default is not None:
            yield each.arg, default

"""What an expression of the candidate's Python code may be, and what torch would compute to find out."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from dataclasses import replace

from sandbox.guard.attributes import Attributes
from sandbox.guard.calls import Calls
from sandbox.guard.state import Frame, State
from sandbox.guard.triton_source import RULE, is_grid
from sandbox.guard.values import ADDRESS, HOLDS, PLAIN, TENSOR, Function, Value, joined


class Expressions:
    """Evaluates expressions in a frame, and stores values where assignments put them."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.calls = Calls(state, self)
        self.attributes = Attributes(state, self.calls)

    def evaluate(self, node: ast.expr, frame: Frame) -> Value:
        """Return what an expression may be; findings go to the state where the frame belongs to forward."""
        match node:
            case ast.Constant():
                return PLAIN
            case ast.Name():
                found = self.state.look_up(frame, node.id)
                builtin = frozenset({f"builtins.{node.id}"} if hasattr(builtins, node.id) else ())
                return Value(refs=builtin) if found is None else found
            case ast.Call():
                return self.calls.call(node, frame)
            case ast.Attribute():
                return self.attribute(self.evaluate(node.value, frame), node.attr, frame)
            case ast.Subscript():
                return self._subscript(node, frame)
            case ast.BinOp():
                return self._binary(node, frame)
            case ast.UnaryOp():
                return self._unary(node, frame)
            case ast.Compare():
                return self._compare(node, frame)
            case ast.Lambda():
                return Value(functions=frozenset({Function(node, frame.owner, scope=frame.key)}))
            case ast.NamedExpr():
                value = self.evaluate(node.value, frame)
                self.store(node.target, value, frame)
                return value
            case ast.IfExp():
                self.evaluate(node.test, frame)
                return self.evaluate(node.body, frame) | self.evaluate(node.orelse, frame)
            case _:
                return self._collection(node, frame)

    def _collection(self, node: ast.expr, frame: Frame) -> Value:
        match node:
            case ast.Tuple():
                items = [self.evaluate(each, frame) for each in node.elts]
                starred = any(isinstance(each, ast.Starred) for each in node.elts)
                return joined(items).held() if starred else replace(joined(items).held(), items=tuple(items))
            case ast.List() | ast.Set():
                return joined([self.evaluate(each, frame) for each in node.elts]).held()
            case ast.Starred():
                return self.state.element(self.evaluate(node.value, frame))
            case ast.Dict():
                for key in filter(None, node.keys):
                    self.look_for_cache(key, self.evaluate(key, frame), frame)
                return joined([self.evaluate(each, frame) for each in node.values]).held()
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self._comprehension(node, frame)
            case ast.JoinedStr() | ast.FormattedValue():
                self._parts(node, frame)
                return PLAIN
            case ast.Yield() | ast.YieldFrom():
                value = self._parts(node, frame)
                self.state.give_back(frame, value.held())
                return value
            case _:
                return self._parts(node, frame)

    def _parts(self, node: ast.expr, frame: Frame) -> Value:
        return joined(
            [self.evaluate(child, frame) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
        )

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, frame: Frame) -> Value:
        for generator in node.generators:
            self.store(generator.target, self.state.element(self.evaluate(generator.iter, frame)), frame)
            for condition in generator.ifs:
                self.evaluate(condition, frame)
        if isinstance(node, ast.DictComp):
            self.look_for_cache(node.key, self.evaluate(node.key, frame), frame)
            return self.evaluate(node.value, frame).held()
        return self.evaluate(node.elt, frame).held()

    def _binary(self, node: ast.BinOp, frame: Frame) -> Value:
        left, right = self.evaluate(node.left, frame), self.evaluate(node.right, frame)
        if isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant | ast.JoinedStr):
            return PLAIN
        tags = left.tags | right.tags
        if left.is_tensor or right.is_tensor:
            if frame.forward:
                self.state.compute(node, "arithmetic on a tensor")
            return Value((tags - {HOLDS}) | {TENSOR})
        own = self.state.answer(left | right)
        return own | Value(tags - {ADDRESS} if isinstance(node.op, ast.Mod | ast.BitAnd) else tags)

    def _unary(self, node: ast.UnaryOp, frame: Frame) -> Value:
        value = self.evaluate(node.operand, frame)
        if isinstance(node.op, ast.Not):
            return PLAIN
        if value.is_tensor and frame.forward:
            self.state.compute(node, "arithmetic on a tensor")
        return value.tags_only() | self.state.answer(value)

    def _compare(self, node: ast.Compare, frame: Frame) -> Value:
        values = [self.evaluate(each, frame) for each in (node.left, *node.comparators)]
        for index, operator in enumerate(node.ops):
            pair = values[index] | values[index + 1]
            if isinstance(operator, ast.In | ast.NotIn):
                self.look_for_cache(node, values[index], frame)
            elif not isinstance(operator, ast.Is | ast.IsNot):
                self.look_for_cache(node, pair, frame)
                if pair.is_tensor and frame.forward:
                    self.state.compute(node, "comparison of a tensor's numbers")
        return PLAIN

    def _subscript(self, node: ast.Subscript, frame: Frame) -> Value:
        value, index = self.evaluate(node.value, frame), self.evaluate(node.slice, frame)
        self.look_for_cache(node.slice, index, frame)
        self._look_at_grid(node, value, index, frame)
        if value.is_tensor and frame.forward:
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            if index.carries or any(isinstance(part, ast.List | ast.ListComp) for part in parts):
                self.state.compute(node, "indexing by a tensor or a list")
        at = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if value.items is not None and isinstance(at, int) and -len(value.items) <= at < len(value.items):
            return value.items[at]
        return self.state.element(value)

    def _look_at_grid(self, node: ast.Subscript, value: Value, index: Value, frame: Frame) -> None:
        """Refuse a grid that is more than numbers: it is called on the host, with the kernel's arguments."""
        names = {ref.removeprefix("kernels.") for ref in value.refs} & set(self.state.file.jitted)
        if not names:
            return
        grids = [each.node for each in index.functions]
        plain = all(is_grid(self.state.file, name, each) for name in names for each in grids)
        if not plain or index.carries or index.instances or index.classes:
            why = (
                "a grid is a tuple of numbers, or a lambda that computes them from the kernel's constants by arithmetic"
            )
            self.state.findings.add(RULE, node, why)
        for function in index.functions:
            self.calls.call_function(function, [PLAIN], {}, frame, itself=PLAIN)

    def look_for_cache(self, node: ast.AST, key: Value, frame: Frame) -> None:
        """Refuse looking anything up by which input this is."""
        if frame.forward and ADDRESS in key.tags:
            why = "tells an input by its address, id or version; its content may have changed"
            self.state.findings.add("result-cache", node, why)

    def attribute(self, value: Value, name: str, frame: Frame) -> Value:
        """Return what an attribute of a value may be."""
        return self.attributes.of(value, name, frame)

    def store(self, target: ast.expr, value: Value, frame: Frame, *, in_place: bool = False) -> None:
        """Put a value where an assignment puts it."""
        match target:
            case ast.Name():
                self.state.assign(frame, target.id, value)
            case ast.Tuple() | ast.List():
                for each, part in self._unpacked(target, value):
                    self.store(each, part, frame)
            case ast.Starred():
                self.store(target.value, value.held(), frame)
            case ast.Attribute():
                self._store_attribute(target, value, frame)
            case ast.Subscript():
                self._store_item(target, value, frame, in_place=in_place)

    def _unpacked(self, target: ast.Tuple | ast.List, value: Value) -> Iterator[tuple[ast.expr, Value]]:
        starred = any(isinstance(each, ast.Starred) for each in target.elts)
        if value.items is not None and len(value.items) == len(target.elts) and not starred:
            yield from zip(target.elts, value.items, strict=True)
            return
        for each in target.elts:
            yield each, self.state.element(value)

    def _store_attribute(self, target: ast.Attribute, value: Value, frame: Frame) -> None:
        owner = self.evaluate(target.value, frame)
        if owner.classes and (frame.forward or frame is self.state.module_frame):
            self.state.findings.add("patch", target, "belongs to everyone; a candidate changes only its own")
        for instance in owner.instances:
            self.state.set_attribute(instance, target.attr, value)
            if frame.forward and value.carries and instance in self.state.file.classes:
                why = "keeps a tensor for the next call; its content must be computed anew each time"
                self.state.findings.add("keeps-tensor", target, why, severity="label")

    def _store_item(self, target: ast.Subscript, value: Value, frame: Frame, *, in_place: bool) -> None:
        base = self.evaluate(target.value, frame)
        self.look_for_cache(target.slice, self.evaluate(target.slice, frame), frame)
        if base.is_tensor and frame.forward and not in_place:
            self.state.compute(target, "writing into a tensor")
        if isinstance(target.value, ast.Name | ast.Attribute) and not base.is_tensor:
            self.store(target.value, base | value.held(), frame)

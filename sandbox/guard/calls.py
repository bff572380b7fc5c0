"""What calling something may do and give: the rules on what a candidate's ``forward`` may call."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from sandbox.guard.candidate import called
from sandbox.guard.outside import Outside
from sandbox.guard.state import ELEMENTS, Frame, State
from sandbox.guard.torch_names import CONTAINER_METHODS
from sandbox.guard.triton_source import RULE
from sandbox.guard.values import A_TENSOR, PLAIN, Function, Value, joined

if TYPE_CHECKING:
    from sandbox.guard.expressions import Expressions

Keywords = dict[str, Value]

_MUTATORS = frozenset({"append", "extend", "insert", "add", "update", "setdefault"})
_HIGHER_ORDER = frozenset(
    {"builtins.map", "builtins.filter", "functools.reduce", "functools.partial", "itertools.starmap"}
)
_CACHES = frozenset({"functools.lru_cache", "functools.cache"})
_DECORATORS = frozenset(
    {
        "torch.no_grad", "torch.inference_mode", "torch.enable_grad", "torch.autograd.function.once_differentiable",
        "functools.wraps", "functools.cached_property", "typing.no_type_check", "typing.overload", "typing.final",
        "abc.abstractmethod",
    }
)  # fmt: skip
_PLAIN_DECORATORS = frozenset({"staticmethod", "classmethod", "property"})


class Calls:
    """Evaluates calls in a frame."""

    def __init__(self, state: State, expressions: Expressions) -> None:
        self.state = state
        self.expressions = expressions
        self.outside = Outside(state)

    def call(self, node: ast.Call, frame: Frame) -> Value:
        """Return what a call in the source may give."""
        arguments = [self.expressions.evaluate(each, frame) for each in node.args]
        keywords = {each.arg or "**": self.expressions.evaluate(each.value, frame) for each in node.keywords}
        special = self._special(node, arguments, frame)
        if special is not None:
            return special
        if not isinstance(node.func, ast.Attribute):
            return self.apply(self.expressions.evaluate(node.func, frame), arguments, keywords, node, frame)
        receiver = self.expressions.evaluate(node.func.value, frame)
        callee = self.expressions.attribute(receiver, node.func.attr, frame)
        if self._is_container_method(receiver, node.func.attr):
            held = self._container(node.func, receiver, [*arguments, *keywords.values()], frame)
            return held | self.apply(callee, arguments, keywords, node, frame) if callee.refs else held
        if callee == PLAIN and receiver.carries:
            return self.outside.unknown(node, receiver, frame)
        return self.apply(callee, arguments, keywords, node, frame, receiver=receiver)

    def _special(self, node: ast.Call, arguments: list[Value], frame: Frame) -> Value | None:
        """Evaluate the builtins whose result depends on the call's own form; null for any other call."""
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if not name or self.state.look_up(frame, name) is not None:
            return None
        named = node.args[1].value if len(node.args) > 1 and isinstance(node.args[1], ast.Constant) else None
        match name:
            case "super":
                foreign = {f"{base}()" for base in self.state.foreign_bases(frame.owner)}
                return Value(instances=frozenset(self.state.lineage(frame.owner)[1:]), refs=frozenset(foreign))
            case "getattr" if named is not None:
                return joined([self.expressions.attribute(arguments[0], str(named), frame), *arguments[2:]])
            case "setattr" if named is not None and len(arguments) == 3:
                for instance in arguments[0].instances:
                    self.state.set_attribute(instance, str(named), arguments[2])
                return PLAIN
            case "enumerate" if arguments:
                return pairs([PLAIN, self.state.element(arguments[0])])
            case "zip":
                return pairs([self.state.element(each) for each in arguments])
        return None

    def apply(
        self,
        callee: Value,
        arguments: list[Value],
        keywords: Keywords,
        node: ast.AST,
        frame: Frame,
        *,
        receiver: Value = PLAIN,
    ) -> Value:
        """Return what calling a value may give."""
        results = []
        for function in callee.functions:
            itself = Value(instances=receiver.instances or frozenset({function.owner}))
            results.append(self.call_function(function, arguments, keywords, frame, itself=itself))
        results += [self._construct(name, arguments, keywords, frame) for name in callee.classes]
        results += [self._call_instance(name, arguments, keywords, node, frame) for name in callee.instances]
        results += [self._call_outside(ref, arguments, keywords, node, frame, receiver) for ref in callee.refs]
        if not results:
            return self.outside.unknown(node, joined([*arguments, *keywords.values()]), frame)
        return joined(results)

    def call_function(
        self, function: Function, arguments: list[Value], keywords: Keywords, frame: Frame, *, itself: Value
    ) -> Value:
        """Reach a function of the file with these arguments, and return what it is known to give."""
        inner = self.state.reach(function, forward=frame.forward, itself=itself)
        parameters = function.node.args
        positional = [each.arg for each in (*parameters.posonlyargs, *parameters.args)][1 if function.bound else 0 :]
        names = {*positional, *(each.arg for each in parameters.kwonlyargs)}
        for index, value in enumerate(arguments):
            if index < len(positional):
                self.state.assign(inner, positional[index], value)
            elif parameters.vararg is not None:
                self.state.assign(inner, parameters.vararg.arg, value.held())
        for name, value in keywords.items():
            if name == "**":
                for each in names:
                    self.state.assign(inner, each, self.state.element(value))
            elif name in names:
                self.state.assign(inner, name, value)
            if name not in names and parameters.kwarg is not None:
                self.state.assign(inner, parameters.kwarg.arg, value.held())
        if frame.forward:
            self._look_at_decorators(function, joined([*arguments, *keywords.values()]))
        return self.state.returned(inner)

    def _look_at_decorators(self, function: Function, given: Value) -> None:
        for decorator in getattr(function.node, "decorator_list", []):
            itself = called(decorator)
            dotted = self.state.file.dotted(itself)
            if dotted in _CACHES and given.carries:
                self.state.findings.add(
                    "result-cache", decorator, "keeps results for tensors; their content may change"
                )
            plain = isinstance(itself, ast.Name) and itself.id in _PLAIN_DECORATORS
            if not (
                plain or dotted in _DECORATORS | _CACHES or ast.dump(decorator) in self.state.file.original_decorators
            ):
                self.state.findings.add(
                    "decorator", decorator, "hides what is called; write what it does into the function"
                )

    # --- classes of the file ---------------------------------------------------------------------------------------

    def _construct(self, name: str, arguments: list[Value], keywords: Keywords, frame: Frame) -> Value:
        made = Value(instances=frozenset({name}))
        for method in self.state.special_methods(name):
            inner = self.state.reach(method, forward=True, itself=made)
            for parameter in method.node.args.args[1:]:
                self.state.assign(inner, parameter.arg, made)
        constructors = self.state.methods(name, "__init__")
        for constructor in constructors:
            self.call_function(constructor, arguments, keywords, frame, itself=made)
        if not constructors:
            statements = self.state.file.classes[name].body
            fields = [
                each.target.id
                for each in statements
                if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
            ]
            for field, value in [*zip(fields, arguments, strict=False), *keywords.items()]:
                self.state.set_attribute(name, field, value)
        return made

    def _call_instance(
        self, name: str, arguments: list[Value], keywords: Keywords, node: ast.AST, frame: Frame
    ) -> Value:
        itself = Value(instances=frozenset({name}))
        results = []
        for entry in ("__call__", "forward"):
            methods = self.state.methods(name, entry)
            results += [self.call_function(each, arguments, keywords, frame, itself=itself) for each in methods]
            replaced = self.state.get_attribute(name, entry)
            if replaced is not None:
                results.append(self.apply(replaced, arguments, keywords, node, frame, receiver=itself))
        if results:
            return joined(results)
        bases = [f"{base}()" for base in self.state.foreign_bases(name)] or ["unknown"]
        return joined([self._call_outside(base, arguments, keywords, node, frame, PLAIN) for base in bases])

    def is_autograd_function(self, name: str) -> bool:
        """Whether a class of the file is a ``torch.autograd.Function``."""
        return bool(self.state.foreign_bases(name) & {"torch.autograd.Function", "torch.autograd.function.Function"})

    def _autograd(self, name: str, arguments: list[Value], frame: Frame) -> Value:
        """Call forward and backward of a ``torch.autograd.Function``; both are the candidate's work."""
        context = Value(instances=frozenset({f"ctx:{name}"}))
        apart = self.state.methods(name, "setup_context")
        given = arguments if apart else [context, *arguments]
        forwards = self.state.methods(name, "forward")
        result = joined([self.call_function(each, given, {}, frame, itself=PLAIN) for each in forwards])
        for setup in apart:
            self.call_function(setup, [context, joined(arguments).held(), result], {}, frame, itself=PLAIN)
        for backward in self.state.methods(name, "backward"):
            gradients = [A_TENSOR] * (len(backward.node.args.args) - 1)
            self.call_function(backward, [context, *gradients], {}, frame, itself=PLAIN)
        return result

    # --- everything else -------------------------------------------------------------------------------------------

    def _call_outside(
        self, ref: str, arguments: list[Value], keywords: Keywords, node: ast.AST, frame: Frame, receiver: Value
    ) -> Value:
        if ref.startswith("autograd:"):
            return self._autograd(ref.partition(":")[2], arguments, frame)
        if ref in _HIGHER_ORDER and arguments:
            given = [self.state.element(each) | each for each in arguments[1:]]
            called = self.apply(arguments[0], given, {}, node, frame)
            return joined([called, *arguments]) if ref == "functools.partial" else called.held() | called
        if ref.removeprefix("kernels.") in self.state.file.jitted:
            self._check_launch(joined([*arguments, *keywords.values()]), node)
        if not ref.startswith(("torch.", "kernels.")):
            self._call_back([*arguments, *keywords.values()], frame)
        return self.outside.call(ref, arguments, keywords, node, frame, receiver, self._register)

    def _check_launch(self, given: Value, node: ast.AST) -> None:
        """Triton asks what it is given for an address, and kernels call methods by name: no object or module may be given."""
        modules = {ref for ref in given.refs if "()" not in ref and ref.partition(".")[0] in {"torch", "kernels"}}
        if given.instances or given.classes or given.functions or modules:
            self.state.findings.add(RULE, node, "a kernel of Triton's is given tensors, numbers and texts")

    def _call_back(self, given: list[Value], frame: Frame) -> None:
        """A function of the file that is handed to something outside may be called there with all else that is handed over."""
        rest = joined(given)
        for function in rest.functions:
            parameters = len(function.node.args.args) - (1 if function.bound else 0)
            others = [Value(rest.tags | rest.element().tags, instances=rest.instances)] * parameters
            self.call_function(function, others, {}, frame, itself=Value(instances=frozenset({function.owner})))

    def _register(self, node: ast.AST, value: Value, frame: Frame) -> None:
        """Give the receiver of ``register_buffer`` and its like the attribute it registers."""
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
            return
        name = str(node.args[0].value) if isinstance(node.args[0], ast.Constant) else ELEMENTS
        receiver = self.expressions.evaluate(node.func.value, frame)
        for instance in receiver.instances | ({frame.owner} if isinstance(node.func.value, ast.Call) else set()):
            self.state.set_attribute(instance, name, value)
            self.state.set_attribute(instance, ELEMENTS, value)

    def _is_container_method(self, receiver: Value, name: str) -> bool:
        own = any(self.state.methods(each, name) for each in receiver.instances)
        return name in CONTAINER_METHODS and not receiver.is_tensor and not own and not receiver.classes

    def _container(self, func: ast.Attribute, receiver: Value, given: list[Value], frame: Frame) -> Value:
        """A list or dictionary, or a module that holds others, is read or added to."""
        if func.attr in {"get", "pop", "setdefault"} and given:
            self.expressions.look_for_cache(func, given[0], frame)
        if func.attr in _MUTATORS and isinstance(func.value, ast.Name | ast.Attribute):
            put = joined([*(self.state.element(each) for each in given), *given])
            self.expressions.store(func.value, receiver | put.held(), frame)
            for instance in receiver.instances:
                self.state.set_attribute(instance, ELEMENTS, put.element())
        if func.attr == "items":
            return pairs([PLAIN, self.state.element(receiver)])
        if func.attr in {"keys", "values"}:
            return receiver
        return joined([self.state.element(receiver), *given[1:]])


def pairs(items: list[Value]) -> Value:
    """Return an iterable of tuples with these parts."""
    tags = joined(items).held().tags
    return Value(tags, items=(Value(tags, items=tuple(items)),))

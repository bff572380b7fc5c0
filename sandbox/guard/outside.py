"""Calls of what the candidate's file does not define: torch, tensors' methods, kernels, builtins, anything else."""

from __future__ import annotations

import ast
from collections.abc import Callable

from sandbox.guard.names import denied, forbidden_module
from sandbox.guard.state import Frame, State
from sandbox.guard.torch_names import (
    ADDRESSES,
    ALLOCATIONS,
    CONTAINERS,
    FREE_MODULES,
    MODULE_METHODS,
    MULTIPLE,
    NEW_METHODS,
    QUESTION_METHODS,
    QUESTIONS,
    STREAMS,
    VIEW_METHODS,
    VIEWS,
)
from sandbox.guard.values import A_TENSOR, ADDRESS, HOLDS, INPUT, PLAIN, TENSOR, Value, joined

Register = Callable[[ast.AST, Value, Frame], None]

_EXTENSION_MAKERS = frozenset({"torch.utils.cpp_extension.load_inline", "torch.utils.cpp_extension.load"})
_REGISTER = frozenset({"register_buffer", "register_parameter", "register_module", "add_module"})
_TENSOR_GIVERS = frozenset(
    {"parameters", "buffers", "named_parameters", "named_buffers", "state_dict", "get_parameter", "get_buffer"}
)
_WALKS = frozenset({"children", "modules", "named_children", "named_modules", "get_submodule"})
_NUMBERS = frozenset(
    {"abs", "int", "float", "bool", "complex", "round", "pow", "divmod", "hash", "format", "any", "all"}
)
_REDUCING = frozenset({"min", "max", "sum", "sorted"})
_PASSING = frozenset({"tuple", "list", "set", "frozenset", "dict", "reversed", "iter", "sorted"})
_STANDARD = frozenset(
    {
        "abc",
        "contextlib",
        "logging",
        "textwrap",
        "typing",
        "dataclasses",
        "enum",
        "functools",
        "itertools",
        "warnings",
        "numbers",
        "__future__",
    }
)


class Outside:
    """Evaluates a call of a dotted name."""

    def __init__(self, state: State) -> None:
        self.state = state

    def call(
        self,
        ref: str,
        arguments: list[Value],
        keywords: dict[str, Value],
        node: ast.AST,
        frame: Frame,
        receiver: Value,
        register: Register,
    ) -> Value:
        """Return what calling ``ref`` may give; ``receiver`` is whose method it is."""
        given = joined([*arguments, *keywords.values()])
        root, _, rest = ref.partition(".")
        match root:
            case _ if root == "context" or (root == "kernels" and "." not in rest):
                return PLAIN
            case "extension()":
                return A_TENSOR
            case "builtins":
                return self._builtin(rest, given, node, frame)
            case "tensor":
                return self._tensor_method(rest, receiver, node, frame)
            case "torch":
                if forbidden_module(ref) and "()" not in ref:
                    self.state.findings.add("forbidden-module", node, f"{ref} has no use in calling a kernel")
                if "()" in ref:
                    return self._module(ref, arguments, given, node, frame, register)
                return self._torch(ref, given, node, frame)
            case "math":
                if given.carries and frame.forward:
                    self.state.compute(node, f"{ref} of a tensor")
                return PLAIN
            case "collections":
                return given
            case _ if root in _STANDARD:
                return given.tags_only()
            case _:
                return self.unknown(node, given | receiver if receiver.carries else given, frame)

    def unknown(self, node: ast.AST, given: Value, frame: Frame) -> Value:
        """Refuse to hand tensors to something nobody can see."""
        if frame.forward and given.carries:
            why = "hands tensors to what is neither a kernel of kernels/ nor defined in this file"
            self.state.findings.add("unknown-call", node, why)
        return Value(given.tags | given.element().tags)

    def _builtin(self, name: str, given: Value, node: ast.AST, frame: Frame) -> Value:
        reads = (given.is_tensor and name in _NUMBERS | _REDUCING) or (HOLDS in given.tags and name in _REDUCING)
        if reads and frame.forward:
            self.state.compute(node, f"{name}() of a tensor")
        if name == "id":
            return Value(frozenset({ADDRESS}) if INPUT in given.tags else frozenset())
        if name == "next":
            return given.element()
        if name in _PASSING:
            return given.held()
        return given.element().tags_only() if name in _REDUCING else PLAIN

    def _tensor_method(self, name: str, receiver: Value, node: ast.AST, frame: Frame) -> Value:
        if name in NEW_METHODS:
            return A_TENSOR
        if name in ADDRESSES:
            return Value(frozenset({ADDRESS}) if INPUT in receiver.tags else frozenset())
        if name in QUESTION_METHODS:
            return PLAIN
        if name not in VIEW_METHODS:
            if frame.forward:
                self.state.compute(node, f"Tensor.{name}")
            return A_TENSOR
        if name == "contiguous" and frame.forward:
            self.state.findings.add("copy", node, "copies a tensor that is not contiguous", severity="label")
        view = Value(receiver.tags | {TENSOR})
        return view.held() if name in MULTIPLE else view

    def _torch(self, ref: str, given: Value, node: ast.AST, frame: Frame) -> Value:
        """A function or class of torch is called."""
        name = ref.rpartition(".")[2]
        if ref in _EXTENSION_MAKERS:
            return Value(refs=frozenset({"extension()"}))
        if ref in ALLOCATIONS:
            return A_TENSOR
        if ref in QUESTIONS:
            return PLAIN
        if ref in STREAMS:
            return Value(refs=frozenset({f"{ref}()"}))
        if ref in VIEWS:
            view = Value(given.tags | {TENSOR})
            return view.held() if name in MULTIPLE else view
        if frame.forward:
            self._compute(ref, node)
        if ref.startswith("torch.nn.") and name[:1].isupper() and name not in {"Parameter", "Buffer"}:
            made = f"torch.nn.{name}()"
            held = given.element() | given.held() if made in CONTAINERS else PLAIN
            return Value(refs=frozenset({made})) | held
        return Value((given.tags - {HOLDS}) | {TENSOR})

    def _compute(self, ref: str, node: ast.AST) -> None:
        """Note a call of torch by the rule that names it best."""
        known = denied(ref)
        if known is None:
            self.state.compute(node, ref)
        else:
            self.state.findings.add(known.rule, node, f"{ref}: {known.why}", severity=known.severity)

    def _module(
        self, ref: str, arguments: list[Value], given: Value, node: ast.AST, frame: Frame, register: Register
    ) -> Value:
        """A module of torch is called, or one of its methods."""
        module, _, method = ref.partition("()")
        if module in STREAMS:
            return Value(refs=frozenset({"torch.cuda.Event()"}))
        method = method.removeprefix(".")
        if method in _REGISTER:
            register(node, arguments[1] if len(arguments) > 1 else PLAIN, frame)
            return PLAIN
        if method in _TENSOR_GIVERS:
            return A_TENSOR | A_TENSOR.held()
        if method == "__init__" and f"{module}()" in CONTAINERS:
            register(node, given.element() | given, frame)
            return PLAIN
        if method in _WALKS:
            return Value(refs=frozenset({"torch.nn.Module()"}))
        if method in MODULE_METHODS:
            return Value(refs=frozenset({f"{module}()"}))
        if not method and f"{module}()" in CONTAINERS | FREE_MODULES:
            return given
        if module == "torch.nn.Module":
            return self.unknown(node, given, frame)
        if frame.forward:
            self.state.compute(node, f"{module}.{method or 'forward'}")
        return Value((given.tags - {HOLDS}) | {TENSOR})

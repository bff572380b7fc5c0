"""What was verified of a landed module, and why a call is not of that kind.

Every reason is made of names known beforehand, so that a compiler can trace the checks.
"""

from __future__ import annotations

import ast
import inspect
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.autograd import forward_ad

_ALIGNMENT = 16
_GRADIENTS = "gradients are on; call it under torch.no_grad() or torch.inference_mode()"
_PLAIN = (torch.Tensor, nn.Parameter)
_tracing_state: Callable[[], Any] = torch._C._get_tracing_state
_functorch_level: Callable[[], Any] = torch._C._functorch.peek_interpreter_stack


class Expected:
    """A tensor as it was when the kernels were verified."""

    def __init__(self, record: dict[str, Any], device: str) -> None:
        self.name: str = record["name"]
        self.dtype: torch.dtype = getattr(torch, record["dtype"])
        self.shape = tuple(record["shape"])
        self.strides = None if record["strides"] is None else tuple(record["strides"])
        self.device = device

    def differs(self, tensor: torch.Tensor, compiling: bool) -> str:
        """Return how a tensor differs, or an empty text."""
        if tensor.dtype is not self.dtype:
            return f"{self.name} is not {self.dtype}"
        if tensor.shape != self.shape:
            return f"the shape of {self.name} is not {self.shape}"
        if tensor.device.type != self.device:
            return f"{self.name} is not on {self.device}"
        if not (tensor.is_contiguous() if self.strides is None else tensor.stride() == self.strides):
            return f"{self.name} is not {'contiguous' if self.strides is None else f'of strides {self.strides}'}"
        if compiling:  # the compiler keeps tensors aligned by itself
            return ""
        if type(tensor) not in _PLAIN:
            return f"{self.name} is of a subclass of Tensor"
        return (
            ""
            if tensor.data_ptr() % _ALIGNMENT == 0
            else f"{self.name} does not begin at a multiple of {_ALIGNMENT} bytes"
        )


class Contract:
    """What a call of a landed class must be like for its kernels to run.

    Args:
        record: ``signature`` (inputs, then state), ``constants``, ``device``, ``training`` and ``init`` as landed.
        cls: The landed class, its constructor and forward not yet wrapped.
    """

    def __init__(self, record: dict[str, Any], cls: type[nn.Module]) -> None:
        parameters = list(inspect.signature(cls.forward).parameters.values())[1:]
        self._class = cls
        self._device: str = record["device"]
        self._training: bool = record["training"]
        self._positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        self._constants = {p.name: p.default for p in parameters if p.default is not p.empty}
        self._constants.update({name: _value(text) for name, text in record["constants"].items()})
        signature = [Expected(each, self._device) for each in record["signature"]]
        self._inputs, self._state = _split(signature, {p.name for p in parameters} | {"args"})
        self._init: dict[str, Any] | None = record["init"]
        self._constructor = inspect.signature(cls.__init__)
        self._known: weakref.WeakKeyDictionary[nn.Module, _Snapshot] = weakref.WeakKeyDictionary()

    def differs(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """Return why a call is not of the kind that was verified, or an empty text."""
        compiling = torch.compiler.is_compiling()
        grad = torch.is_grad_enabled()
        return (
            self._mode(module, compiling)
            or self._arguments(args, kwargs, grad, compiling)
            or self._module(module, grad, compiling)
        )

    def built(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """Return how the constructor's arguments differ from those verified, or an empty text."""
        if self._init is None:
            return ""
        keywords = {key: _value(text) for key, text in self._init["kwargs"].items()}
        wanted = self._constructor.bind(module, *map(_value, self._init["args"]), **keywords)
        found = self._constructor.bind(module, *args, **kwargs)
        wanted.apply_defaults()
        found.apply_defaults()
        for name, value in list(wanted.arguments.items())[1:]:
            if not _agree(value, found.arguments.get(name)):
                return f"it was constructed with another {name}"
        return ""

    def _mode(self, module: Any, compiling: bool) -> str:
        """Compare what holds for the whole call."""
        if type(module) is not self._class:
            return "it is an instance of a subclass"
        if module._landed_built:
            return str(module._landed_built)
        if module.training is not self._training:
            return f"it is in {'eval' if self._training else 'train'} mode"
        if torch.is_autocast_enabled(self._device):
            return "autocast is on"
        if torch.onnx.is_in_onnx_export():
            return "it is exported to ONNX"
        if not compiling and (_tracing_state() or _functorch_level() or forward_ad._current_level >= 0):
            return "it is traced or transformed"
        return ""

    def _arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any], grad: bool, compiling: bool) -> str:
        """Compare the arguments of forward."""
        tensors = 0
        for name, value in self._leaves(args, kwargs):
            if not isinstance(value, torch.Tensor):
                if name not in self._constants or not _agree(self._constants[name], value):
                    return f"{name} has a value that was not verified"
                continue
            if name not in self._inputs:
                return f"{name} was not verified as a tensor"
            if grad and value.requires_grad:
                return _GRADIENTS
            difference = self._inputs[name].differs(value, compiling)
            if difference:
                return difference
            tensors += 1
        return "" if tensors == len(self._inputs) else "an input is missing"

    def _leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, Any]]:
        """Name every tensor and plain value among the arguments, as ``x`` or ``x[0]['mask']``."""
        leaves: list[tuple[str, Any]] = []
        for index, value in enumerate(args):
            _flatten(self._positional[index] if index < len(self._positional) else f"args[{index}]", value, leaves)
        for name, value in kwargs.items():
            _flatten(name, value, leaves)
        return leaves

    def _module(self, module: Any, grad: bool, compiling: bool) -> str:
        """Compare parameters, buffers and parts; what was found right before is only compared with itself."""
        if compiling:
            return self._examine(module, grad, compiling)
        known = self._known.get(module)
        if known is not None and known.holds(grad):
            return ""
        difference = self._examine(module, grad, compiling)
        if not difference:
            self._known[module] = _Snapshot(module)
        return difference

    def _examine(self, module: Any, grad: bool, compiling: bool) -> str:
        seen = []
        others = []
        for name, tensor in _tensors(module, ""):
            if grad and tensor.requires_grad:
                return _GRADIENTS
            if name not in self._state:
                others.append(tensor)
                continue
            difference = self._state[name].differs(tensor, compiling)
            if difference:
                return difference
            seen.append(tensor)
        tied = all(any(tensor is each for each in seen) for tensor in others)
        if len(seen) != len(self._state) or not tied:
            return "its parameters or buffers are others"
        return "" if parts(module) == module._landed_parts else "its parts were replaced or have hooks"


class _Snapshot:
    """A module's parameters, buffers and parts, in a form that is compared with them in a microsecond or two."""

    def __init__(self, module: nn.Module) -> None:
        modules = list(module.modules())
        stores: list[Any] = [store for each in modules for store in (each._parameters, each._buffers)]
        self._sizes = [(store, len(store)) for store in [*stores, *(each._modules for each in modules)]]
        self._tensors = [
            (store, name, tensor, tensor.data_ptr(), tensor.dtype, tensor.shape)
            for store in stores
            for name, tensor in store.items()
            if tensor is not None
        ]
        self._parts = [
            (each._modules, name, part) for each in modules for name, part in each._modules.items() if part is not None
        ]

    def holds(self, grad: bool) -> bool:
        """Whether nothing has changed but the tensors' contents; with ``grad`` none may require gradients either."""
        for store, size in self._sizes:
            if len(store) != size:
                return False
        for store, name, tensor, pointer, dtype, shape in self._tensors:
            if store.get(name) is not tensor or tensor.data_ptr() != pointer or tensor.dtype is not dtype:
                return False
            if tensor.shape != shape or (grad and tensor.requires_grad):
                return False
        return all(store.get(name) is part and not _is_hooked(part) for store, name, part in self._parts)


def parts(module: Any, prefix: str = "") -> tuple[tuple[str, str], ...]:
    """Return path and class of each part of a module; one that has hooks, or a forward of its own, has no class."""
    found: tuple[tuple[str, str], ...] = ()
    for name, part in module._modules.items():
        if part is not None:
            kind = "" if _is_hooked(part) else f"{type(part).__module__}.{type(part).__qualname__}"
            found += ((prefix + name, kind), *parts(part, f"{prefix}{name}."))
    return found


def _is_hooked(part: Any) -> bool:
    return bool(part._forward_hooks or part._forward_pre_hooks) or "forward" in part.__dict__


def _split(signature: list[Expected], names: set[str]) -> tuple[dict[str, Expected], dict[str, Expected]]:
    """Split a signature into the inputs, which come first and are named after parameters of forward, and the state."""
    inputs: dict[str, Expected] = {}
    for position, expected in enumerate(signature):
        if expected.name.partition("[")[0] not in names or expected.name in inputs:
            return inputs, {each.name: each for each in signature[position:]}
        inputs[expected.name] = expected
    return inputs, {}


def _flatten(name: str, value: Any, leaves: list[tuple[str, Any]]) -> None:
    if isinstance(value, (tuple, list)):
        for index, item in enumerate(value):
            _flatten(f"{name}[{index}]", item, leaves)
    elif isinstance(value, dict):
        for key, item in value.items():
            _flatten(f"{name}[{key!r}]", item, leaves)
    else:
        leaves.append((name, value))


def _tensors(module: Any, prefix: str) -> Iterator[tuple[str, torch.Tensor]]:
    for store in (module._parameters, module._buffers):
        for name, tensor in store.items():
            if tensor is not None:
                yield prefix + name, tensor
    for name, part in module._modules.items():
        if part is not None:
            yield from _tensors(part, f"{prefix}{name}.")


def _value(text: str | None) -> Any:
    """Read a recorded literal; Ellipsis stands for a value that was not recorded."""
    return Ellipsis if text is None else ast.literal_eval(text)


def _agree(wanted: Any, found: Any) -> bool:
    """Whether a plain value is the one that was verified; one that was not recorded agrees with any."""
    if wanted is Ellipsis:
        return True
    return type(wanted) is type(found) and bool(wanted == found)

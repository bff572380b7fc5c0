"""What was verified of a landed module, and why a call is not of that kind.

Every reason is a text made beforehand, so that the checks cost little and a compiler can trace them.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

_ALIGNMENT = 16


class Expected:
    """A tensor as it was when the kernels were verified, and what to say of one that is not like it."""

    def __init__(self, record: dict[str, Any]) -> None:
        self.name: str = record["name"]
        self.dtype: torch.dtype = getattr(torch, record["dtype"])
        self.shape = tuple(record["shape"])
        self.strides: tuple[int, ...] | None = None if record["strides"] is None else tuple(record["strides"])
        self._dtype = f"{self.name} is not {record['dtype']}"
        self._shape = f"the shape of {self.name} is not {list(self.shape)}"
        self._layout = (
            f"{self.name} is not {'contiguous' if self.strides is None else f'of strides {list(self.strides)}'}"
        )
        self._aligned = f"{self.name} does not begin at a multiple of {_ALIGNMENT} bytes"
        self._subclass = f"{self.name} is of a subclass of Tensor"

    def differs(self, tensor: torch.Tensor) -> str:
        """Return how a tensor differs, or an empty text."""
        if tensor.dtype is not self.dtype:
            return self._dtype
        if tensor.shape != self.shape:
            return self._shape
        if not (tensor.is_contiguous() if self.strides is None else tensor.stride() == self.strides):
            return self._layout
        if torch.compiler.is_compiling():
            start = tensor.storage_offset() * tensor.element_size()
        elif type(tensor) is torch.Tensor or type(tensor) is nn.Parameter:
            start = tensor.data_ptr()
        else:
            return self._subclass
        return self._aligned if start % _ALIGNMENT else ""


class Contract:
    """What a call of a landed class must be like for its kernels to run.

    Args:
        record: ``signature`` (inputs and state), ``constants``, ``device``, ``training`` and ``init`` as landed.
        cls: The landed class, its constructor and forward not yet wrapped.
    """

    def __init__(self, record: dict[str, Any], cls: type[nn.Module]) -> None:
        parameters = list(inspect.signature(cls.forward).parameters.values())[1:]
        self._positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        self._constants = {p.name: p.default for p in parameters if p.default is not p.empty}
        self._constants.update({name: _value(text) for name, text in record["constants"].items()})
        names = {p.name for p in parameters} | {"args"}
        self._inputs, self._state = _split([Expected(each) for each in record["signature"]], names)
        self._device: str = record["device"]
        self._training: bool = record["training"]
        self._init: dict[str, Any] | None = record["init"]
        self._constructor = inspect.signature(cls.__init__)
        self._class = cls

    def differs(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """Return why a call is not of the kind that was verified, or an empty text."""
        return self._mode(module) or self._call(args, kwargs) or self._module(module)

    def built(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """Return how the constructor's arguments differ from those verified, or an empty text."""
        if self._init is None:
            return ""
        args_, kwargs_ = self._init["args"], self._init["kwargs"]
        wanted = self._constructor.bind(
            module, *map(_value, args_), **{key: _value(text) for key, text in kwargs_.items()}
        )
        found = self._constructor.bind(module, *args, **kwargs)
        wanted.apply_defaults()
        found.apply_defaults()
        for name, value in list(wanted.arguments.items())[1:]:
            if not _agree(value, found.arguments.get(name)):
                return f"it was constructed with another {name}"
        return ""

    def _mode(self, module: Any) -> str:
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
        if not torch.compiler.is_compiling() and _transformed():
            return "it is traced or transformed"
        return ""

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """Compare the arguments."""
        grad = torch.is_grad_enabled()
        seen = 0
        for name, value in self._leaves(args, kwargs):
            if not isinstance(value, torch.Tensor):
                if name not in self._constants or not _agree(self._constants[name], value):
                    return f"{name} has a value that was not verified"
                continue
            expected = self._inputs.get(name)
            if expected is None:
                return f"{name} was not a tensor"
            if value.device.type != self._device:
                return f"{name} is not on {self._device}"
            if grad and value.requires_grad:
                return "gradients are on; call it under torch.no_grad() or torch.inference_mode()"
            difference = expected.differs(value)
            if difference:
                return difference
            seen += 1
        return "" if seen == len(self._inputs) else "an input is missing"

    def _leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, Any]]:
        leaves: list[tuple[str, Any]] = []
        for index, value in enumerate(args):
            name = self._positional[index] if index < len(self._positional) else f"args[{index}]"
            _flatten(name, value, leaves)
        for name, value in kwargs.items():
            _flatten(name, value, leaves)
        return leaves

    def _module(self, module: Any) -> str:
        """Compare parameters, buffers and parts."""
        grad = torch.is_grad_enabled()
        extra = []
        seen = []
        for name, tensor in _tensors(module, ""):
            if grad and tensor.requires_grad:
                return "gradients are on; call it under torch.no_grad() or torch.inference_mode()"
            expected = self._state.get(name)
            if expected is None:
                extra.append(tensor)
                continue
            if tensor.device.type != self._device:
                return f"{name} is not on {self._device}"
            difference = expected.differs(tensor)
            if difference:
                return difference
            seen.append(tensor)
        if len(seen) != len(self._state) or any(all(tensor is not other for other in seen) for tensor in extra):
            return "its parameters or buffers are others"
        return "" if _parts(module) == module._landed_parts else "its parts were replaced or have hooks"


def parts(module: nn.Module) -> tuple[tuple[str, str], ...]:
    """Return the names and classes of a module's parts, as it is to keep them."""
    return _parts(module)


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
    for members in (module._parameters, module._buffers):
        for name, tensor in members.items():
            if tensor is not None:
                yield prefix + name, tensor
    for name, part in module._modules.items():
        if part is not None:
            yield from _tensors(part, f"{prefix}{name}.")


def _parts(module: Any, prefix: str = "") -> tuple[tuple[str, str], ...]:
    """Return path and class of each part; a part with hooks, or a forward of its own, has no class."""
    found: tuple[tuple[str, str], ...] = ()
    for name, part in module._modules.items():
        if part is not None:
            hooked = part._forward_hooks or part._forward_pre_hooks or "forward" in part.__dict__
            kind = "" if hooked else f"{type(part).__module__}.{type(part).__qualname__}"
            found += ((prefix + name, kind), *_parts(part, f"{prefix}{name}."))
    return found


def _value(text: str | None) -> Any:
    """Read a recorded literal; Ellipsis stands for a value that was not recorded."""
    return Ellipsis if text is None else ast.literal_eval(text)


def _agree(wanted: Any, found: Any) -> bool:
    """Whether a plain value is the one that was verified; one that was not recorded agrees with any."""
    if wanted is Ellipsis:
        return True
    return type(wanted) is type(found) and bool(wanted == found)


def _transformed() -> bool:
    """Whether forward runs under jit tracing, a functorch transform or forward-mode differentiation."""
    from torch.autograd import forward_ad

    jit: Any = torch.jit
    peek: Callable[[], Any] = torch._C._functorch.peek_interpreter_stack
    return jit.is_tracing() or peek() is not None or forward_ad._current_level >= 0

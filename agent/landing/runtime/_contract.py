"""What was verified of a landed module, and why a call is not of that kind.

Every reason is made of names known beforehand, so that a compiler can trace the checks.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.autograd import forward_ad

from ._known import ALIGNMENT, is_traced_early
from ._parts import changed_setting, other_attribute, other_mode, parts

_GRADIENTS = "gradients are on; call it under torch.no_grad() or torch.inference_mode()"
_PLAIN = (torch.Tensor, nn.Parameter)
_tracing_state: Callable[[], Any] = torch._C._get_tracing_state
_functorch_level: Callable[[], Any] = torch._C._functorch.peek_interpreter_stack
_COMPILES_RIGHT = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 9)
"""Compiled by torch 2.4.0, what follows a kernel read its output as it was before; 2.6 is right, but cannot tell an export."""
_PROXIES = torch._C._TorchDispatchModeKey.PROXY


def _cannot_tell() -> bool:
    return False


_is_exporting: Callable[[], bool] = getattr(torch.compiler, "is_exporting", _cannot_tell)
"""Older versions do not tell; an export with dynamic shapes then ends with an error that asks for a size."""


class Expected:
    """A tensor as it was when the kernels were verified.

    Args:
        record: ``name``, ``dtype``, ``shape`` and ``strides`` (null if contiguous).
        device: ``cpu`` or ``cuda``.
        ranges: By dimension, the lowest and the highest size that was verified, where there was more than one.
    """

    def __init__(self, record: dict[str, Any], device: str, ranges: dict[int, tuple[int, int]]) -> None:
        self.name: str = record["name"]
        self.dtype: torch.dtype = getattr(torch, record["dtype"])
        self.shape = tuple(record["shape"])
        self.strides = None if record["strides"] is None else tuple(record["strides"])
        self.device = device
        self._channels_last = self.strides is not None and self.strides == _channels_last_strides(self.shape)
        self.ranges = ranges if self.strides is None or self._channels_last else {}
        self._shown = _shape_text(self.shape, self.ranges)
        self._layout = (
            "contiguous"
            if self.strides is None
            else "in channels_last"
            if self._channels_last
            else f"of strides {self.strides}"
        )
        self._fixed = [(dim, size) for dim, size in enumerate(self.shape) if dim not in self.ranges]

    def differs(self, tensor: torch.Tensor, compiling: bool) -> str:
        """Return how a tensor differs, or an empty text."""
        if tensor.layout is not torch.strided:
            return f"{self.name} is sparse"
        if tensor.dtype is not self.dtype:
            return f"{self.name} is not {self.dtype}"
        if not self._fits(tensor):
            return f"the shape of {self.name} is not {self._shown}"
        if tensor.device.type != self.device:
            return f"{self.name} is not on {self.device}"
        if not self._lies_right(tensor):
            return f"{self.name} is not {self._layout}"
        if compiling:  # the compiler keeps tensors aligned by itself
            return ""
        if type(tensor) not in _PLAIN:
            return f"{self.name} is of a subclass of Tensor"
        if tensor.is_conj() or tensor.is_neg():
            return f"{self.name} is a lazily conjugated or negated view"
        return (
            ""
            if tensor.data_ptr() % ALIGNMENT == 0
            else f"{self.name} does not begin at a multiple of {ALIGNMENT} bytes"
        )

    def _lies_right(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor of a right shape is laid out as the verified one was."""
        if self.strides is None:
            return tensor.is_contiguous()
        if self._channels_last:
            return tensor.is_contiguous(memory_format=torch.channels_last)
        return tensor.stride() == self.strides

    def _fits(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor's sizes are verified ones."""
        if not self.ranges and not _is_exporting():
            return tensor.shape == self.shape
        if len(tensor.shape) != len(self.shape):
            return False
        for dim, size in self._fixed:
            if not _surely(tensor.shape[dim] == size):
                return False
        for dim, (low, high) in self.ranges.items():
            if not (_surely(tensor.shape[dim] >= low) and _surely(tensor.shape[dim] <= high)):
                return False
        return True


class Contract:
    """What a call of a landed class must be like for its kernels to run.

    Args:
        record: ``signature`` (inputs, then state), ``constants``, ``device``, ``training``, ``gradients``, ``both_modes``,
            ``autocast``, ``ranges``, ``modes``, ``attributes`` and ``init`` as landed.
        cls: The landed class, its constructor and forward not yet wrapped.

    Attributes:
        held: Path and names of the attributes that have to be as they were verified.
    """

    def __init__(self, record: dict[str, Any], cls: type[nn.Module]) -> None:
        parameters = list(inspect.signature(cls.forward).parameters.values())[1:]
        self._class = cls
        self._device: str = record["device"]
        self._gradients: bool = record["gradients"]
        self._modes = (True, False) if record["both_modes"] else (record["training"],)
        self._exceptions: dict[str, bool] = record["modes"]
        self._attributes = [
            (path, tuple(name.split(".")), _value(text))
            for path, named in record["attributes"].items()
            for name, text in named.items()
        ]
        self.held = [(path, names) for path, names, _ in self._attributes]
        self._autocast: str = record["autocast"]
        self._positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        self._constants = {p.name: p.default for p in parameters if p.default is not p.empty}
        self._constants.update({name: _value(text) for name, text in record["constants"].items()})
        self._tied = [[_dimension(dim) for dim in each["dims"]] for each in record["ranges"]]
        ranges = {dim: (each["low"], each["high"]) for each in record["ranges"] for dim in each["dims"]}
        signature = [Expected(each, self._device, _ranges_of(each["name"], ranges)) for each in record["signature"]]
        self._inputs, self._state = _split(signature, {p.name for p in parameters} | {"args"})
        self._init: dict[str, Any] | None = record["init"]
        self._constructor = inspect.signature(cls.__init__)

    def differs(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """Return why a call is not of the kind that was verified, or an empty text."""
        compiling = torch.compiler.is_compiling()
        grad = torch.is_grad_enabled() and not self._gradients
        return (
            self._surroundings(module, compiling)
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

    def _surroundings(self, module: Any, compiling: bool) -> str:
        """Compare what holds for the whole call."""
        if type(module) is not self._class:
            return "it is an instance of a subclass"
        if module._landed_built:
            return str(module._landed_built)
        if compiling and not _COMPILES_RIGHT:
            return "it is compiled, and this torch may lose what kernels write there"
        mode = other_mode(module, self._modes, self._exceptions)
        if mode:
            return mode
        autocast = str(torch.get_autocast_dtype(self._device)) if torch.is_autocast_enabled(self._device) else ""
        if autocast != self._autocast:
            return "autocast is on" if not self._autocast else f"autocast is not on with {self._autocast}"
        if torch.onnx.is_in_onnx_export():
            return "it is exported to ONNX"
        return "it is traced or transformed" if not compiling and _is_traced() else ""

    def _arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any], grad: bool, compiling: bool) -> str:
        """Compare the arguments of forward."""
        tensors: dict[str, torch.Tensor] = {}
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
            tensors[name] = value
        if len(tensors) != len(self._inputs):
            return "an input is missing"
        for dims in self._tied:
            sizes = [tensors[name].shape[dim] for name, dim in dims]
            for size in sizes[1:]:
                if not _surely(size == sizes[0]):
                    return "its inputs disagree in a size that they have together"
        return ""

    def _leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, Any]]:
        """Name every tensor and plain value among the arguments, as ``x`` or ``x[0]['mask']``."""
        leaves: list[tuple[str, Any]] = []
        for index, value in enumerate(args):
            _flatten(self._positional[index] if index < len(self._positional) else f"args[{index}]", value, leaves)
        for name, value in kwargs.items():
            _flatten(name, value, leaves)
        return leaves

    def _module(self, module: Any, grad: bool, compiling: bool) -> str:
        """Compare parameters, buffers, parts and plain attributes."""
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
        if parts(module) != module._landed_parts:
            return "its parts were replaced or have hooks"
        return changed_setting(module) or other_attribute(module, self._attributes)


def _is_traced() -> bool:
    """Whether something other than torch.compile and torch.export looks on, and keeps what it sees for other calls."""
    if _tracing_state() or _functorch_level() or forward_ad._current_level >= 0:
        return True
    return torch._C._get_dispatch_mode(_PROXIES) is not None or is_traced_early()


def _surely(condition: Any) -> bool:
    """Whether something is true of sizes; of those that an export leaves open, whether it is true of all."""
    if not _is_exporting():
        return bool(condition)
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    return statically_known_true(condition)


def _channels_last_strides(shape: tuple[int, ...]) -> tuple[int, ...] | None:
    if len(shape) != 4:
        return None
    _, channels, height, width = shape
    return height * width * channels, 1, width * channels, channels


def _shape_text(shape: tuple[int, ...], ranges: dict[int, tuple[int, int]]) -> str:
    if not ranges:
        return str(shape)
    sizes = [f"{ranges[dim][0]} to {ranges[dim][1]}" if dim in ranges else str(n) for dim, n in enumerate(shape)]
    return f"({', '.join(sizes)})"


def _dimension(text: str) -> tuple[str, int]:
    """Read ``x.0``: an input's name and one of its dimensions."""
    name, _, dim = text.rpartition(".")
    return name, int(dim)


def _ranges_of(name: str, ranges: dict[str, tuple[int, int]]) -> dict[int, tuple[int, int]]:
    return {
        dim: sizes
        for (owner, dim), sizes in ((_dimension(key), value) for key, value in ranges.items())
        if owner == name
    }


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

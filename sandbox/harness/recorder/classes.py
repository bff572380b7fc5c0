"""The classes whose modules are called, what their calls look like, and the time that was spent in them."""

from __future__ import annotations

import ast
import functools
import sys
from pathlib import Path
from typing import Any, Dict, Iterable, List, Set, Tuple

import torch
from torch import nn

from .portrait import class_of

_MOST_VARIANTS = 48
_TABLES = (nn.Embedding, nn.EmbeddingBag)
_TIMES = ("own", "mine", "total", "backward_own", "backward_mine", "backward_total")
_FROM_TORCH = ("torch", "torchgen", "functorch")


class Spent:
    """Nanoseconds of one kind of work: on the device, and on the host."""

    __slots__ = ("device", "host")

    def __init__(self) -> None:
        self.device = 0.0
        self.host = 0.0

    def add(self, device: float, host: float) -> None:
        """Add a stretch of time."""
        self.device += device
        self.host += host

    def forget(self) -> None:
        """Begin at nothing again."""
        self.device = self.host = 0.0

    def to_json(self) -> List[float]:
        """Return device and host time, in microseconds."""
        return [round(self.device / 1000, 3), round(self.host / 1000, 3)]


class Variant:
    """Calls of a class that look alike: shapes, dtypes, mode, grad and autocast."""

    def __init__(self, about: Dict[str, Any]) -> None:
        self.about = about
        self.calls = 0
        self.spent = Spent()

    def to_json(self) -> Dict[str, Any]:
        """Return it as JSON data."""
        return {**self.about, "calls": self.calls, "spent_us": self.spent.to_json()}


class ModuleKind:
    """One class of modules.

    Attributes:
        key: ``module:Class``, as captures name it.
        file: The source file of its module; empty where there is none.
        own: Time in it and in no module below it.
        mine: Time in it and in torch's own modules below it, which is what a rewritten class would do itself.
        total: Time in it and everything below it; what is nested in itself counts once.
        backward_own, backward_mine, backward_total: The same of the backward pass.
    """

    def __init__(self, cls: type, file: str, compiled: bool) -> None:
        self.cls = cls
        self.key = f"{cls.__module__}:{cls.__qualname__}"
        self.file = str(Path(file).resolve()) if file.endswith(".py") else ""
        self.compiled = compiled
        self.from_torch = cls.__module__.partition(".")[0] in _FROM_TORCH
        self.calls = 0
        self.instances: Set[int] = set()
        self.own, self.mine, self.total = Spent(), Spent(), Spent()
        self.backward_own, self.backward_mine, self.backward_total = Spent(), Spent(), Spent()
        self.variants: Dict[Any, Variant] = {}

    @property
    def weight(self) -> float:
        """What it is ranked by: time on the device, forward and backward."""
        return self.mine.device + self.backward_mine.device

    def variant(self, module: nn.Module, args: Any, kwargs: Dict[str, Any], output: Any) -> Variant:
        """Return the variant that a call belongs to; made from the call where it is the first of its kind."""
        tensors: List[torch.Tensor] = []
        key: Any = (_likeness(args, tensors), _likeness(kwargs, tensors), *_context(module, tensors))
        found = self.variants.get(key)
        if found is None:
            if len(self.variants) >= _MOST_VARIANTS:
                key = None
            about = {"other": True} if key is None else _about(module, args, kwargs, tensors, output)
            found = self.variants.setdefault(key, Variant(about))
        return found

    def forget(self) -> None:
        """Forget calls and times so far, which were those of the warm-up."""
        self.calls = 0
        for name in _TIMES:
            getattr(self, name).forget()
        for variant in self.variants.values():
            variant.calls = 0
            variant.spent.forget()

    def to_json(self) -> Dict[str, Any]:
        """Return it as JSON data, with times in microseconds as ``[device, host]``."""
        return {
            "module": self.cls.__module__,
            "name": self.cls.__qualname__,
            "file": self.file,
            "line": _lines(self.file).get(self.cls.__qualname__, 0),
            "from_torch": self.from_torch,
            "compiled": self.compiled,
            "calls": self.calls,
            "instances": len(self.instances),
            **{name: getattr(self, name).to_json() for name in _TIMES},
            "variants": [variant.to_json() for variant in list(self.variants.values()) if variant.calls],
        }


def kind_of(module: nn.Module, compiled: bool) -> ModuleKind:
    """Return the class that was written for a module, with where it is defined."""
    cls = class_of(module)
    defined = sys.modules.get(cls.__module__)
    return ModuleKind(cls, getattr(defined, "__file__", None) or "", compiled)


@functools.lru_cache(maxsize=None)
def _lines(file: str) -> Dict[str, int]:
    """Return the line of every class of a file by its qualified name; none where it cannot be read."""
    try:
        tree = ast.parse(Path(file).read_bytes())
    except (OSError, ValueError, SyntaxError):
        return {}
    found: Dict[str, int] = {}

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            name = getattr(child, "name", "")
            if isinstance(child, ast.ClassDef):
                found.setdefault(prefix + name, child.lineno)
                visit(child, f"{prefix}{name}.")
            elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                visit(child, f"{prefix}{name}.<locals>.")
            else:
                visit(child, prefix)

    visit(tree, "")
    return found


def tensors_in(value: Any) -> List[torch.Tensor]:
    """Return the tensors of nested arguments or outputs."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return []
    return [tensor for item in value for tensor in tensors_in(item)]


def _likeness(value: Any, tensors: List[torch.Tensor]) -> Any:
    """Return what makes two values alike, hashable; the tensors that are met are added to the list."""
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return (value.dtype, _shape(value))
    if isinstance(value, (list, tuple)):
        return tuple([_likeness(item, tensors) for item in value])
    if isinstance(value, dict):
        return tuple([(str(name), _likeness(item, tensors)) for name, item in value.items()])
    return value if value is None or isinstance(value, bool) else type(value)


def _context(module: nn.Module, tensors: List[torch.Tensor]) -> Tuple[bool, bool, bool, str]:
    device = tensors[0].device.type if tensors else "cpu"
    return module.training, torch.is_grad_enabled(), _autocast(device), device


def _autocast(device: str) -> bool:
    return device in ("cpu", "cuda") and torch.is_autocast_enabled(device)


def _about(
    module: nn.Module, args: Any, kwargs: Dict[str, Any], tensors: List[torch.Tensor], output: Any
) -> Dict[str, Any]:
    training, grad, autocast, device = _context(module, tensors)
    parameters = list(module.parameters())
    floating = [tensor for tensor in (*tensors, *parameters) if tensor.is_floating_point()]
    return {
        "inputs": [*_texts(args), *(f"{name}={_text(value)}" for name, value in kwargs.items())],
        "dtype": _name(floating[0].dtype) if floating else "",
        "device": device,
        "training": training,
        "grad": grad,
        "autocast": _name(torch.get_autocast_dtype(device)) if autocast else "",
        "bytes": _bytes_moved(module, parameters, tensors, tensors_in(output)),
    }


def _texts(values: Iterable[Any]) -> List[str]:
    return [_text(value) for value in values]


def _text(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{_name(value.dtype)}[{', '.join(str(size) for size in _shape(value))}]"
    if isinstance(value, (list, tuple)):
        return f"({', '.join(_texts(value))})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_text(item)}' for key, item in value.items())}}}"
    return repr(value) if value is None or isinstance(value, (bool, int, float)) else type(value).__name__


def _shape(tensor: torch.Tensor) -> Tuple[Any, ...]:
    """Return a tensor's shape; a nested one has none, and is told by how many tensors it holds."""
    return (tensor.size(0), "nested") if tensor.is_nested else tuple(tensor.shape)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).partition(".")[2]


def _bytes_moved(
    module: nn.Module, parameters: List[nn.Parameter], inputs: List[torch.Tensor], outputs: List[torch.Tensor]
) -> int:
    """Return the bytes of inputs, parameters, buffers and outputs, once each; of a table, the rows that are looked up."""
    looked_up = sum(tensor.numel() for tensor in inputs if not tensor.is_floating_point())
    rows = {
        id(table.weight): looked_up * table.weight.shape[-1] * table.weight.element_size()
        for table in module.modules()
        if isinstance(table, _TABLES)
    }
    read = {id(tensor): tensor for tensor in (*inputs, *parameters, *module.buffers())}
    sizes = [min(_size(tensor), rows.get(name, _size(tensor))) for name, tensor in read.items()]
    return sum(sizes) + sum(_size(tensor) for tensor in outputs if id(tensor) not in read)


def _size(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()

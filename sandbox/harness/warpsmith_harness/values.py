"""Values that cross between processes, and what is done to their contents: renewing, randomising, poisoning, summing."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import inspect
import math
from collections import UserDict
from types import MemberDescriptorType
from typing import Any, Callable, Iterator, Sequence

import torch
from torch import nn

from warpsmith_harness.seeds import generator

_PLAIN = (bool, int, float, str, type(None))
_TURNED_SHARE = 0.25
_CHECKSUM_WORDS = 1 << 20
_PIECE = 1 << 24
_FEW = 1 << 19  # elements that can be drawn as they were: all but one of them may be equal
_DRAWS = 40


class Unsupported(TypeError):
    """A value holds something that is neither a tensor, a plain value, nor a tuple, list, dict or record of them."""


# --- Structure ------------------------------------------------------------------------------------------------------


def flatten(value: Any) -> tuple[list[torch.Tensor], Any]:
    """Split a nested value into its tensors, in order, and a JSON-able structure that ``rebuild`` reads.

    Tuples, lists, dicts, named tuples, dataclasses and ``UserDict`` nest; numbers, strings, None, dtypes, devices and
    complex numbers are leaves. Raises Unsupported for anything else. What holds others is read as it lies in memory: a
    class that derives from it could compute its parts when it is asked for them, behind the clock.
    """
    tensors: list[torch.Tensor] = []
    return tensors, _flatten(value, tensors)


def rebuild(structure: Any, tensors: Sequence[torch.Tensor]) -> Any:
    """Undo ``flatten``; the classes of named tuples, dataclasses and mappings must be importable here."""
    kind, content = structure["kind"], structure.get("content")
    if kind == "tensor":
        return tensors[content]
    if kind == "plain":
        return content
    if kind == "torch":
        return torch.device(content[7:]) if content.startswith("device:") else getattr(torch, content)
    if kind == "complex":
        return complex(*content)
    if kind in ("tuple", "list"):
        items = [rebuild(item, tensors) for item in content]
        cls = _class(structure)
        return (cls(*items) if cls else tuple(items)) if kind == "tuple" else items
    pairs = {key: rebuild(item, tensors) for key, item in content}
    cls = _class(structure)
    return cls(**pairs) if cls else pairs


def same_structure(expected: Any, got: Any, at: str = "output") -> str:
    """Compare two structures of ``flatten``; return why they differ, or an empty string.

    Plain numbers must be equal (floats within 1e-5). The class of a record does not count, its names do.
    """
    if expected["kind"] != got["kind"]:
        return f"{at} must be a {expected['kind']}, and is a {got['kind']}"
    kind, wanted, found = expected["kind"], expected.get("content"), got.get("content")
    if kind == "tensor":
        return ""
    if kind in ("tuple", "list"):
        if len(wanted) != len(found):
            return f"{at} must have {len(wanted)} items, and has {len(found)}"
        parts = [same_structure(a, b, f"{at}[{i}]") for i, (a, b) in enumerate(zip(wanted, found))]
        return next((part for part in parts if part), "")
    if kind == "dict":
        if [key for key, _ in wanted] != [key for key, _ in found]:
            return f"{at} must have the keys {[key for key, _ in wanted]}, and has {[key for key, _ in found]}"
        parts = [same_structure(a, b, f"{at}[{key!r}]") for (key, a), (_, b) in zip(wanted, found)]
        return next((part for part in parts if part), "")
    return "" if _same_leaf(wanted, found) else f"{at} must be {wanted!r}, and is {found!r}"


def names(structure: Any, at: str) -> list[str]:
    """Return a name for each tensor of a structure, in the order of ``flatten``, such as ``x[0]['mask']``."""
    kind, content = structure["kind"], structure.get("content")
    if kind == "tensor":
        return [at]
    if kind in ("tuple", "list"):
        return [name for i, item in enumerate(content) for name in names(item, f"{at}[{i}]")]
    if kind == "dict":
        return [name for key, item in content for name in names(item, f"{at}[{key!r}]")]
    return []


def map_tensors(value: Any, function: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Return a nested value with every tensor replaced by a function of it."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, (tuple, list)):
        items = [map_tensors(item, function) for item in _items(value)]
        if isinstance(value, tuple):
            return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
        return items
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {f.name: _attribute(value, f.name) for f in dataclasses.fields(value) if f.init}
        changes = {name: map_tensors(part, function) for name, part in parts.items()}
        return dataclasses.replace(value, **changes)
    if isinstance(value, dict):
        return {key: map_tensors(item, function) for key, item in dict.items(value)}
    return value


def _flatten(value: Any, tensors: list[torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return {"kind": "tensor", "content": len(tensors) - 1}
    if isinstance(value, _PLAIN):
        return {"kind": "plain", "content": value}
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
        return {"kind": "torch", "content": str(value).partition(".")[2]}
    if isinstance(value, torch.device):
        return {"kind": "torch", "content": f"device:{value}"}
    if isinstance(value, complex):
        exact = complex.__pos__(value)
        return {"kind": "complex", "content": [exact.real, exact.imag]}
    if isinstance(value, (tuple, list)):
        items = [_flatten(item, tensors) for item in _items(value)]
        name = _class_name(value) if hasattr(value, "_fields") else ""
        return {"kind": "tuple" if isinstance(value, tuple) else "list", "content": items, "class": name}
    return _flatten_record(value, tensors)


def _flatten_record(value: Any, tensors: list[torch.Tensor]) -> Any:
    if isinstance(value, UserDict):
        pairs, plain = list(dict.items(_attribute(value, "data"))), False
    elif isinstance(value, dict):
        pairs, plain = list(dict.items(value)), type(value) is dict
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        pairs, plain = [(f.name, _attribute(value, f.name)) for f in dataclasses.fields(value)], False
    else:
        raise Unsupported(f"{type(value).__module__}.{type(value).__qualname__}")
    if not all(isinstance(key, (str, int)) for key, _ in pairs):
        raise Unsupported("a dict whose keys are neither strings nor integers")
    content = [[key, _flatten(item, tensors)] for key, item in pairs]
    return {"kind": "dict", "content": content, "class": "" if plain else _class_name(value)}


def _items(value: Sequence[Any]) -> list[Any]:
    """Return what a tuple or a list holds, whatever its class says."""
    return list(tuple.__iter__(value) if isinstance(value, tuple) else list.__iter__(value))  # type: ignore[arg-type]


def _attribute(value: Any, name: str) -> Any:
    """Return what an object holds under a name; a property is returned as such, which nothing here supports."""
    held = inspect.getattr_static(value, name)
    return held.__get__(value) if isinstance(held, MemberDescriptorType) else held


def _class_name(value: Any) -> str:
    return f"{type(value).__module__}:{type(value).__qualname__}"


def _class(structure: Any) -> Any:
    """Import the class of a record; None for plain tuples and dicts."""
    module_name, _, path = structure.get("class", "").partition(":")
    if not module_name:
        return None
    found: Any = importlib.import_module(module_name)
    for part in path.split("."):
        found = getattr(found, part)
    return found


def _same_leaf(wanted: Any, found: Any) -> bool:
    if isinstance(wanted, float) and isinstance(found, float):
        return math.isclose(wanted, found, rel_tol=1e-5) or (math.isnan(wanted) and math.isnan(found))
    return type(wanted) is type(found) and bool(wanted == found)


# --- Contents -------------------------------------------------------------------------------------------------------


def clone_like(tensor: torch.Tensor) -> torch.Tensor:
    """Copy a tensor into memory of its own with the same strides, overlapping ones (``expand``) included."""
    return memory(tensor).clone().as_strided(tensor.shape, tensor.stride(), 0)


def fresh(tensor: torch.Tensor) -> torch.Tensor:
    """Return new contents of the same distribution, in new memory with the same strides.

    Floats are drawn again from their own values (a constant is scaled), non-finite ones stay where they are. Integers
    are shuffled, unless they ascend along their last dimension, as offsets and positions do. Booleans stay: they are
    masks, and a mask's structure is part of the task. Few elements are drawn until they are others.
    """
    made = clone_like(tensor)
    span = memory(made)
    if span.numel() == 0 or tensor.dtype == torch.bool:
        return made
    draw = generator(tensor.device)
    floating = tensor.is_complex() or tensor.is_floating_point()
    if not floating and (not tensor.dim() or bool((tensor.diff(dim=-1) >= 0).all())):
        return made
    before = checksum(tensor) if min(span.numel(), tensor.numel()) <= _FEW else None
    for _ in range(_DRAWS):
        for piece in torch.split(span, _PIECE):
            piece.copy_(_redrawn(piece, draw) if floating else _shuffled(piece, draw))
        if before is None or checksum(made) != before:
            break
    return made


def randomise_state(module: nn.Module, strength: float = 1.0) -> None:
    """Give every floating parameter and persistent buffer new values around its own, in place.

    In place, so that version counters move. No value stays at an initial 0 or 1, what was not negative (a running
    variance) stays so in buffers, and in parameters unless ``strength`` is 1: training can turn the sign of a weight
    that began as one, and a kernel that relies on its sign is wrong. Integers and booleans stay, as do masks of zeros
    and ones in buffers and buffers that a checkpoint would not change. ``strength`` from 0 to 1 scales how far values
    move.
    """
    if strength == 0:
        return
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.is_floating_point() or parameter.is_complex():
                parameter.copy_(randomised(parameter, False, strength))
        for buffer in persistent_buffers(module).values():
            if (buffer.is_floating_point() or buffer.is_complex()) and not _is_mask(buffer):
                buffer.copy_(randomised(buffer, True, strength))


def persistent_buffers(module: nn.Module) -> dict[str, torch.Tensor]:
    """Return the buffers that a checkpoint holds, by name."""
    names = set()
    for prefix, part in module.named_modules(remove_duplicate=False):
        for name in part._non_persistent_buffers_set:
            names.add(f"{prefix}.{name}" if prefix else name)
    return {name: buffer for name, buffer in module.named_buffers(remove_duplicate=False) if name not in names}


def randomised(tensor: torch.Tensor, buffer: bool, strength: float = 1.0) -> torch.Tensor:
    """Return new values around a parameter's or buffer's own statistic; see ``randomise_state``."""
    wide = torch.complex64 if tensor.is_complex() else torch.float32
    old = tensor.detach().to(wide)
    draw = generator(tensor.device)
    if old.numel() == 0:
        return old
    if not tensor.is_complex():
        around = 1 + strength * (torch.rand(old.shape, generator=draw, device=old.device) - 0.5)
        if strength == 1.0 and not buffer:
            turned = torch.rand(old.shape, generator=draw, device=old.device) < _TURNED_SHARE
            around = torch.where(turned, -around, around)
        low, high = old.min(), old.max()
        if low >= 0 and high > 0:
            return torch.where(old == 0, high * (around.abs() - 0.4).clamp_min(0.1), old * around)
        if low == high and high != 0:
            return old * around
        if high == 0 and buffer:
            return 0.05 + 0.45 * torch.rand(old.shape, generator=draw, device=old.device)
    noise = torch.randn(old.shape, generator=draw, device=old.device, dtype=wide)
    if old.abs().max() == 0:
        return noise * (0.2 if old.dim() < 2 else 1 / math.sqrt(max(old[0].numel(), 1))) * strength
    mean, deviation = old.mean(), old.std() if old.numel() > 1 else old.abs().mean() / 4
    return mean + strength * deviation * noise + (1 - strength) * (old - mean)


def checksum(tensor: torch.Tensor) -> int:
    """Return a 64-bit sum over a tensor's bytes in order; equal contents give equal sums in every process.

    Cheap and sensitive to order, sign and NaN payloads. It notices changes; it does not withstand forgery.
    """
    plain = tensor.detach()
    plain = torch.view_as_real(plain.resolve_conj()) if plain.is_complex() else plain
    raw = plain.resolve_neg().contiguous().reshape(-1).view(torch.uint8)
    whole = raw.numel() // 8 * 8
    tail = torch.zeros(8, dtype=torch.uint8, device=raw.device)
    tail[: raw.numel() - whole] = raw[whole:]
    if raw.storage_offset() % 8:
        raw = raw.clone()
    total = (int(tail.view(torch.int64)) + raw.numel()) * _odd(raw.numel())
    weights = (2 * torch.arange(min(whole // 8, _CHECKSUM_WORDS), device=raw.device) + 1) * _odd(7)
    for index, words in enumerate(torch.split(raw[:whole].view(torch.int64), _CHECKSUM_WORDS)):
        mixed = words ^ (words >> 29)
        total = total * _odd(index) + int((mixed * weights[: words.numel()]).sum())
    return total % 2**64


@contextlib.contextmanager
def poisoned_allocations() -> Iterator[None]:
    """Make torch fill whatever ``torch.empty`` and its kin allocate with NaN, or the largest integer."""
    flags = (torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled())
    filled = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = True  # type: ignore[attr-defined]
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(flags[0], warn_only=flags[1])
        torch.utils.deterministic.fill_uninitialized_memory = filled  # type: ignore[attr-defined]


def describe(name: str, tensor: torch.Tensor) -> str:
    """Return one line on a tensor: ``x: float32 [8, 64] contiguous``."""
    layout = "contiguous" if tensor.is_contiguous() else f"strides {list(tensor.stride())}"
    return f"{name}: {str(tensor.dtype).partition('.')[2]} {list(tensor.shape)} {layout}"


def layout_of(tensor: torch.Tensor) -> str:
    """Return how a tensor lies in memory: nothing for contiguous, ``channels_last`` or ``strides [...]``."""
    if tensor.layout != torch.strided:
        return str(tensor.layout)
    if tensor.is_contiguous():
        return ""
    if tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last):
        return "channels_last"
    return f"strides {list(tensor.stride())}"


def memory(tensor: torch.Tensor) -> torch.Tensor:
    """View the memory that a tensor covers, gaps included, as one dimension."""
    length = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return tensor.as_strided((length if tensor.numel() else 0,), (1,))


def _redrawn(span: torch.Tensor, draw: torch.Generator) -> torch.Tensor:
    finite = torch.isfinite(span) if span.dtype.itemsize > 1 else torch.ones_like(span, dtype=torch.bool)
    own = span[finite]
    if own.numel() == 0:
        return span
    wide = own if own.is_complex() else own.float() if own.dtype.itemsize < 8 else own
    if bool((wide == wide[0]).all()):
        part = 0.5 + 0.5 * torch.rand(own.shape, generator=draw, device=span.device)
        new = part.to(wide.dtype) if wide[0] == 0 else wide * part
    else:
        new = wide[torch.randint(own.numel(), own.shape, generator=draw, device=span.device)]
    made = span.clone()
    made[finite] = new.to(span.dtype)
    return made


def _shuffled(span: torch.Tensor, draw: torch.Generator) -> torch.Tensor:
    return span[torch.randperm(span.numel(), generator=draw, device=span.device)]


def _is_mask(buffer: torch.Tensor) -> bool:
    """Whether a buffer holds only two values, one of them 0, in two or more dimensions, as attention masks do."""
    if buffer.dim() < 2 or buffer.is_complex():
        return False
    kinds = torch.unique(buffer.flatten()[:4096])
    return kinds.numel() == 2 and bool((kinds == 0).any())


def _odd(number: int) -> int:
    """Return an odd 63-bit multiplier that differs for each number."""
    return (number * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) % 2**63 | 1

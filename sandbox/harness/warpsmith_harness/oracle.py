"""The oracle: the reference run in float64 on the same inputs and state, whatever dtype its code names."""

from __future__ import annotations

import contextlib
import copy
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Iterator, List, Optional

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from warpsmith_harness import values
from warpsmith_harness.candidate import copy_state
from warpsmith_harness.problems import summary
from warpsmith_harness.seeds import generator

if TYPE_CHECKING:
    from warpsmith_harness.load import LoadedTask

_COMPLEX = {torch.float32: torch.complex64, torch.float64: torch.complex128}
_NARROW = (torch.float16, torch.bfloat16, torch.float32)
_CASTS = (torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16)
_SHARE_OF_MEMORY = 0.3
_SAMPLED_ROWS = 16


Lift = Callable[[torch.Tensor], torch.Tensor]
Run = Callable[[nn.Module, Any, Any, Lift], List[torch.Tensor]]
"""Makes a module's answers from its arguments; the last raises whatever else it needs to the oracle's dtype and device."""


def forward(module: nn.Module, args: Any, kwargs: Any, _: Lift) -> list[torch.Tensor]:
    """Return the outputs of a module's forward, flattened."""
    with torch.no_grad():
        return values.flatten(module(*args, **kwargs))[0]


@dataclass(frozen=True)
class Oracle:
    """The exact outputs.

    Attributes:
        outputs: One tensor an output, in float64 (or float32 where a note says so); integers and booleans as they are.
        rows: Indices along dimension 0 that ``outputs`` hold, or None for all.
        notes: What was done differently, and why.
    """

    outputs: list[torch.Tensor]
    rows: Optional[torch.Tensor] = None
    notes: tuple[str, ...] = ()


def oracle(
    task: LoadedTask, reference: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], run: Run = forward
) -> Oracle:
    """Run a float64 copy of the reference on float64 copies of the inputs; neither is changed.

    Operators without float64 on the device are run on the CPU, and those without it anywhere in float32. Tensors that
    fill more than 30 % of the device's memory, or do not fit in float64, are sampled by rows, if rows do not depend on
    each other; what ``run`` makes instead of the outputs never is.
    """
    if run is forward and _too_large(task, reference, args, kwargs):
        sampled = _sampled(task, reference, args, kwargs, "fill over 30 % of the memory")
        if sampled is not None:
            return sampled
    return _exact(task, reference, args, kwargs, run)


def _exact(
    task: LoadedTask, reference: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], run: Run = forward
) -> Oracle:
    devices = [task.device] if task.device.type == "cpu" else [task.device, torch.device("cpu")]
    failed = ""
    for device in devices:
        try:
            outputs = _lifted(task, reference, args, kwargs, torch.float64, device, run)
        except torch.cuda.OutOfMemoryError as error:
            why = "do not fit into the memory in float64"
            sampled = _sampled(task, reference, args, kwargs, why) if run is forward else None
            if sampled is not None:
                return sampled
            failed = failed or summary(error)
            continue
        except Exception as error:  # the developer's code may raise anything at a dtype it was not written for
            failed = failed or summary(error)
            continue
        note = (f"The oracle ran on the CPU: float64 fails on {task.device} ({failed}).",) if failed else ()
        return Oracle([tensor.to(task.device) for tensor in outputs], notes=note)
    return _single(task, reference, args, kwargs, failed, run)


def _single(task: LoadedTask, reference: nn.Module, args: Any, kwargs: Any, failed: str, run: Run) -> Oracle:
    """Fall back to float32; a float32 task's inputs are nudged by an ulp, so that its own error does not read as 0."""
    note = f"The oracle is float32: the reference does not run in float64 ({failed})."
    try:
        outputs = _lifted(task, reference, args, kwargs, torch.float32, task.device, run)
    except Exception:  # as above; the reference at its own dtype is known to run
        outputs = run(copy.deepcopy(reference), _copied(args), _copied(kwargs), lambda tensor: tensor)
        return Oracle(outputs, notes=(f"{note} It is the reference at its own dtype.",))
    if any(t.dtype == torch.float32 for t in [*values.flatten((args, kwargs))[0], *reference.parameters()]):
        nudged = [_copied(part, nudge=True) for part in (args, kwargs)]
        outputs = _lifted(task, reference, nudged[0], nudged[1], torch.float32, task.device, run)
        note += " Its inputs differ by one unit in the last place, to show the reference's own error."
    return Oracle(outputs, notes=(note,))


def _lifted(
    task: LoadedTask, reference: nn.Module, args: Any, kwargs: Any, dtype: torch.dtype, device: torch.device, run: Run
) -> list[torch.Tensor]:
    """Run a copy of the reference with every floating tensor, and every dtype its code names, raised to ``dtype``."""

    def lift(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.is_complex():
            return tensor.to(device, _COMPLEX[dtype])
        return tensor.to(device, dtype) if tensor.dtype in (*_NARROW, torch.float64) else tensor.to(device)

    module = _copy(task, reference)
    module._apply(lift)
    for part in module.modules():
        for name, value in list(vars(part).items()):
            if isinstance(value, torch.Tensor):
                setattr(part, name, lift(value))
    lifted_args, lifted_kwargs = values.map_tensors((_copied(args), _copied(kwargs)), lift)
    with _default_dtype(dtype), _Lift(dtype, device):
        return run(module, lifted_args, lifted_kwargs, lift)


class _Lift(TorchFunctionMode):
    """Raises every floating dtype, and moves every device, that the reference's code names."""

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        super().__init__()
        self._dtype = dtype
        self._device = device

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _CASTS:
            return args[0].to(self._dtype)
        raised = {key: self._raise(value) for key, value in (kwargs or {}).items()}
        return func(*[self._raise(value) for value in args], **raised)

    def _raise(self, value: Any) -> Any:
        if isinstance(value, torch.dtype):
            return self._dtype if value in _NARROW else _COMPLEX[self._dtype] if value == torch.complex64 else value
        if isinstance(value, torch.device) and value.type == "cuda":
            return self._device
        return value


@contextlib.contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _copy(task: LoadedTask, reference: nn.Module) -> nn.Module:
    try:
        return copy.deepcopy(reference)
    except (RuntimeError, TypeError, AttributeError):  # a module that holds a graph tensor, a lock or a handle
        again = task.reference().train(reference.training)
        copy_state(reference, again)
        return again


def _copied(value: Any, nudge: bool = False) -> Any:
    def copied(tensor: torch.Tensor) -> torch.Tensor:
        made = values.clone_like(tensor)
        if nudge and made.dtype == torch.float32:
            up = torch.rand(made.shape, generator=generator(made.device), device=made.device) < 0.5
            made = torch.nextafter(made, torch.where(up, torch.inf, -torch.inf))
        return made

    return values.map_tensors(value, copied)


# --- Sampling -------------------------------------------------------------------------------------------------------


def _too_large(task: LoadedTask, reference: nn.Module, args: Any, kwargs: Any) -> bool:
    """Whether inputs, state and as many bytes again for outputs fill more than 30 % of the device's memory."""
    tensors = values.flatten((args, kwargs))[0]
    size = sum(t.numel() * t.element_size() for t in tensors)
    size += max((t.numel() * t.element_size() for t in tensors), default=0)
    size += sum(p.numel() * p.element_size() for p in reference.parameters())
    return size > _SHARE_OF_MEMORY * memory(task.device)


_LIMIT: List[int] = []


def limit_memory(size: int) -> None:
    """Take a device's memory for that small, to judge as on a device that is."""
    _LIMIT[:] = [size]


def memory(device: torch.device) -> int:
    """Return the bytes of a device's whole memory."""
    if _LIMIT:
        return _LIMIT[0]
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _sampled(task: LoadedTask, reference: nn.Module, args: Any, kwargs: Any, why: str) -> Optional[Oracle]:
    """Return the oracle of some rows, or None when a row's output depends on other rows."""
    tensors, structure = values.flatten((args, kwargs))
    count = next((tensor.shape[0] for tensor in tensors if tensor.dim()), 0)
    if count < 2 * _SAMPLED_ROWS:
        return None
    with torch.no_grad():
        whole = values.flatten(reference(*args, **kwargs))[0]
    if any(not tensor.dim() or tensor.shape[0] != count for tensor in whole):
        return None
    picked = torch.randperm(count)[:_SAMPLED_ROWS].sort().values.to(task.device)
    some = [tensor[picked] if tensor.dim() and tensor.shape[0] == count else tensor for tensor in tensors]
    few_args, few_kwargs = values.rebuild(structure, some)
    with torch.no_grad():
        few = values.flatten(reference(*few_args, **few_kwargs))[0]
    for part, full in zip(few, whole):
        if part.shape != full[picked].shape or not torch.allclose(
            part, full[picked], rtol=1e-2, atol=1e-2, equal_nan=True
        ):
            return None
    found = _exact(task, reference, tuple(few_args), few_kwargs)
    note = f"The tensors {why}: the oracle holds {_SAMPLED_ROWS} of {count} rows, drawn at random."
    return Oracle(found.outputs, picked, (note, *found.notes))

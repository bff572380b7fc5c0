"""The precision class: what a task is declared to run in, and what it is measured to run in."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator, Optional, Sequence, cast

import torch

_CLASSES = {
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.float32: "fp32",
    torch.float64: "fp64",
    torch.complex64: "fp32",
    torch.complex128: "fp64",
}
CAST = {"fp16": torch.float16, "bf16": torch.bfloat16}
"""Declared classes that mean a cast of the module and its floating inputs, unless a dtype is given."""
_LESS_EXACT = 8.0
"""TF32 drops 13 of 23 bits, which is far more than float32 algorithms differ in."""


def class_of(tensors: Sequence[torch.Tensor]) -> str:
    """Return the class of the floating dtype that most elements have, TF32 aside; ``fp32`` if there is none."""
    counts: dict[str, int] = {}
    for tensor in tensors:
        if tensor.is_floating_point() or tensor.is_complex():
            name = "fp8" if "float8" in str(tensor.dtype) else _CLASSES.get(tensor.dtype, "fp32")
            counts[name] = counts.get(name, 0) + tensor.numel()
    return max(counts, key=lambda name: counts[name], default="fp32")


def apply(declared: str) -> None:
    """Set the process's TF32 flags for a task declared ``fp32`` or ``tf32``; any other class leaves them."""
    if declared in ("fp32", "tf32"):
        _set(declared == "tf32")


@contextlib.contextmanager
def tf32(allowed: bool) -> Iterator[None]:
    """Allow or forbid TF32 in matrix products, convolutions and recurrent nets; the flags are as before afterwards."""
    before = [(owner, name, getattr(owner, name)) for owner, name in _flags()]
    _set(allowed)
    try:
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


def uses_tf32(
    run: Callable[[], list[torch.Tensor]], exact: Optional[Sequence[torch.Tensor]] = None
) -> tuple[bool, bool]:
    """Measure whether a float32 module uses TF32: ``(under the present flags, where it is allowed)``.

    Its output with the flags on, off, and as they are is compared: what the flag does not change does not use TF32. Nor
    does what it changes without making it less exact: a library may choose another float32 algorithm by the flag.

    Args:
        run: Returns the outputs.
        exact: The oracle's, if it has them whole.
    """
    with tf32(False):
        off, again = run(), run()
    with tf32(True):
        on = run()
    # Atomic sums differ from run to run under the same flags; TF32 differs by far more.
    if _distance(on, off) <= 4 * _distance(off, again):
        return False, False
    if exact is not None and _distance(on, exact) <= _LESS_EXACT * _distance(off, exact):
        return False, False
    present = run()
    return _distance(present, on) < _distance(present, off), True


def _flags() -> list[tuple[Any, str]]:
    """Return the flags in the interface that the developer's code has used: torch refuses to mix the two."""
    matmul, cudnn = torch.backends.cuda.matmul, cast("Any", torch.backends.cudnn)
    try:
        return [(owner, "allow_tf32") for owner in (matmul, cudnn) if owner.allow_tf32 in (True, False)]
    except RuntimeError:
        return [(owner, "fp32_precision") for owner in (matmul, cudnn.conv, cudnn.rnn)]


def _set(allowed: bool) -> None:
    for owner, name in _flags():
        setattr(owner, name, allowed if name == "allow_tf32" else "tf32" if allowed else "ieee")


def _distance(a: Sequence[torch.Tensor], b: Sequence[torch.Tensor]) -> float:
    """Return the summed absolute difference of two lists of outputs, counting what is not finite as none."""
    return sum(
        float((x - y).abs().nan_to_num(0.0, 0.0, 0.0).sum(dtype=torch.float64))
        for x, y in zip(a, b)
        if x.is_floating_point()
    )

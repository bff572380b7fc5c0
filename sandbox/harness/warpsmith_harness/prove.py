"""Built-in cheats, run past the guards as a candidate is, so that the parent sees each guard alive or dead.

What is found is returned and judged by the parent. A worker that ran them serves no candidate afterwards.
"""

from __future__ import annotations

import contextlib
import functools
import time
from typing import Any, Callable, Dict, List, Set

import torch

from warpsmith_harness.trace import device_activity, ownership
from warpsmith_harness.watch import Guards

_ELEMENTS = 4096
_ITEM = 4
_READ = 16
_LATE_CYCLES = 20_000_000

Found = Dict[str, Any]
Forward = Callable[[torch.Tensor], torch.Tensor]


def prove(device: torch.device, policy: str) -> Dict[str, Found]:
    """Return for each built-in cheat, and for honest calls, ``rules`` (what was found) and ``read`` (how outputs began)."""
    found = {name: _watched(forward, device, policy) for name, forward in _cheats().items()}
    if device.type == "cuda":
        found["late"] = _watched(_late, device, policy)
        found["foreign"] = _traced(torch.relu, device)
        found["idle"] = _traced(lambda x: x, device)
    return found


def break_seal() -> None:
    """Replace what the judge reads time with, as a candidate might; the seal has to end this process."""
    time.perf_counter_ns = lambda: 0


def _cheats() -> Dict[str, Forward]:
    kept: List[torch.Tensor] = []
    return {
        "honest": lambda x: torch.empty_like(x).copy_(x),
        "untouched": torch.empty_like,
        "computes": torch.relu,
        "mutates": lambda x: torch.empty_like(x).copy_(x.zero_()),
        "oversteps": _overstep,
        "reuses": lambda x: _kept_output(kept, x),
        "resets": _reset,
        # as_subclass raises under a dispatch mode in torch 2.4
        "subclasses": lambda x: torch.Tensor._make_subclass(_Lazy, torch.empty_like(x).copy_(x)),
    }


class _Lazy(torch.Tensor):
    """A tensor that could compute when it is looked at."""


def _kept_output(kept: List[torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    if not kept:
        kept.append(torch.empty_like(x))
    return kept[0].copy_(x)


def _overstep(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x).copy_(x)
    with contextlib.suppress(RuntimeError):  # raised where nothing lies behind it: then no guard finds anything either
        out.as_strided((1,), (1,), out.storage_offset() + out.numel()).zero_()
    return out


def _reset(x: torch.Tensor) -> torch.Tensor:
    torch.set_float32_matmul_precision("medium")
    return torch.empty_like(x).copy_(x)


def _late(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    cuda: Any = torch.cuda
    side = cuda.Stream()
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        cuda._sleep(_LATE_CYCLES)
        out.fill_(1.0)
    return out


def _watched(forward: Forward, device: torch.device, policy: str) -> Found:
    """Make two guarded calls of a cheat; the second shows what it does to the first."""
    precision = torch.get_float32_matmul_precision()
    guards = Guards(device, policy)
    rules: Set[str] = set()
    read: List[str] = []
    with torch.no_grad():
        for number, x in enumerate(torch.full((_ELEMENTS,), value, device=device) for value in (1.0, 2.0)):
            call = functools.partial(forward, x)
            outputs, _, found = guards.call(call, [x], {"input 0": x}, [_ELEMENTS * _ITEM], (), operators=number == 0)
            rules.update(each["rule"] for each in found)
            read.append(_beginning(outputs[0]))
    torch.set_float32_matmul_precision(precision)
    return {"rules": sorted(rules), "read": read}


def _beginning(tensor: torch.Tensor) -> str:
    return bytes(tensor[:_READ].cpu().view(torch.uint8).tolist()).hex()


def _traced(forward: Forward, device: torch.device) -> Found:
    x = torch.ones(_ELEMENTS, device=device)
    seen = ownership(device_activity(lambda: forward(x), device), {"kernels": [], "libraries": []}, "own-kernels")
    return {"rules": [each["rule"] for each in seen], "read": []}

"""Where the time of one forward goes: operators, and on CUDA the kernels they launched."""

from __future__ import annotations

from statistics import median
from typing import Any, Callable

import torch
from torch.profiler import ProfilerActivity
from torch.profiler import profile as trace

_RUNS = 5
_TRACERS_OWN = "Activity Buffer Request"
"""The tracer fetching memory for itself: its event seems to launch the kernels of the operator it interrupted."""


def operators(forward: Callable[[], object], device: torch.device) -> list[dict[str, Any]]:
    """Return ``name``, ``calls``, ``us`` and ``share`` by time, largest first, for one call of ``forward``.

    On the CPU the time is an operator's own; on CUDA that of the kernels it launched, which its name lists.
    """
    on_gpu = device.type == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    for _ in range(2):
        forward()
    # The first trace of a process can lose its kernels, so one is thrown away.
    for runs in (1, _RUNS):
        _settle(device)
        with trace(activities=activities) as traced:
            for _ in range(runs):
                forward()
            _settle(device)
    times: dict[str, list[float]] = {}
    for event in traced.events() or []:
        for name, us in _kernel_time(event) if on_gpu else _own_time(event):
            times.setdefault(name, []).append(us)
    calls = {name: max(1, round(len(found) / _RUNS)) for name, found in times.items()}
    totals = {name: _of_one_run(found, calls[name]) for name, found in times.items()}
    whole = sum(totals.values()) or 1.0
    ordered = sorted(totals.items(), key=lambda item: -item[1])
    return [{"name": name, "calls": calls[name], "us": us, "share": us / whole} for name, us in ordered if us > 0]


def _of_one_run(times: list[float], calls: int) -> float:
    """Return the median over runs of an operator's time in a run, which one interrupted run does not move."""
    return median(sum(times[start : start + calls]) for start in range(0, len(times), calls))


def _own_time(event: Any) -> list[tuple[str, float]]:
    if event.device_type.name != "CPU":
        return []
    return [(event.name, float(event.self_cpu_time_total))]


def _kernel_time(event: Any) -> list[tuple[str, float]]:
    """Return one entry for an operator that launched kernels itself: its name with theirs, and their time."""
    if event.device_type.name != "CPU" or not event.kernels or event.name == _TRACERS_OWN:
        return []
    kernels = list(dict.fromkeys(_base_name(kernel.name) for kernel in event.kernels))
    return [(f"{event.name} [{', '.join(kernels)}]", float(sum(kernel.duration for kernel in event.kernels)))]


def _base_name(kernel: str) -> str:
    """Return a kernel's name without return type, template arguments and parameters."""
    head = kernel.replace("(anonymous namespace)::", "").split("<")[0].split("(")[0].strip()
    return head.split(" ")[-1].split("::")[-1] or kernel[:60]


def _settle(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)

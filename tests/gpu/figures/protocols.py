"""The protocols that people time with, on the same pair, in one process: how often does one side read 5 % faster?

Runs as a script, ``python protocols.py REFERENCE CANDIDATE DEVICE SECONDS``, and prints one JSON object a protocol:
``{"method", "ratios"}`` with a ratio of reference's to candidate's time for each trial, or ``{"method", "missing"}``. Each
protocol takes its share of the seconds, or ``TRIALS`` where those are sooner.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

Call = Callable[[], object]
TRIALS = 50
_CPU_FLUSH_BYTES = 32 << 20


class Gpu:
    """Times calls with events."""

    def __init__(self, device: torch.device) -> None:
        size = 2 * torch.cuda.get_device_properties(device).L2_cache_size
        self._flush = torch.empty(size, dtype=torch.uint8, device=device)

    def settle(self) -> None:
        torch.cuda.synchronize()

    def once(self, call: Call, *, cold: bool) -> float:
        """Return microseconds of one call."""
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        if cold:
            self._flush.zero_()
        start.record()
        call()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1000


class Cpu:
    """Times calls by the wall clock."""

    def __init__(self) -> None:
        self._flush = (ctypes.c_char * _CPU_FLUSH_BYTES)()

    def settle(self) -> None:
        """Nothing is under way."""

    def once(self, call: Call, *, cold: bool) -> float:
        """Return microseconds of one call."""
        if cold:
            ctypes.memset(self._flush, 1, _CPU_FLUSH_BYTES)
        started = time.perf_counter_ns()
        call()
        return (time.perf_counter_ns() - started) / 1000


Clock = Gpu | Cpu


def wall(clock: Clock, call: Call) -> float:
    """Wall clock around 10 calls after 5 warm-ups."""
    for _ in range(5):
        call()
    clock.settle()
    started = time.perf_counter_ns()
    for _ in range(10):
        call()
    clock.settle()
    return (time.perf_counter_ns() - started) / 10_000


def mean_of_20(clock: Clock, call: Call) -> float:
    """Mean of 20 timed calls, caches left as they are."""
    return statistics.fmean(clock.once(call, cold=False) for _ in range(20))


def median_of_20(clock: Clock, call: Call) -> float:
    """Median of 20 timed calls, caches flushed before each."""
    return statistics.median(clock.once(call, cold=True) for _ in range(20))


def do_bench(_: Clock, call: Call) -> float:
    """``triton.testing.do_bench``, median."""
    from triton.testing import do_bench as bench

    return float(bench(call, return_mode="median")) * 1000


def interleaved(clock: Clock, ours: Call, theirs: Call) -> float:
    """Return the ratio of medians of 20 calls of each side, interleaved, caches flushed before each."""
    times: dict[int, list[float]] = {0: [], 1: []}
    for _ in range(20):
        for side in random.sample((0, 1), 2):
            times[side].append(clock.once((ours, theirs)[side], cold=True))
    return statistics.median(times[1]) / statistics.median(times[0])


PROTOCOLS: dict[str, Callable[[Clock, Call], float]] = {
    "wall clock, 10 calls after 5": wall,
    "mean of 20, no flush": mean_of_20,
    "median of 20, flushed": median_of_20,
    "triton do_bench, median": do_bench,
}


def readings(device: str, reference: Call, candidate: Call, seconds: float) -> Iterator[dict[str, Any]]:
    """Yield what every protocol reads; one side after the other, but for the last."""
    clock: Clock = Cpu() if device == "cpu" else Gpu(torch.device(device))
    share = seconds / (len(PROTOCOLS) + 1)
    for name, protocol in PROTOCOLS.items():
        try:
            found = _repeated(lambda take=protocol: take(clock, reference) / take(clock, candidate), share)
        except ImportError as error:
            yield {"method": name, "missing": str(error)}
            continue
        yield {"method": name, "ratios": found}
    found = _repeated(lambda: interleaved(clock, candidate, reference), share)
    yield {"method": "interleaved, median of 20, flushed", "ratios": found}


def _repeated(trial: Callable[[], float], seconds: float) -> list[float]:
    ending = time.monotonic() + seconds
    found = [trial()]
    while len(found) < TRIALS and time.monotonic() < ending:
        found.append(trial())
    return [round(ratio, 4) for ratio in found]


def main(reference: str, candidate: str, device: str, seconds: str) -> None:
    """Read the pair, warm both up, and print each protocol as it is done."""
    task = _module(Path(reference))
    inputs = [tensor.to(device) for tensor in task.get_inputs()]
    if device != "cpu":
        torch.cuda.set_device(device)
    sides = [cls(*task.get_init_inputs()).to(device) for cls in (task.Model, _module(Path(candidate)).ModelNew)]
    with torch.no_grad():
        calls: list[Call] = [lambda side=side: side(*inputs) for side in sides]  # type: ignore[misc]
        for call in calls * 5:
            call()
        for line in readings(device, *calls, float(seconds)):
            print(json.dumps(line), flush=True)


def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main(*sys.argv[1:])

"""The judge's time beside Nsight Compute's kernel time, for modules that are one kernel: ncu runs once, over all of them."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from sandbox.isolation import best_isolation
from sandbox.judge import Judge
from sandbox.judge_limits import JudgeLimits
from sandbox.looking.nsight import find_ncu
from sandbox.looking.nsight_csv import Launch, read_raw
from sandbox.task import TaskSpec
from tests.gpu.figures.pairs import Pair, itself
from tests.gpu.figures.results import Results

METRIC = "gpu__time_duration.sum"
CALLS = 20
DIVIDER = "spin_kernel"
"""What ``torch.cuda._sleep`` launches: it stands before each module's calls."""

_MODULE = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return {expression}

def get_inputs():
    return [{inputs}]

def get_init_inputs():
    return []
"""

ONE_KERNEL = {
    "gelu, 32 MiB": ("nn.functional.gelu(x)", "torch.randn(8 << 20)"),
    "gelu, 256 MiB": ("nn.functional.gelu(x)", "torch.randn(64 << 20)"),
    "sum of rows": ("x.sum(-1)", "torch.randn(8192, 4096)"),
    "softmax": ("torch.softmax(x, -1)", "torch.randn(8192, 2048)"),
    "layer norm": ("nn.functional.layer_norm(x, (2048,))", "torch.randn(8192, 2048)"),
    "transposed copy": ("x.t().contiguous()", "torch.randn(4096, 4096)"),
    "bf16 matrix product": ("x @ x", "torch.randn(4096, 4096, dtype=torch.bfloat16)"),
}
"""Expression and inputs by name; each takes 20 µs and up on an H200."""


def compare(results: Results, device: str, seconds: float) -> None:
    """Time the modules both ways, as many as there is time for, and write a line of each.

    Says so where ncu is missing, may not read counters, or is too slow.
    """
    ending = time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="warpsmith-figures-") as scratch:
        pairs = {name: _pair(name) for name in ONE_KERNEL}
        written = {name: pair.write(Path(scratch) / pair.name, device) for name, pair in pairs.items()}
        try:
            theirs = _nsight({name: spec.path for name, (spec, _) in written.items()}, device, Path(scratch), seconds)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            print(f"ncu: {error}", flush=True)
            return
        for name, us in theirs.items():
            if time.monotonic() < ending:
                _judge(results, name, *written[name], us)


def _pair(name: str) -> Pair:
    expression, inputs = ONE_KERNEL[name]
    return itself(re.sub(r"\W+", "_", name), _MODULE.format(expression=expression, inputs=inputs))


def _judge(results: Results, name: str, spec: TaskSpec, candidate: Path, theirs: float) -> None:
    usual = JudgeLimits()
    limits = replace(usual, compile_seconds=0.0, full=replace(usual.full, cases=0))
    cache, scratch = candidate.parent / "cache", candidate.parent / "scratch"
    with Judge(spec, isolation=best_isolation(), cache=cache, scratch=scratch, limits=limits) as judge:
        results.begin(judge.environment)
        verdict = judge.check(candidate, "full")
    if verdict.profile is None or verdict.profile.disturbed:
        print(f"ncu, {name}: {verdict.reason}", flush=True)
        return
    ours, events = verdict.profile.device_us, verdict.profile.event_us
    results.add("ncu", module=name, judge_us=round(ours, 3), ncu_us=round(theirs, 3), event_us=round(events, 3))
    print(f"ncu, {name}: judge {ours:.2f} us, ncu {theirs:.2f} us, {ours / theirs - 1:+.1%}", flush=True)


def _nsight(modules: Mapping[str, Path], device: str, folder: Path, seconds: float) -> dict[str, float]:
    """Return the mean microseconds of a call by ncu; caches are flushed before each kernel, clocks left alone."""
    program, table = find_ncu(), folder / "ncu.csv"
    if program is None:
        raise FileNotFoundError("there is no ncu on this machine")
    options = ["--metrics", METRIC, "--clock-control", "none", "--cache-control", "all", "--profile-from-start", "off"]
    output = ["--csv", "--page", "raw", "--print-units", "base", "--log-file", str(table)]
    script = Path(__file__).with_name("one_kernel.py")
    subject = [sys.executable, str(script), device, str(CALLS), *map(str, modules.values())]
    done = subprocess.run([str(program), *options, *output, *subject], capture_output=True, text=True, timeout=seconds)
    text = table.read_text() if table.exists() else ""
    try:
        return call_times(read_raw(text), list(modules))
    except ValueError as error:
        raise ValueError(f"{error}: {(text + done.stdout + done.stderr).strip()[-500:]}") from error


def call_times(launches: Sequence[Launch], modules: Sequence[str]) -> dict[str, float]:
    """Return the mean microseconds of each module's kernel; raises ``ValueError`` where one is not one kernel."""
    starts = [number for number, launch in enumerate(launches) if DIVIDER in launch.name]
    found = {}
    for name, start, end in zip(modules, starts, [*starts[1:], len(launches)], strict=True):
        own = launches[start + 1 : end]
        if len(own) != CALLS:
            raise ValueError(f"{len(own)} kernels in {CALLS} calls of {name}: it is not a module of one kernel")
        found[name] = sum(launch.us for launch in own) / CALLS
    return found

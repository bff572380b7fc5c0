"""The judge's time beside Nsight Compute's kernel time, for modules that are one kernel."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from sandbox.isolation import best_isolation
from sandbox.judge import Judge
from sandbox.judge_limits import JudgeLimits
from sandbox.looking.nsight import find_ncu
from sandbox.looking.nsight_csv import read_raw
from tests.gpu.figures.pairs import itself
from tests.gpu.figures.results import Results

METRIC = "gpu__time_duration.sum"
CALLS = 20

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


def compare(results: Results, device: str, name: str, seconds: float) -> None:
    """Time a module both ways and write the line; says so where ncu is missing, may not read counters, or is too slow."""
    expression, inputs = ONE_KERNEL[name]
    pair = itself("one_kernel", _MODULE.format(expression=expression, inputs=inputs))
    with tempfile.TemporaryDirectory(prefix="warpsmith-figures-") as scratch:
        folder = Path(scratch)
        spec, candidate = pair.write(folder, device)
        try:
            theirs = _nsight(spec.path, device, folder / "ncu.csv", seconds)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            print(f"ncu, {name}: {error}", flush=True)
            return
        usual = JudgeLimits()
        limits = replace(usual, compile_seconds=0.0, full=replace(usual.full, cases=0))
        with Judge(
            spec, isolation=best_isolation(), cache=folder / "cache", scratch=folder / "scratch", limits=limits
        ) as judge:
            results.begin(judge.environment)
            verdict = judge.check(candidate, "full")
    if verdict.profile is None or verdict.profile.disturbed:
        print(f"ncu, {name}: {verdict.reason}", flush=True)
        return
    ours = verdict.profile.device_us
    results.add("ncu", module=name, judge_us=round(ours, 3), ncu_us=round(theirs, 3))
    print(f"ncu, {name}: judge {ours:.2f} us, ncu {theirs:.2f} us, {ours / theirs - 1:+.1%}", flush=True)


def _nsight(module: Path, device: str, table: Path, seconds: float) -> float:
    """Return the mean microseconds of a call by ncu; caches are flushed before each kernel, clocks left alone."""
    program = find_ncu()
    if program is None:
        raise FileNotFoundError("there is no ncu on this machine")
    options = ["--metrics", METRIC, "--clock-control", "none", "--cache-control", "all", "--profile-from-start", "off"]
    output = ["--csv", "--page", "raw", "--print-units", "base", "--log-file", str(table)]
    subject = [sys.executable, str(Path(__file__).with_name("one_kernel.py")), str(module), device, str(CALLS)]
    done = subprocess.run([str(program), *options, *output, *subject], capture_output=True, text=True, timeout=seconds)
    text = table.read_text() if table.exists() else ""
    try:
        launches = read_raw(text)
    except ValueError as error:
        raise ValueError(f"{error}: {(text + done.stdout + done.stderr).strip()[-500:]}") from error
    if len(launches) != CALLS:
        raise ValueError(f"{len(launches)} kernels in {CALLS} calls: it is not a module of one kernel")
    return sum(launch.us for launch in launches) / CALLS

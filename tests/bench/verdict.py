"""From an edited kernel to an operator, to a quick and to a full verdict, beside the usual evaluation of the same kernel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from sandbox.build import build_kernels
from sandbox.build.toolchain import find_ninja
from sandbox.isolation import best_isolation
from sandbox.judge import Judge
from sandbox.machine.devices import gpu_of, visible_gpus
from sandbox.verdict import Tier, Verdict
from tests.bench.row import Row
from tests.bench.workspace import bench_task, edit, make_workspace


def rows(device: str) -> Iterator[Row]:
    """Open a judge and compile the baselines, then build and judge edit after edit, beside the usual evaluation."""
    cuda = device != "cpu"
    with tempfile.TemporaryDirectory(prefix="warpsmith-bench-") as scratch, _usual_way(device) as usual_way:
        folder = make_workspace(Path(scratch) / "candidate", device)
        store = Path(scratch) / "cache"
        began = time.perf_counter()
        with Judge(bench_task(device), isolation=best_isolation(), cache=store, scratch=Path(scratch)) as judge:
            yield Row("opening a judge", time.perf_counter() - began, "s")
            for tier in ("quick", "full"):
                began = time.perf_counter()
                _judge(judge, folder, tier)
                yield Row(f"first {tier} verdict, its baselines included", time.perf_counter() - began, "s")
            usual = usual_way()
            for body, where in ((True, "of a body"), (False, "beside the kernel")):
                seconds = sorted(_build(folder, store, device, body=body) for _ in range(5))[2]
                note = "median of 5; usual: load_inline"
                yield Row(
                    f"edit {where} to a built operator", seconds, "s", 1.5 if cuda else 1.0, usual.get("build"), note
                )
            quick = [_judge(judge, folder, "quick") for _ in range(3)]
            yield from _parts("quick verdict", quick, 3.0 if cuda else None, usual)
            yield from _parts("full verdict", [_judge(judge, folder, "full")], 30.0 if cuda else None, usual)


@contextmanager
def _usual_way(device: str) -> Iterator[Callable[[], dict[str, float]]]:
    """Run the usual evaluation; yield what returns its seconds.

    On another GPU where there is one, while baselines are compiled here, and on this one where it fails there: the driver
    may know of GPUs that CUDA does not see. To its end before anything else where there is no other. Where it fails, as it
    says itself, there are no seconds, and the other rows come all the same.
    """
    names = [f"cuda:{number}" for number in range(len(visible_gpus()))] if device != "cpu" else []
    others = [name for name in names if name != device]
    process = _start_usual((others or [device])[0])

    @cache
    def seconds() -> dict[str, float]:
        told = process.communicate()[0]
        if process.returncode != 0 and others:
            told = _start_usual(device).communicate()[0]
        return json.loads(told) if told else {}

    try:
        if not others:
            seconds()
        yield seconds
    finally:
        process.kill()
        process.wait()


def _start_usual(device: str) -> subprocess.Popen[str]:
    script = str(Path(__file__).with_name("usual.py"))
    path = f"{find_ninja().parent}:{os.environ['PATH']}"  # load_inline looks for it there
    return subprocess.Popen(
        [sys.executable, script, device], stdout=subprocess.PIPE, text=True, env={**os.environ, "PATH": path}
    )


def _build(folder: Path, store: Path, device: str, *, body: bool) -> float:
    edit(folder, body=body)
    arch = "cpu" if device == "cpu" else f"sm_{(gpu_of(device) or visible_gpus()[0]).sm}"
    began = time.perf_counter()
    built = build_kernels(folder / "kernels", arch=arch, cache=store, isolation=best_isolation())
    assert built.report.ok, built.report.diagnostics
    return time.perf_counter() - began


def _judge(judge: Judge, folder: Path, tier: Tier) -> Verdict:
    edit(folder)
    verdict = judge.check(folder, tier)
    assert verdict.correct, verdict.reason
    return verdict


def _parts(name: str, verdicts: list[Verdict], budget: float | None, usual: dict[str, float]) -> Iterator[Row]:
    """Yield the median verdict's whole time, then its parts, each beside the usual way's where that has it."""
    middle = sorted(verdicts, key=lambda verdict: verdict.seconds.total)[len(verdicts) // 2]
    note = "usual: import, load_inline, 5 comparisons, 100 calls"
    yield Row(f"edit to a {name}", middle.seconds.total, "s", budget, usual.get("total"), note)
    for part in ("build", "guard", "verify", "profile", "waiting"):
        yield Row(f"  {name}: {part}", getattr(middle.seconds, part), "s", None, usual.get(part))
    assert middle.profile
    for baseline, speedup in middle.profile.speedup.items():
        note = f"95 % [{speedup.low:.3f}, {speedup.high:.3f}]"
        yield Row(f"  {name}: speed-up over {baseline}", speedup.ratio, "×", note=note)
    if middle.profile.disturbed:
        yield Row(f"  {name}: disturbed", 1, "", note=middle.profile.disturbed)

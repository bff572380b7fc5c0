"""From an edited kernel to an operator, to a quick and to a full verdict, beside the usual evaluation of the same kernel."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from sandbox.build import build_kernels
from sandbox.isolation import best_isolation
from sandbox.judge import Judge
from sandbox.machine.devices import list_gpus
from sandbox.verdict import Tier, Verdict
from tests.bench.row import Row
from tests.bench.workspace import bench_task, edit, make_workspace

THINKING = 3.0
"""Seconds between an edit and its Check: what follows the edit in the answer streams, or the model thinks."""


def rows(device: str) -> Iterator[Row]:
    """Build, judge, and run the usual evaluation, all in this minute."""
    script = Path(__file__).with_name("usual.py")
    usual = json.loads(subprocess.run([sys.executable, str(script), device], capture_output=True, check=True).stdout)
    cuda = device != "cpu"
    with tempfile.TemporaryDirectory(prefix="warpsmith-bench-") as scratch:
        folder = make_workspace(Path(scratch) / "candidate", device)
        cache = Path(scratch) / "cache"
        seconds = sorted(_build(folder, cache, device) for _ in range(5))[2]
        yield Row(
            "edit to a built operator",
            seconds,
            "s",
            1.5 if cuda else 1.0,
            usual["build"],
            "median of 5; usual: load_inline",
        )
        with Judge(bench_task(device), isolation=best_isolation(), cache=cache, scratch=Path(scratch)) as judge:
            began = time.perf_counter()
            _judge(judge, folder, "quick")
            yield Row("first quick verdict, baselines included", time.perf_counter() - began, "s")
            quick = [_judge(judge, folder, "quick") for _ in range(3)]
            yield from _parts("quick verdict", quick, 3.0 if cuda else None, usual)
            yield _built_ahead(judge, folder)
            began = time.perf_counter()
            _judge(judge, folder, "full")
            yield Row("first full verdict, more baselines included", time.perf_counter() - began, "s")
            yield from _parts("full verdict", [_judge(judge, folder, "full")], 30.0 if cuda else None, usual)


def _build(folder: Path, cache: Path, device: str) -> float:
    edit(folder)
    arch = "cpu" if device == "cpu" else f"sm_{list_gpus()[0].sm}"
    began = time.perf_counter()
    built = build_kernels(folder / "kernels", arch=arch, cache=cache, isolation=best_isolation())
    assert built.report.ok, built.report.diagnostics
    return time.perf_counter() - began


def _judge(judge: Judge, folder: Path, tier: Tier) -> Verdict:
    edit(folder)
    verdict = judge.check(folder, tier)
    assert verdict.correct, verdict.reason
    return verdict


def _built_ahead(judge: Judge, folder: Path) -> Row:
    """Ask for a verdict a while after the edit, as a model does, with the kernel built meanwhile and without."""
    seconds: dict[bool, list[float]] = {True: [], False: []}
    with ThreadPoolExecutor(max_workers=1) as thread:
        for ahead in (True, False) * 3:
            edit(folder)
            if ahead:
                thread.submit(judge.build_ahead, folder)
            time.sleep(THINKING)
            began = time.perf_counter()
            verdict = thread.submit(judge.check, folder).result()
            assert verdict.correct, verdict.reason
            seconds[ahead].append(time.perf_counter() - began - verdict.seconds.waiting)
    ours, usual = (sorted(seconds[ahead])[1] for ahead in (True, False))
    note = f"median of 3; the model takes {THINKING:g} s from the edit to the Check; usual: without"
    return Row("Check to a quick verdict, built ahead", ours, "s", None, usual, note)


def _parts(name: str, verdicts: list[Verdict], budget: float | None, usual: dict[str, float]) -> Iterator[Row]:
    """Yield the median verdict's whole time, then its parts, each beside the usual way's where that has it."""
    middle = sorted(verdicts, key=lambda verdict: verdict.seconds.total)[len(verdicts) // 2]
    note = "usual: import, load_inline, 5 comparisons, 100 calls"
    yield Row(f"edit to a {name}", middle.seconds.total, "s", budget, usual["total"], note)
    for part in ("build", "guard", "verify", "profile", "waiting"):
        yield Row(f"  {name}: {part}", getattr(middle.seconds, part), "s", None, usual.get(part))
    assert middle.profile
    for baseline, speedup in middle.profile.speedup.items():
        note = f"95 % [{speedup.low:.3f}, {speedup.high:.3f}]"
        yield Row(f"  {name}: speed-up over {baseline}", speedup.ratio, "×", note=note)
    if middle.profile.disturbed:
        yield Row(f"  {name}: disturbed", 1, "", note=middle.profile.disturbed)

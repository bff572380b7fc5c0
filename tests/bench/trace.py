"""Where the seconds of a verdict go, request by request, as the judge's parent sees them.

Each row is the time that was spent in one kind of request itself, what it waited for inside others left out: the rows of a
verdict add up to it.
"""

from __future__ import annotations

import functools
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from sandbox import judge as judging
from sandbox.bench_client import Bench
from sandbox.build import compile as building
from sandbox.isolation import best_isolation
from sandbox.judge import Judge
from sandbox.timing import timekeeper
from sandbox.timing.gpu_watch import LeasedWatch
from sandbox.trial import Trial
from sandbox.verdict import Tier
from sandbox.workers import Worker
from sandbox.zygote import Zygote
from tests.bench.row import Row
from tests.bench.workspace import bench_task, edit, make_workspace

Name = Callable[[tuple[Any, ...]], str]

_LEAST_SECONDS = 0.005
_VERDICTS: Mapping[Tier, int] = {"quick": 3, "full": 1}


class Trace:
    """Seconds and number of what was called, by name; a call inside another counts for itself alone."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.counts: dict[str, int] = defaultdict(int)
        self._inner: list[float] = []

    @contextmanager
    def span(self, name: str) -> Iterator[None]:
        """Count what happens in the block under a name."""
        self._inner.append(0.0)
        began = time.perf_counter()
        try:
            yield
        finally:
            took = time.perf_counter() - began
            self.seconds[name] += took - self._inner.pop()
            self.counts[name] += 1
            if self._inner:
                self._inner[-1] += took

    def wrap(self, stack: ExitStack, owner: Any, attribute: str, name: Name) -> None:
        """Count the calls of a function for as long as the stack is open."""
        function = getattr(owner, attribute)

        @functools.wraps(function)
        def counted(*arguments: Any, **named: Any) -> Any:
            with self.span(name(arguments)):
                return function(*arguments, **named)

        stack.enter_context(mock.patch.object(owner, attribute, counted))


@contextmanager
def traced() -> Iterator[Trace]:
    """Trace what the judge's parent asks of its processes, and what else it does."""
    trace = Trace()
    with ExitStack() as stack:
        trace.wrap(stack, Bench, "ask", lambda given: f"bench: {_asked(given[1])}")
        trace.wrap(stack, Worker, "ask", lambda given: f"worker: {_asked(given[1])}")
        for owner, attribute, name in (
            (Worker, "await_ready", "worker: into its cell, device"),
            (Worker, "stop", "worker: its end"),
            (Worker, "freeze", "worker: standing still"),
            (Worker, "thaw", "worker: going on"),
            (Worker, "family", "worker: its processes"),
            (Zygote, "_fork", "worker: forked"),
            (LeasedWatch, "trouble", "looking at the device"),
            (building, "compile_halves", "build: both halves"),
            (building, "compile_and_link", "build: host half, link, symbols"),
            (timekeeper, "profile_report", "statistics"),
            (judging, "write_snapshot", "writing the snapshot"),
            (Trial, "_run_build", "build: else"),
            (Trial, "_run_guard", "guard"),
            (Trial, "_run_verify", "verify: else"),
            (Trial, "_run_profile", "profile: else"),
        ):
            trace.wrap(stack, owner, attribute, lambda _, name=name: name)  # type: ignore[misc]
        yield trace


def rows(device: str) -> Iterator[Row]:
    """Judge a kernel after each of some edits, and yield what the median verdict of each tier spent where."""
    with tempfile.TemporaryDirectory(prefix="warpsmith-bench-") as scratch:
        folder = make_workspace(Path(scratch) / "candidate", device)
        store = Path(scratch) / "cache"
        with Judge(bench_task(device), isolation=best_isolation(), cache=store, scratch=Path(scratch)) as judge:
            for tier, count in _VERDICTS.items():
                judge.check(folder, tier)  # its baselines are compiled
                taken = sorted((_judged(judge, folder, tier) for _ in range(count)), key=lambda each: each[0])
                yield from _table(tier, *taken[count // 2])


def _judged(judge: Judge, folder: Path, tier: Tier) -> tuple[float, Trace]:
    edit(folder)
    began = time.perf_counter()
    with traced() as trace, trace.span("else"):
        verdict = judge.check(folder, tier)
    assert verdict.correct, verdict.reason
    return time.perf_counter() - began, trace


def _table(tier: Tier, total: float, trace: Trace) -> Iterator[Row]:
    yield Row(f"edit to a {tier} verdict, traced", total, "s")
    for name, seconds in sorted(trace.seconds.items(), key=lambda item: -item[1]):
        if seconds >= _LEAST_SECONDS:
            yield Row(f"  {tier}: {name}", seconds, "s", note=f"{trace.counts[name]} times")


def _asked(request: Mapping[str, Any]) -> str:
    """Name a request by what it asks for."""
    variant = request.get("variant") or {}
    words = [request["op"], request.get("kind"), request.get("side") or request.get("mode"), request.get("watch")]
    words += [", ".join(variant)] if variant else []
    return " ".join(str(word) for word in words if word)

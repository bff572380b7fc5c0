"""What a profile measures through real processes: how many placements, which time, and what it tells on the way."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from sandbox.isolation import best_isolation
from sandbox.judge import Judge
from sandbox.judge_limits import TierLimits
from sandbox.progress import Stage
from sandbox.timing.cpu_watch import CpuWatch
from sandbox.timing.event_cost import event_cost
from sandbox.timing.profiling import GRAPH
from sandbox.verdict import Verdict
from sandbox.workers import Worker
from sandbox.zygote import Zygote
from tests.sandbox.judge.conftest import LIMITS
from tests.scale_task import Write, kernel, write_task

pytestmark = pytest.mark.xdist_group("profile")

SHORT = TierLimits(cases=1, placements=2, profile_seconds=20.0, pairs=4, least_pairs=3, more_placements=2)


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Iterator[Judge]:
    folder = tmp_path_factory.mktemp("latency")
    limits = replace(LIMITS, quick=SHORT, full=SHORT)
    spec = write_task(folder, judged_by="latency")
    with Judge(spec, isolation=best_isolation(), cache=cache, scratch=folder / "scratch", limits=limits) as shared:
        yield shared


@pytest.fixture(autouse=True)
def _undisturbed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else the machine does: how many placements are drawn is asked here, not how long a call takes.

    Noise alone makes a gain of three times, which is measured once more, in one of ten verdicts on a busy machine.
    """
    monkeypatch.setattr(CpuWatch, "trouble", lambda *_: "")
    monkeypatch.setattr("sandbox.timing.timekeeper.WORTH_A_SECOND_LOOK", math.inf)


def assert_timed(verdict: Verdict, placements: int) -> None:
    assert verdict.correct, verdict.reason
    assert verdict.profile is not None
    assert verdict.profile.placements == placements
    assert all(len(side) == placements for side in verdict.profile.samples.values())


def test_early_results_follow_each_placement(judge: Judge, candidate: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandbox.timing.timekeeper.undecided", lambda _: "")
    told: list[Stage] = []
    verdict = judge.check(candidate(), progress=told.append)
    assert_timed(verdict, 2)
    early = [stage.partial for stage in told if "placement" in stage.partial]
    assert [(partial["placement"], partial["of"]) for partial in early] == [(1, 2), (2, 2)]
    assert all(partial["latency_us"] > 0 and set(partial["speedup"]) == {"eager", "best"} for partial in early)


def test_more_placements_are_drawn_while_the_reward_is_undecided(
    judge: Judge, candidate: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = iter(["eager", ""])
    monkeypatch.setattr("sandbox.timing.timekeeper.undecided", lambda _: next(asked))
    verdict = judge.check(candidate())
    assert_timed(verdict, 3)
    assert any("1 of them drawn because" in note for note in verdict.profile.notes)
    monkeypatch.setattr("sandbox.timing.timekeeper.undecided", lambda _: "eager")
    assert_timed(judge.check(candidate()), 4)


IN_ORDER = """
  bool rising = true, falling = true;
  for (int j = 1; j < 12; ++j) rising = rising && x[j] >= x[j - 1], falling = falling && x[j] <= x[j - 1];
  if (rising || falling) out[0] += 1;
"""


@pytest.mark.parametrize(
    ("spoilt", "right", "started"),
    [("", True, [1, 2]), ("out[0] += 1;", False, [1]), (IN_ORDER, False, [1, 2])],
    ids=["right", "wrong at once", "wrong later"],
)
def test_the_workers_of_all_placements_get_ready_once_the_first_answer_is_right_and_none_is_left(
    judge: Judge,
    candidate: Write,
    monkeypatch: pytest.MonkeyPatch,
    spoilt: str,
    right: bool,
    started: list[int],
) -> None:
    begun: list[Worker] = []
    numbers: list[int] = []
    usual = Zygote.start_workers

    def counted(zygote: Zygote, cells: Sequence[Mapping[str, Any]], timeout: float) -> list[Worker]:
        workers = usual(zygote, cells, timeout)
        begun.extend(workers)
        numbers.append(len(workers))
        return workers

    monkeypatch.setattr(Zygote, "start_workers", counted)
    monkeypatch.setattr("sandbox.timing.timekeeper.undecided", lambda _: "")
    verdict = judge.check(candidate(kernel(after=spoilt)))
    assert verdict.correct is right, verdict.reason
    assert numbers == started
    assert not any(psutil.pid_exists(worker.pid) for worker in begun)


def test_a_full_profile_of_a_task_judged_by_latency(judge: Judge, candidate: Write) -> None:
    verdict = judge.check(candidate(), "full")
    profile = verdict.profile
    assert profile is not None, verdict.reason
    assert profile.judged_by == "latency"
    assert profile.us == profile.latency_us
    assert profile.warm_us is not None
    assert profile.baselines["eager"].warm_us is not None
    # a CPU has no such thing
    assert (profile.kernels, profile.graph_us, profile.graph_error, profile.event_us) == ((), None, "", 0.0)
    assert verdict.task_check is not None
    assert set(verdict.task_check.depends_on) == {"x", "y", "weight"}
    assert Verdict.from_json(verdict.to_json()) == verdict


def test_the_bench_tells_what_its_clock_reads_around_nothing(judge: Judge) -> None:
    assert event_cost(judge._opened()[0].bench, 30.0) > 0


def test_a_baseline_that_cannot_be_captured_is_named_and_the_bench_begins_anew(judge: Judge, candidate: Write) -> None:
    """Without a GPU nothing can be captured into a CUDA graph: the way a reference that waits for the device fails."""
    crew = judge._opened()[0]
    before = crew.bench.pid
    crew.modes = ["eager", GRAPH]
    profile = judge.original()
    assert "cannot be captured into a CUDA graph" in profile.baselines[GRAPH].error
    assert profile.baselines["best"].mode == "eager"
    assert crew.bench.pid != before
    assert judge.check(candidate()).correct

"""The scripts of the figures, on the CPU: what they write, how it adds up, and what the table says."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from sandbox.judge_version import judge_version
from sandbox.looking.nsight_csv import Launch
from tests.gpu.figures.campaign import Campaign
from tests.gpu.figures.load import load
from tests.gpu.figures.measuring import MEASURED_BY, ROOT, measuring_version
from tests.gpu.figures.nsight import CALLS, DIVIDER, call_times
from tests.gpu.figures.results import Results
from tests.gpu.figures.summary import tables, upper_bound
from tests.sandbox.judge.conftest import LIMITS

MACHINE = {"device": "a GPU", "torch": "2.11"}


@pytest.mark.parametrize(
    ("count", "trials", "bound"), [(0, 1000, 0.002991), (1, 1000, 0.004735), (1, 100, 0.046558), (5, 5, 1.0)]
)
def test_the_upper_bound_is_the_exact_one(count: int, trials: int, bound: float) -> None:
    assert upper_bound(count, trials) == pytest.approx(bound, abs=2e-6)


def trial(results: Results, ratio: float, reward: int | None, **more: object) -> None:
    values = {"figure": "aa20", "load": "quiet", "tier": "full", "wall": 4.0, "us": 21.0, "low": ratio, "high": ratio}
    results.add("trial", ratio=ratio, reward=reward, **{**values, **more})


def test_runs_add_up_and_false_wins_are_counted(tmp_path: Path) -> None:
    here, there = Results(tmp_path / "here.jsonl"), Results(tmp_path / "there.jsonl")
    for results, ratios in ((here, [1.0, 1.06]), (there, [0.99, 1.01])):
        results.begin(MACHINE)
        for ratio in ratios:
            trial(results, ratio, 2 if ratio > 1.05 else 1)
    trial(there, 1.3, None, disturbed="another process was using the GPU")
    with there.path.open("a") as file:
        file.write('{"kind":"trial","ru')  # cut off in the middle of a line
    assert here.take_over(there.lines()) == 4
    assert here.take_over(there.lines()) == 0
    text = tables(here.lines())
    assert "a GPU: 2 runs" in text
    (row,) = [line.split() for line in text.splitlines() if line.startswith("aa20    quiet")]
    assert " ".join(row) == "aa20 quiet full 4 (+1 disturbed) 21.0 (0.9859) 1 1 25.00% 75.14% 4.0"


def test_what_was_measured_in_another_way_counts_for_nothing(tmp_path: Path) -> None:
    results = Results(tmp_path / "lines.jsonl")
    results.begin(MACHINE)
    trial(results, 1.0, 1)
    text = results.path.read_text()
    results.path.write_text(text.replace(measuring_version(), "another way"))
    assert list(results.measured_alike()) == []
    assert tables(results.lines()).splitlines() == [
        "No trial is known.",
        "1 lines measured in another way are left out",
    ]
    results.path.write_text(text.replace(judge_version()[:12], "another judge"))
    assert len(list(results.measured_alike())) == 2


@pytest.mark.parametrize("name", ["sandbox/timing/statistics.py", "sandbox/harness/warpsmith_harness/timing.py"])
def test_the_way_of_measuring_is_told_by_what_measures(tmp_path: Path, name: str) -> None:
    for each in (*MEASURED_BY, "sandbox/verifying.py"):
        (tmp_path / each).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / each).write_bytes((ROOT / each).read_bytes())
    assert measuring_version.__wrapped__(tmp_path) == measuring_version()
    (tmp_path / "sandbox/verifying.py").write_text("changed = True")
    assert measuring_version.__wrapped__(tmp_path) == measuring_version()
    (tmp_path / name).write_text("changed = True")
    assert measuring_version.__wrapped__(tmp_path) != measuring_version()


def test_a_miss_of_power_and_a_wrong_rejection_are_told(tmp_path: Path) -> None:
    results = Results(tmp_path / "lines.jsonl")
    results.begin(MACHINE)
    trial(results, 1.11, 2, figure="power")
    trial(results, 1.04, 1, figure="power")
    results.add("trial", figure="aa8", load="quiet", tier="full", reward=-1, wall=1.0, reason="The guard is mistaken.")
    text = tables(results.lines())
    assert "missed 50.00%" in text
    assert "1 trials rejected wrongly\n  The guard is mistaken." in text


def test_the_calls_of_each_module_are_told_apart_and_two_kernels_are_refused() -> None:
    def ran(name: str, *us: float) -> list[Launch]:
        return [Launch(name, "(1, 1, 1)", "(32, 1, 1)", {"gpu__time_duration.sum": each}) for each in us]

    divider = ran(f"at::cuda::{DIVIDER}", 1.8)
    launches = [*divider, *ran("gelu", *[16.0, 18.0] * (CALLS // 2)), *divider, *ran("softmax", *[39.0] * CALLS)]
    assert call_times(launches, ["gelu", "softmax"]) == {"gelu": 17.0, "softmax": 39.0}
    with pytest.raises(ValueError, match=f"{CALLS + 1} kernels in {CALLS} calls of softmax"):
        call_times([*launches, *ran("fill", 1.0)], ["gelu", "softmax"])


def test_a_busy_machine_has_a_process_on_every_core_and_none_afterwards() -> None:
    before = {child.pid for child in psutil.Process().children()}
    with load("busy"):
        spinning = [child for child in psutil.Process().children() if child.pid not in before]
        assert len(spinning) == len(os.sched_getaffinity(0))
    assert not any(child.is_running() for child in spinning)


def test_trials_are_whole_verdicts_beside_the_usual_protocols(tmp_path: Path) -> None:
    results = Results(tmp_path / "lines.jsonl")
    campaign = Campaign(results, "cpu", ["quiet"], ["quick"], enough=1, limits=LIMITS)
    campaign.take("aa8", 5)
    lines = list(results.lines())
    assert [line["kind"] for line in lines] == ["run", *["protocol"] * 5, "trial"]
    assert lines[0]["judge"]
    assert all("ratios" in line or "triton" in line["missing"] for line in lines[1:-1])
    assert lines[-1]["reward"] in {1, None}
    assert "rejections" not in lines[-1]
    written = results.path.read_bytes()
    campaign.take("aa8", 5)
    assert results.path.read_bytes() == written, "there were enough"

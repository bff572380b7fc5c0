"""What is said of two runs: faster, slower, nothing, another loss, kernels that did not run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.hotspots_report import run_lines
from sandbox.hotspots.compare import compare
from sandbox.hotspots.pace import pace_of
from sandbox.hotspots.rank import rank
from sandbox.hotspots.ranking import Ranking, Run
from sandbox.hotspots.recording import CallVariant, ClassRecord, ProcessRecord, Recording, Times, Window

VARIANT = CallVariant(("float32[4]",), "float32", "cpu", True, True, "", 32, 10, Times(50, 50))
BLOCK = ClassRecord(
    "net", "Block", "/p/net.py", 1, False, False, 10, 1, *(Times(50, 50),) * 3, *(Times(),) * 3, (VARIANT,)
)
PROCESS = ProcessRecord(
    *(1, None, None, "python", "3.11", "2.9", None, "", ("cpu",), True, "", "optimizer", "SGD", 100),
    windows=(),
    modules=Times(50, 50),
    backward=Times(),
    outside=Times(50, 50),
    elsewhere=0,
    left_alone=True,
    losses=(),
    landings={},
    captures={},
    capture_fault="",
    classes=(BLOCK,),
)
RAN = {"module": "net", "class": "Block", "fused": 10, "original": 0, "launches": 10, "reasons": {}}


def ranking(*seconds: float, **changes: Any) -> Ranking:
    """A run whose stretches of ten steps took so many seconds."""
    windows = [Window("warm-up", 2, 1.0)]
    for each in seconds:
        windows += [Window("plain", 10, each), Window("recorded", 10, each)]
    recording = Recording((replace(PROCESS, windows=tuple(windows), **changes),), (), (), ())
    run = Run(("python train.py",), "python train.py", "/p", "", 60.0, 0, None, 70.0)
    return Ranking(Path("/r"), run, recording, pace_of(recording), tuple(rank(recording)))


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ((2.0, 2.1, 1.9, 2.0), (1.0, 1.1, 0.9, 1.0), "Steps are 2.00 times as fast."),
        ((1.0, 1.1, 0.9, 1.0), (2.0, 2.1, 1.9, 2.0), "Steps are slower, 2.00 times as long."),
        ((1.0, 1.2, 0.9, 1.0), (1.1, 1.0, 0.9, 1.0), "Nothing came of it that could be told from noise."),
        ((2.0, 2.0), (1.0, 1.0), "Steps look 2.00 times as fast, over too few to be sure."),
        ((), (1.0, 1.0), "Nothing can be said: no steps were left alone to time."),
    ],
)
def test_the_conclusion_follows_from_the_interval(before: tuple[float, ...], now: tuple[float, ...], said: str) -> None:
    assert compare(ranking(*before), ranking(*now, landings={"net_kernels": RAN})).conclusion == said


def test_more_than_what_landed_can_make_is_said_to_be_more() -> None:
    half = compare(ranking(3.0, 3.1, 2.9, 3.0), ranking(1.0, 1.1, 0.9, 1.0, landings={"net_kernels": RAN}))
    assert "what landed can make 2.00 of it at most" in half.conclusion


def test_kernels_that_did_not_run_and_landings_that_were_not_loaded_are_said() -> None:
    idle = {**RAN, "fused": 0, "original": 10, "reasons": {"gradients are wanted": 10}}
    compared = compare(ranking(1.0, 1.0, 1.0), ranking(1.0, 1.0, 1.0, landings={"net_kernels": idle}))
    assert "the kernels of Block did not run" in compared.conclusion
    assert [(each.name, each.share_before, each.share_now) for each in compared.classes] == [("Block", 0.5, 0.5)]
    assert "nothing that landed was loaded" in compare(ranking(1.0), ranking(1.0)).conclusion


def test_kernels_that_ran_in_few_calls_are_said_with_the_reason_of_most() -> None:
    reasons = {"the shape of x is not (4, 8)": 7, "x is not contiguous": 2}
    few = {**RAN, "fused": 1, "original": 9, "reasons": reasons}
    compared = compare(ranking(1.0, 1.0, 1.0), ranking(1.0, 1.0, 1.0, landings={"net_kernels": few}))
    assert "only 1 of 10 calls of Block ran its kernels: the shape of x is not (4, 8)" in compared.conclusion


def test_losses_are_the_same_where_their_difference_is_noise() -> None:
    before = tuple(2.0 + 0.1 * (at % 7) for at in range(200))
    noisy = tuple(loss + (0.05 if at % 2 else -0.04) * (-1) ** (at // 20) for at, loss in enumerate(before))
    shifted = tuple(loss + 0.5 for loss in before)

    def loss_of(now: tuple[float, ...]) -> bool:
        compared = compare(ranking(1.0, losses=before), ranking(1.0, losses=now))
        assert compared.loss is not None
        return compared.loss.same

    assert loss_of(before)
    assert loss_of(noisy)
    assert not loss_of(shifted)
    assert compare(ranking(1.0, losses=before), ranking(1.0)).loss is None


def test_what_recording_costs_is_told_by_neighbours() -> None:
    windows = (
        Window("plain", 10, 1.0),
        Window("recorded", 10, 1.5),
        Window("captured", 1, 9.0),
        Window("plain", 10, 1.0),
    )
    pace = pace_of(Recording((replace(PROCESS, windows=windows),), (), (), ()))
    assert pace.overhead == pytest.approx(0.5)
    assert pace.step_ms == pytest.approx(100.0)
    assert pace.steps == 20


def test_a_busy_machine_is_said() -> None:
    quiet = ranking(1.0, 1.1, 0.9)
    busy = replace(quiet, run=replace(quiet.run, others=1.3))
    assert not any("other programs" in note for note in compare(quiet, quiet).notes)
    assert any("kept busy: 1.3 processors before; " in note for note in compare(busy, quiet).notes)
    assert any(
        "1.3 processors busy meanwhile" in line for line in run_lines(busy.recording, busy.pace, busy.run.others)
    )

"""Sweeps and ablations of real kernels, through the judge: what is built, what falls out and why, what is compared."""

from __future__ import annotations

import json

import pytest

from sandbox.errors import UsageError
from sandbox.judge import Judge
from sandbox.looking.ablation import ablate
from sandbox.looking.sweep import sweep
from tests.scale_task import Write, kernel

OPEN = """
#ifndef TILE
#define TILE 1
#endif
static_assert(TILE < 100, "the tile is too large");
"""
SPOILED = "if (TILE == 7) out[3] += 1;\n  if (TILE == 8) __builtin_trap();"
LOOP = """
#ifndef ABLATE_WASTE
  for (volatile int64_t i = 0; i < 2000000; ++i) {}
#endif
#ifdef ABLATE_CRASH
  __builtin_trap();
#endif
"""


@pytest.fixture
def undisturbed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a busy machine not matter, and measure less: no assertion here is about a time."""
    monkeypatch.setattr("sandbox.timing.cpu_watch.CpuWatch.trouble", lambda *_: "")
    for module in ("sweep", "ablation"):
        monkeypatch.setattr(f"sandbox.looking.{module}.PLACEMENTS", 2)


@pytest.mark.usefixtures("undisturbed")
def test_a_sweep_times_what_is_right_and_names_what_falls_out(judge: Judge, candidate: Write) -> None:
    folder = candidate(OPEN + kernel(after=SPOILED))
    report = judge.study(folder, lambda study: sweep(study, {"TILE": ["2", "4", "7", "8", "200"]}))
    found = {variant.name: variant for variant in report.variants}
    assert set(found) == {"TILE=1", "TILE=2", "TILE=4", "TILE=7", "TILE=8", "TILE=200"}
    assert [name for name, variant in found.items() if variant.present] == ["TILE=1"]
    assert "static assertion failed: the tile is too large" in found["TILE=200"].problem
    assert "it is not correct" in found["TILE=7"].problem
    assert "SIG" in found["TILE=8"].problem
    timed = [variant for variant in report.variants if variant.us is not None]
    assert {variant.name for variant in timed} == {"TILE=1", "TILE=2", "TILE=4"}
    assert report.best is timed[0]
    assert timed[0].best_gain is None
    assert all(variant.best_gain is not None for variant in timed[1:])
    assert report.conclusion.startswith(f"Best: {timed[0].name}")
    data = json.loads(json.dumps(report.to_json()))
    assert data["best"] == timed[0].defines
    assert "reward" not in data


@pytest.mark.usefixtures("undisturbed")
def test_of_many_variants_the_fastest_are_measured_again(judge: Judge, candidate: Write) -> None:
    folder = candidate(OPEN + kernel())
    report = judge.study(folder, lambda study: sweep(study, {"TILE": [str(tile) for tile in range(1, 8)]}))
    finalists = [variant for variant in report.variants if not variant.problem]
    assert len(finalists) == 5
    assert any(variant.present for variant in finalists)
    once = [variant for variant in report.variants if variant.problem]
    assert {variant.problem for variant in once} == {"timed once only: not among the fastest"}
    assert all(variant.us is not None and variant.best_gain is None for variant in once)


@pytest.mark.usefixtures("undisturbed")
def test_an_ablation_times_what_is_wrong_and_never_counts(judge: Judge, candidate: Write) -> None:
    folder = candidate(kernel(before=LOOP))
    report = judge.study(folder, lambda study: ablate(study, []))
    assert report.us is not None
    waste, crash = report.phases
    assert (waste.name, crash.name) == ("WASTE", "CRASH")
    assert waste.us is not None
    assert waste.share is not None
    assert waste.share.ratio > 0.1
    assert crash.us is None
    assert "SIG" in crash.problem
    data = json.loads(json.dumps(report.to_json()))
    assert data["schema"] == "warpsmith.ablation/1"
    assert "never counts" in data["note"]
    assert "reward" not in data


def test_an_ablation_is_still_guarded(judge: Judge, candidate: Write) -> None:
    folder = candidate(kernel(before=LOOP + '\n  std::system("true");', includes="cstdlib"))
    report = judge.study(folder, lambda study: ablate(study, ["WASTE"]))
    assert report.us is None
    assert "the guard rejects it" in report.problem


def test_what_the_kernels_do_not_leave_open_is_refused(judge: Judge, candidate: Write) -> None:
    with pytest.raises(UsageError, match="No kernel file leaves TILE open"):
        judge.study(candidate(), lambda study: sweep(study, {"TILE": ["1", "2"]}))
    with pytest.raises(UsageError, match="no kernel file has such a phase"):
        judge.study(candidate(), lambda study: ablate(study, []))

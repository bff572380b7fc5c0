"""Row K13: a batch that is answered in its first call is found by its times, where nobody reads the source."""

from __future__ import annotations

import pytest

from sandbox.timing import profiling
from sandbox.timing.cpu_watch import CpuWatch
from tests.candidates.cheats.suite import CHEATS
from tests.candidates.frame import Judges
from tests.candidates.test_harness_rows import scale_add


@pytest.mark.alone
def test_a_window_that_is_computed_in_its_first_call_is_found(judges: Judges, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CpuWatch, "trouble", lambda *_: "")
    monkeypatch.setattr(profiling, "_BATCH_US", 1e6)  # batches are as long as on a GPU, however slow the machine
    cheat = CHEATS["K13 what the clock will ask in this batch computed in its first call"]
    found = judges.check(cheat, guarded=False)
    assert found.guard is not None
    assert [each.rule for each in found.guard.findings] == ["window"], found.reason
    honest = judges.check(scale_add(), guarded=False)
    assert honest.correct, honest.reason

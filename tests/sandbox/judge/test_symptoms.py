"""What goes wrong in comparable tools when they measure, one test a symptom that no other test of ours shows."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from sandbox.errors import WarpsmithError
from sandbox.isolation import best_isolation
from sandbox.judge import Judge
from sandbox.progress import Stage
from sandbox.timing.statistics import speedup
from sandbox.verdict import Verdict
from tests.conftest import skip_if_disturbed
from tests.sandbox.judge.conftest import LIMITS
from tests.sandbox.timing.test_placement_run import US, placed
from tests.scale_task import REFERENCE, Write, kernel, write_task

pytestmark = pytest.mark.xdist_group("judge")

HOLD = """
import sys
from sandbox.machine.pool import Pool
with Pool("cpu", "something else", lambda: None).exclusive("profile", "timing", lambda stage: None):
    print("held", flush=True)
    sys.stdin.read()
"""

WAITING_SECONDS = 1.0


def test_sides_are_timed_interleaved_and_in_no_fixed_order() -> None:
    """One arm after the other compares a cold device with a warm one."""
    _, bench = placed(0.2)
    asked = [request["side"] for request in bench.asked if request.get("kind") == "device" and request["cold"]]
    rounds = [tuple(asked[start : start + len(US)]) for start in range(0, len(asked), len(US))]
    assert len(rounds) >= 8
    assert all(sorted(each) == sorted(US) for each in rounds)
    assert len(set(rounds)) > 1


def test_what_is_judged_is_the_state_of_the_files_now(judge: Judge, candidate: Write) -> None:
    """A build that goes by a file's time, or a process that keeps an old library, judges another kernel."""
    folder = candidate()
    source = folder / "kernels" / "scale_add.cpp"
    first = judge.check(folder)
    before = source.stat()
    source.write_text(kernel().replace("? value : 0", "? value : 1"))
    os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
    second = judge.check(folder)
    assert first.correct, first.reason
    assert second.reward == -1
    assert second.candidate_sha256 != first.candidate_sha256


@pytest.mark.alone
def test_the_figures_of_a_verdict_follow_from_what_is_stored_with_it(judge: Judge, candidate: Write) -> None:
    """A speed-up that is told without its samples and its machine cannot be looked at again."""
    verdict = judge.check(candidate())
    assert verdict.profile
    skip_if_disturbed(verdict.profile.disturbed)
    kept = Verdict.from_json(verdict.to_json())
    assert kept.profile
    samples = kept.profile.samples
    assert speedup(samples["candidate"], samples["eager"]) == verdict.profile.speedup["eager"]
    assert {"device", "cpu", "torch", "python", "isolation", "transport", "workers", "threads"} <= set(kept.environment)


def test_asking_again_has_a_budget_and_what_it_left_out_is_said(
    judge: Judge, candidate: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checks that find more cost more; a slow task must not be left without a verdict for it."""
    assert judge._crew
    monkeypatch.setattr(judge._crew, "limits", replace(LIMITS, optional_seconds=-1.0))
    verdict = judge.check(candidate())
    assert verdict.correct, verdict.reason
    assert verdict.verify
    [left_out] = [note for note in verdict.verify.notes if note.startswith("left out")]
    assert "inputs in order" in left_out
    assert "takes long" in left_out


def test_waiting_for_the_device_counts_against_nobody(judge: Judge, candidate: Write) -> None:
    """Whoever waits in a queue must not run into a time limit, nor be told that it was slow."""
    folder = candidate()
    judge.check(folder)
    waited_for: list[str] = []
    holding = subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def let_go(stage: Stage) -> None:
        if "waiting for pid" in stage.text and not waited_for:
            waited_for.append(stage.text)
            threading.Timer(WAITING_SECONDS, holding.kill).start()

    try:
        assert holding.stdout
        assert holding.stdout.readline() == "held\n"
        began = time.monotonic()
        verdict = judge.check(folder, progress=let_go)
        whole = time.monotonic() - began
    finally:
        holding.kill()
        holding.communicate()
    assert verdict.correct, verdict.reason
    assert f"waiting for pid {holding.pid}" in waited_for[0]
    assert verdict.seconds.waiting >= WAITING_SECONDS / 2
    assert verdict.seconds.total <= whole - verdict.seconds.waiting + 0.1


def test_two_judges_at_once_disturb_neither(tmp_path: Path, cache: Path, candidate: Write) -> None:
    folder = candidate()

    def judged(name: str) -> Verdict:
        (tmp_path / name).mkdir()
        spec = write_task(tmp_path / name)
        scratch = tmp_path / name / "scratch"
        with Judge(spec, isolation=best_isolation(), cache=cache, scratch=scratch, limits=LIMITS) as opened:
            return opened.check(folder)

    with ThreadPoolExecutor(2) as both:
        for verdict in both.map(judged, ["one", "other"]):
            assert verdict.correct, verdict.reason
            assert verdict.profile


@pytest.mark.parametrize(("where", "seconds"), [("while it is imported", 3), ("in its forward", 8)])
def test_a_module_that_never_answers_is_given_up_with_all_its_processes(
    tmp_path: Path, cache: Path, where: str, seconds: int
) -> None:
    """Waits without an end have wedged whole runs."""
    hang = "__import__('time').sleep(1000)"
    source = (
        REFERENCE + f"\n{hang}\n" if "import" in where else REFERENCE.replace("return torch", f"{hang}; return torch")
    )
    limits = replace(LIMITS, open_seconds=seconds, bench_seconds=seconds)
    judge = Judge(
        write_task(tmp_path, source), isolation=best_isolation(), cache=cache, scratch=tmp_path / "s", limits=limits
    )
    before = set(psutil.Process().children(recursive=True))
    with pytest.raises(WarpsmithError) as raised:
        judge.open()
    assert f"{seconds} s" in str(raised.value)
    assert not set(psutil.Process().children(recursive=True)) - before

"""The reward's table, row by row, with its edges and its order."""

from __future__ import annotations

import pytest

from sandbox.reward import reward, undecided
from sandbox.verdict import (
    Baseline,
    BuildReport,
    Diagnostic,
    Finding,
    GuardReport,
    ProfileReport,
    Speedup,
    VerifyCase,
    VerifyReport,
)

BUILT = BuildReport(True, 0.5)
GUARDED = GuardReport(True, (Finding("aliases", "label", "returns a view of its input"),))
VERIFIED = VerifyReport(True, (VerifyCase("fresh 1", True, 1e-7, 1e-7),))
EDGE = 1 / 0.95
FAST, SLOW = Speedup(1.5, 1.4, 1.6), Speedup(0.8, 0.7, 0.9)
UNSURE = Speedup(1.5, 1.0, 2.0)


def profiled(disturbed: str = "", error: str = "", **speedups: Speedup) -> ProfileReport:
    baselines = {"eager": Baseline("eager", 30.0), "compile": Baseline("compile", None if error else 25.0, error=error)}
    return ProfileReport(20.0, 25.0, baselines, speedups, 15.0, {}, disturbed=disturbed)


@pytest.mark.parametrize(
    ("eager", "compiled", "expected"),
    [
        (FAST, FAST, 3),
        (FAST, SLOW, 2),
        (FAST, UNSURE, 2),
        (FAST, None, 2),
        (SLOW, FAST, 1),
        (UNSURE, FAST, 1),
        (SLOW, SLOW, 1),
        (UNSURE, UNSURE, 1),
        (SLOW, None, 1),
        (Speedup(1.2, EDGE + 1e-9, 1.4), Speedup(1.2, EDGE + 1e-9, 1.4), 3),
        (Speedup(1.2, EDGE - 1e-9, 1.4), FAST, 1),
        (FAST, Speedup(1.2, EDGE - 1e-9, 1.4), 2),
        (Speedup(1.06, 1.05, 1.07), Speedup(1.06, 1.05, 1.07), 1),
        (Speedup(1.0, 1.0, 1.0), Speedup(1.0, 1.0, 1.0), 1),
    ],
)
def test_table_of_times(eager, compiled, expected) -> None:
    speedups = {"eager": eager, **({"compile": compiled} if compiled else {})}
    earned, reason = reward(BUILT, GUARDED, VERIFIED, profiled(**speedups))
    assert earned == expected
    assert reason.startswith("Correct")
    assert reason.endswith(".")
    assert f"{eager.ratio:.2f} times eager" in reason


def test_best_mode_is_shown_and_does_not_count() -> None:
    profile = profiled(eager=FAST, compile=FAST, best=SLOW)
    assert reward(BUILT, GUARDED, VERIFIED, profile)[0] == 3


def test_faster_than_compile_but_not_than_eager_says_so() -> None:
    _, reason = reward(BUILT, GUARDED, VERIFIED, profiled(eager=SLOW, compile=FAST))
    assert "not faster than eager" in reason
    assert "1.50 times torch.compile" in reason


@pytest.mark.parametrize(
    ("eager", "compiled", "which", "told"),
    [
        (
            Speedup(2.51, 0.001, 1272.34),
            FAST,
            "eager",
            "2.51 times eager, but the interval 0.00 to 1272.34 is too wide",
        ),
        (FAST, UNSURE, "compile", "1.50 times torch.compile, but the interval 1.00 to 2.00 is too wide to tell"),
    ],
)
def test_an_interval_too_wide_is_blamed_on_the_measurement(eager, compiled, which, told) -> None:
    profile = profiled(eager=eager, compile=compiled)
    _, reason = reward(BUILT, GUARDED, VERIFIED, profile)
    assert told in reason
    assert "check again (a full verdict draws more placements" in reason
    assert "not at least" not in reason
    assert undecided(profile) == which


@pytest.mark.parametrize(
    "speedups", [{"eager": SLOW, "compile": UNSURE}, {"eager": FAST, "compile": FAST}, {"eager": FAST}, {}]
)
def test_what_is_decided_is_not_called_undecided(speedups) -> None:
    assert undecided(profiled(**speedups)) == ""


@pytest.mark.parametrize(
    ("eager", "compiled", "earned", "told"),
    [
        (Speedup(1.07, 0.98, 1.17), FAST, 1, "1.07 times eager is too short to call: below 8 us a gain under 15%"),
        (FAST, Speedup(1.12, 1.03, 1.22), 2, "1.12 times torch.compile is too short to call"),
    ],
)
def test_a_small_gain_of_a_short_time_is_not_called_and_not_measured_on(eager, compiled, earned, told) -> None:
    baselines = {"eager": Baseline("eager", 5.4), "compile": Baseline("compile", 5.4)}
    profile = ProfileReport(5.0, 9.0, baselines, {"eager": eager, "compile": compiled}, 4.0, {})
    found, reason = reward(BUILT, GUARDED, VERIFIED, profile)
    assert found == earned
    assert told in reason
    assert undecided(profile) == ""


def test_compile_that_cannot_run_says_why() -> None:
    profile = profiled(eager=FAST, error="Unsupported: data-dependent branch.")
    earned, reason = reward(BUILT, GUARDED, VERIFIED, profile)
    assert earned == 2
    assert "torch.compile cannot run the module (Unsupported: data-dependent branch), so 2 is the most." in reason


@pytest.mark.parametrize(
    ("build", "guard", "verify", "told"),
    [
        (
            BuildReport(False, 1.0, diagnostics=(Diagnostic("kernels/a.cu", 7, "expected a ';'"),)),
            None,
            None,
            "it does not build; kernels/a.cu:7: expected a ';'.",
        ),
        (BuildReport(False, 1.0), None, None, "it does not build; the compiler gave no message."),
        (
            BUILT,
            GuardReport(False, (GUARDED.findings[0], Finding("torch-compute", "reject", "blocks.py:9 calls torch.mm"))),
            None,
            "the guard rejects it; torch-compute: blocks.py:9 calls torch.mm.",
        ),
        (
            BUILT,
            GUARDED,
            VerifyReport(False, (VERIFIED.cases[0], VerifyCase("fresh 2", False, 1.0, 1.0, "Output 0 is all zero."))),
            "it is not correct; case fresh 2: Output 0 is all zero.",
        ),
        (BUILT, GUARDED, VerifyReport(False), "it is not correct; no case could be compared."),
        (BUILT, GuardReport(False), VerifyReport(False), "the guard rejects it"),
    ],
)
def test_candidate_at_fault(build, guard, verify, told) -> None:
    earned, reason = reward(build, guard, verify, None)
    assert earned == -1
    assert reason.startswith("The candidate is at fault: ")
    assert told in reason


def test_dynamic_guard_rejects_after_a_profile() -> None:
    rejected = GuardReport(False, (Finding("unexplained-time", "reject", "12 µs of 20 µs"),))
    assert reward(BUILT, rejected, VERIFIED, profiled(eager=FAST, compile=FAST))[0] == -1


@pytest.mark.parametrize(
    ("parts", "disturbed", "told"),
    [
        (
            (BUILT, GUARDED, VERIFIED, profiled("the GPU was throttled", eager=FAST, compile=FAST)),
            "",
            "GPU was throttled.",
        ),
        ((BUILT, GUARDED, VERIFIED, profiled(eager=FAST)), "another process used the GPU", "another process used"),
        ((None, None, None, None), "there is no compiler", "there is no compiler."),
        ((BuildReport(False, 1.0), None, None, None), "the disk is full", "the disk is full."),
        ((None, None, None, None), "", "could not be judged to the end"),
        ((BUILT, GUARDED, VERIFIED, None), "", "could not be judged to the end"),
        ((BUILT, GUARDED, None, None), "", "could not be judged to the end"),
        ((BUILT, GUARDED, VERIFIED, profiled(compile=FAST)), "", "eager baseline could not be timed"),
    ],
)
def test_nothing_could_be_judged(parts, disturbed, told) -> None:
    earned, reason = reward(*parts, disturbed=disturbed)
    assert earned is None
    assert reason.startswith("The environment is at fault: ")
    assert told in reason


def test_what_nobody_wanted_timed_earns_by_its_correctness_alone() -> None:
    assert reward(BUILT, GUARDED, VERIFIED, None, timed=False)[0] == 1
    assert reward(BUILT, GUARDED, VerifyReport(False), None, timed=False)[0] == -1
    assert reward(BUILT, GUARDED, None, None, timed=False)[0] is None


def test_a_wrong_answer_stays_wrong_however_busy_the_machine_was() -> None:
    wrong = VerifyReport(False, (VerifyCase("a timed call", False, 1.0, 1.0, "it is off"),))
    assert reward(BUILT, GUARDED, wrong, profiled("other programs kept the CPU busy"))[0] == -1

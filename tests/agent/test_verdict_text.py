"""Verdicts and profiles in words: all that matters, sized for a model."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.verdict_text import WHOLE, original_text, verdict_text
from sandbox.original import OperatorTime, OriginalProfile
from sandbox.verdict import (
    Baseline,
    BuildReport,
    Diagnostic,
    Finding,
    GuardReport,
    KernelResources,
    KernelRun,
    Speedup,
    VerifyCase,
    VerifyReport,
)
from sandbox.verify_report import TIMED_CALL, FormReport
from tests.agent.support import make_verdict


def test_a_failed_build_shows_its_messages_with_file_and_line():
    build = BuildReport(
        False,
        1.2,
        diagnostics=(Diagnostic("kernels/a.cu", 7, "expected ';'"), Diagnostic("kernels/b.cu", 0, "no launcher")),
    )
    text = verdict_text(replace(make_verdict(ok=False), build=build), 4)
    assert text.startswith("Attempt 4 (quick): reward -1. The candidate does not compile.")
    assert "kernels/a.cu:7: expected ';'" in text
    assert "kernels/b.cu: no launcher" in text


def test_findings_failing_cases_and_resources_are_shown():
    verdict = replace(
        make_verdict(),
        build=BuildReport(True, 0.5, (KernelResources("fused", 40, 1024, 0), KernelResources("slow", 255, 0, 64))),
        guard=GuardReport(True, (Finding("torch-compute", "label", "line 9: torch.relu"),)),
        verify=VerifyReport(
            False,
            (
                VerifyCase("fresh 1", True, 0.0, 0.0),
                VerifyCase("fresh 2", False, 0.5, 0.25, "too far"),
                *[VerifyCase(TIMED_CALL, True, 0.0, 0.0)] * 3,
            ),
        ),
    )
    text = verdict_text(verdict, 1)
    assert "fused: 40 registers, 1024 bytes shared, no spills" in text
    assert "SPILLS 64 bytes" in text
    assert "label torch-compute: line 9: torch.relu" in text
    assert "build ok in 0.5 s, guard ok, verify FAILED: 1 of 2 cases and 3 of 3 timed calls agree" in text
    assert "fresh 2: too far (max error 0.5 absolute, 0.25 relative)" in text
    assert "fresh 1" not in text


def test_other_forms_are_told_with_what_all_calls_gain_together():
    wrong = VerifyReport(False, (VerifyCase("fresh inputs 1", False, None, None, "too far"),))
    right = FormReport("x [4, 8]", 1, 30, VerifyReport(True), eager_us=10.0, us=5.0)
    forms = (right, FormReport("x [2, 4]", 2, 5, wrong, eager_us=10.0), replace(right, name="x [9]", calls=1, us=20.0))
    verdict = replace(make_verdict(), verify=VerifyReport(True, forms=forms, calls=12))
    text = verdict_text(verdict, 1)
    assert "form: x [4, 8] (30 calls): right, 2.00 times as fast as eager" in text
    assert "form: x [2, 4] (5 calls): NOT COVERED, fresh inputs 1: too far" in text
    assert "form: x [9] (1 calls): NOT COVERED, right, 0.50 times as fast as eager" in text
    assert "covers 2 of 4 forms in which your run builds and calls it, 42 of 48 calls" in text
    # In us: 12 of 20, 30 of 10, 5 and 1 of 10 before; the first two take half of it now, and the others as long.
    assert verdict.over_all_calls == pytest.approx(600 / 330)
    untimed = replace(verdict, verify=replace(verdict.verify, forms=(replace(right, eager_us=None),)))
    assert untimed.over_all_calls is None


def test_times_come_with_intervals_baselines_and_the_distance_to_a_copy():
    text = verdict_text(make_verdict(), 1)
    assert "profile: 10 us a call\n" in text
    gpu = verdict_text(replace(make_verdict(), environment={"device": "A GPU"}), 1)
    assert "10 us on the device, 12 us latency" in gpu
    assert "eager 20 us: 2.000x [1.900, 2.100]; compile (default) 15 us: 1.500x [1.400, 1.600]\n" in text
    assert "a copy of the same bytes takes 5 us: you reach 50% of a plain copy's speed" in text


def test_nothing_is_told_twice():
    """What the reason says, what the best baseline has in common with the one it is, and what every profile notes."""
    verdict = make_verdict()
    best = Baseline("compile", 15.0)
    profile = replace(
        verdict.profile,
        baselines={"eager": Baseline("eager", 20.0), "compile": replace(best, mode="compile"), "best": best},
        notes=("2 placements; the intervals are over placements", "over 3 times, so measured again"),
    )
    reason = "Correct and faster: 2.00 times eager (1.90 to 2.10), 1.50 times torch.compile (1.40 to 1.60)."
    text = verdict_text(replace(verdict, reason=reason, profile=profile), 1)
    assert "\n  eager 20 us; compile (the best) 15 us\n" in text
    assert text.count("placements") == 0
    assert "note: over 3 times, so measured again" in text
    case = VerifyCase("fresh inputs 1", False, 0.5, 0.25, "The output is off.")
    reason = "The candidate is at fault: it is not correct; case fresh inputs 1: The output is off."
    wrong = replace(make_verdict(ok=False), verify=VerifyReport(False, (case,)), reason=reason)
    assert verdict_text(wrong, 1).count("The output is off") == 1
    assert "fresh inputs 1: as said above (max error 0.5 absolute, 0.25 relative)" in verdict_text(wrong, 1)


def test_the_whole_leaves_nothing_out():
    cases = tuple(VerifyCase(f"case {n}", False, None, None, "far off " * 200) for n in range(30))
    verdict = replace(make_verdict(), verify=VerifyReport(False, cases))
    assert "  ... and 22 more" in verdict_text(verdict, 1)
    whole = verdict_text(verdict, 1, WHOLE)
    assert all(f"  case {n}: {'far off ' * 200}" in whole for n in range(30))


def test_a_baseline_that_could_not_be_timed_says_why():
    verdict = make_verdict()
    baselines = {**verdict.profile.baselines, "best": Baseline("max-autotune", None, error="took too long")}
    text = verdict_text(replace(verdict, profile=replace(verdict.profile, baselines=baselines)), 1)
    assert "best (max-autotune) could not be timed: took too long" in text


def test_the_next_reward_is_named_with_the_time_to_aim_at():
    assert "For reward 2 the interval against eager must lie above 1.053x" in verdict_text(make_verdict(reward=1), 1)
    assert "For reward 3 the interval against compile" in verdict_text(make_verdict(reward=2), 1)
    assert "For reward" not in verdict_text(make_verdict(reward=3), 1)


def test_no_aim_is_slower_than_where_it_stands():
    close = replace(make_verdict().profile, speedup={"eager": Speedup(1.0, 0.9, 1.1)})
    assert "Aim below 10 us." in verdict_text(replace(make_verdict(reward=1), profile=close), 1)


@pytest.mark.parametrize(
    ("tier", "said"),
    [
        ("quick", "Check again once, or with tier full, which draws more placements. These files are measured anew"),
        ("full", "Check again once. These files are measured anew"),
    ],
)
def test_an_interval_too_wide_asks_for_another_measurement_and_not_for_a_faster_kernel(tier, said):
    wide = {"eager": Speedup(2.51, 0.001, 1272.34), "compile": Speedup(1.5, 1.4, 1.6)}
    verdict = make_verdict(reward=1, tier=tier)
    text = verdict_text(replace(verdict, profile=replace(verdict.profile, speedup=wide)), 1)
    assert text.endswith(
        f"The interval against eager is too wide, not the kernel too slow: {said} then, without remeasure."
    )
    assert "Aim below" not in text


def test_a_disturbed_verdict_says_whose_fault_it_is_not_and_what_to_do():
    verdict = make_verdict(reward=None)
    disturbed = replace(verdict.profile, disturbed="other programs kept the CPU busy: they ran 5 ms")
    text = verdict_text(replace(verdict, profile=disturbed), 1)
    assert "not the kernel's fault; the times below cannot be trusted: other programs kept the CPU busy" in text
    assert "they ran 5 ms\n  10 us a call\n  eager 20 us: about 2.00x; compile (default) 15 us: about 1.50x\n" in text
    assert "Check again once" in text.splitlines()[-1]
    untimed = replace(disturbed, device_us=0.0, baselines={"eager": Baseline("eager", None)}, speedup={}, samples={})
    reason = "The environment is at fault: other programs kept the CPU busy: they ran 5 ms."
    text = verdict_text(replace(verdict, profile=untimed, reason=reason), 1)
    assert "profile: DISTURBED, which is not the kernel's fault; no time could be taken\nChange nothing" in text
    assert text.count("other programs kept the CPU busy") == 1
    twice = verdict_text(replace(verdict, profile=untimed, reason=reason), 2, disturbed_before=True)
    assert "do not Check them again" in twice.splitlines()[-1]
    assert "Check again once" not in twice


def test_the_worst_verdict_stays_under_sixty_lines_and_its_lines_short():
    many = 500
    verdict = replace(
        make_verdict(reward=1),
        build=BuildReport(
            True,
            1.0,
            tuple(KernelResources(f"k{i}" * 400, 1, 1, 1) for i in range(many)),
            tuple(Diagnostic("a.cu", i, f"{i} {'x' * 5000}") for i in range(many)),
        ),
        guard=GuardReport(True, tuple(Finding("r", "label", "e" * 5000) for _ in range(many))),
        verify=VerifyReport(
            False, tuple(VerifyCase("c", False, 1.0, 1.0, "r" * 5000) for _ in range(many)), ("n",) * many
        ),
    )
    lines = verdict_text(verdict, 1).splitlines()
    assert len(lines) < 60
    assert max(map(len, lines)) < 700
    assert "  ... and 490 more" in lines


def test_the_original_is_told_with_operators_baselines_floor_and_dependencies():
    profile = OriginalProfile(
        operators=(OperatorTime("aten::mul", 3, 12.5, 0.5),),
        baselines={"eager": Baseline("eager", 25.0), "best": Baseline("reduce-overhead", 20.0)},
        copy_us=5.0,
        bytes_moved=131072,
        precision="fp32",
        depends_on=("x", "scale"),
        ignores=("bias",),
        signature=("x: float32 [64, 256] contiguous",),
        environment={"device": "A GPU", "sm": "sm_90", "torch": "2.13.0"},
        notes=("short",),
    )
    text = original_text(profile.to_json())
    for part in (
        "device: A GPU (sm_90, torch 2.13.0)",
        "x: float32 [64, 256] contiguous",
        "12.5 us  50.0%    3 x aten::mul",
        "eager: 25 us",
        "best (reduce-overhead): 20 us",
        "131,072 bytes it must move takes 5 us",
        "depends on: x, scale",
        "ignores: bias",
        "note: short",
    ):
        assert part in text
    assert "UNRELIABLE" not in text
    assert "threads" not in text
    noisy = replace(
        profile,
        environment={"device": "cpu", "cpu": "A CPU", "threads": 2},
        notes=("the times are not to be trusted: other programs kept the CPU busy",),
    )
    text = original_text(noisy.to_json())
    assert text.count("other programs kept the CPU busy") == 1
    assert "calls candidate and baselines with 2 threads" in text
    assert text.index("UNRELIABLE") < text.index("operators by time")
    assert "operators by time in one forward:" in text
    slowed = replace(profile, operators_disturbed="other programs kept the CPU busy for 900 ms")
    assert "in one forward (ROUGH: other programs kept the CPU busy for 900 ms):" in original_text(slowed.to_json())


def test_what_a_gpu_shows_is_told_too():
    kernel = KernelRun("fused", 2, 9.0, 0.9, 40, 1024, 64, 100, 256, 0.75)
    profile = replace(make_verdict().profile, kernels=(kernel,), graph_us=9.5, warm_us=8.0, copy_us=9.8)
    text = verdict_text(replace(make_verdict(), profile=profile, environment={"device": "A GPU"}), 1)
    assert "10 us on the device (8 us with warm caches), 12 us latency" in text
    assert "98% of a plain copy's speed: the end of the road" in text
    assert "captured into a CUDA graph you take 9.5 us" in text
    assert "ran 2 x fused: 9 us, 90% of the time; 100 blocks of 256 threads, 40 registers" in text
    assert "SPILLS 64 bytes, occupancy 75%" in text
    failed = replace(profile, graph_us=None, graph_error="it cannot be captured into a CUDA graph: RuntimeError: sync")
    assert "as a CUDA graph: it cannot be captured" in verdict_text(replace(make_verdict(), profile=failed), 1)


def test_what_needs_the_developer_has_a_line_of_its_own():
    profile = replace(make_verdict().profile, remarkable="12.0 times the best baseline needs your own eyes")
    lines = verdict_text(replace(make_verdict(), profile=profile), 1).splitlines()
    assert "  THE DEVELOPER HAS TO LOOK: 12.0 times the best baseline needs your own eyes" in lines


def test_a_task_judged_by_latency_says_so_and_shows_latencies():
    baselines = {"eager": Baseline("eager", 20.0, 60.0)}
    profile = replace(make_verdict().profile, judged_by="latency", baselines=baselines)
    text = verdict_text(replace(make_verdict(reward=1), profile=profile), 1)
    assert "judged by latency" in text
    assert "eager 60 us" in text


def test_short_times_are_told_what_they_take():
    baselines = {"eager": Baseline("eager", 5.0, 9.0)}
    profile = replace(make_verdict().profile, device_us=4.7, baselines=baselines)
    text = verdict_text(replace(make_verdict(reward=1), profile=profile), 1)
    assert "Aim below 4.22 us; below 8 us it takes 15%, less is too short to call." in text


def test_one_mistake_at_many_lines_is_told_once():
    wrong = [Diagnostic("kernels/a.cu", line, "'x' is undefined") for line in range(1, 10)]
    build = BuildReport(ok=False, seconds=1.0, diagnostics=(*wrong, Diagnostic("kernels/b.cu", 0, "no launcher")))
    told = verdict_text(replace(make_verdict(ok=False), build=build), 1)
    assert "kernels/a.cu:1, 2, 3, 4, 5, 6 and 3 more: 'x' is undefined" in told
    assert "\n  kernels/b.cu: no launcher" in told
    assert told.count("undefined") == 1

"""What the placements' times become: which baseline is the best, and what a reader is told beside the numbers."""

from __future__ import annotations

from sandbox.reward import reward
from sandbox.timing.floor import share_of_copy
from sandbox.timing.kernel_runs import Launch
from sandbox.timing.profile_report import Modes, baselines, profile_report, ratios
from sandbox.timing.profiling import PlacementTimes
from sandbox.verdict import BuildReport, GuardReport, VerifyReport

GPU_MODES = ("eager", "eager-cudagraph", "compile", "reduce-overhead", "max-autotune-no-cudagraphs")


def placements(count: int = 5, by_latency: bool = False, **us: float) -> list[PlacementTimes]:
    """Placements that agree on each side's time; latencies are 50 µs more."""
    us.setdefault("copy", 10.0)
    sides = {side.replace("_", "-"): time for side, time in us.items()}
    return [
        PlacementTimes(
            device={side: [time] * 9 for side, time in sides.items()},
            latency={side: [time + 50.0] * 9 for side, time in sides.items()},
            warm={side: [time - 1.0] * 5 for side, time in sides.items()},
        )
        for _ in range(count)
    ]


def test_the_best_may_replay_graphs_and_then_the_fastest_without_is_named_too() -> None:
    times = placements(candidate=20.0, eager=60.0, eager_cudagraph=30.0, compile=40.0, reduce_overhead=25.0)
    found = baselines(times, Modes(GPU_MODES[:4]), "device")
    assert (found["best"].mode, found["best"].graphs) == ("reduce-overhead", True)
    assert (found["best-no-graphs"].mode, found["best-no-graphs"].graphs) == ("compile", False)
    report = profile_report(times, Modes(GPU_MODES[:4]), "device", {})
    assert report.speedup["best"].ratio < report.speedup["best-no-graphs"].ratio
    assert any("spare the host its launches" in note and "compile" in note for note in report.notes)


def test_without_graphs_there_is_one_best() -> None:
    found = baselines(placements(eager=60.0, compile=40.0), Modes(("eager", "compile")), "device")
    assert found["best"].mode == "compile"
    assert "best-no-graphs" not in found


def test_modes_keep_their_warm_times_their_preparation_and_their_errors() -> None:
    modes = Modes(("eager", "compile"), {"max-autotune": "torch.compile was not ready within 120 s"}, {"compile": 7.5})
    found = baselines(placements(eager=60.0, compile=40.0), modes, "device")
    assert (found["eager"].warm_us, found["eager"].prepare_seconds) == (59.0, None)
    assert found["compile"].prepare_seconds == 7.5
    assert "not ready within 120 s" in found["max-autotune"].error


def test_judged_by_latency_everything_is_about_latency() -> None:
    """The device's time is halved, and what a caller waits is not: such a task earns nothing by it."""
    times = placements(candidate=20.0, eager=40.0, compile=40.0)
    modes = Modes(("eager", "compile"))
    report = profile_report(times, modes, "latency", {})
    assert report.judged_by == "latency"
    assert (report.us, report.device_us, report.latency_us) == (70.0, 20.0, 70.0)
    assert report.speedup["eager"].ratio == 90 / 70
    assert report.samples["candidate"][0] == [70.0] * 9
    assert ratios(times, modes, "latency")["best"] == 90 / 70
    parts = BuildReport(True, 0.1), GuardReport(True), VerifyReport(True)
    close = profile_report(placements(candidate=20.0, eager=23.0), Modes(("eager",)), "latency", {})
    assert reward(*parts, close)[0] == 1
    assert (
        reward(*parts, profile_report(placements(candidate=20.0, eager=23.0), Modes(("eager",)), "device", {}))[0] == 2
    )


def test_a_slow_default_is_no_aim() -> None:
    report = profile_report(
        placements(candidate=20.0, eager=40.0, compile=200.0), Modes(("eager", "compile")), "device", {}
    )
    assert any("5.0 times slower than eager" in note and "aim at the best (eager)" in note for note in report.notes)
    fine = profile_report(
        placements(candidate=20.0, eager=40.0, compile=44.0), Modes(("eager", "compile")), "device", {}
    )
    assert not any("slower than eager" in note for note in fine.notes)


def test_ten_times_the_best_needs_the_developers_eyes() -> None:
    modes = Modes(("eager", "compile"))
    assert profile_report(placements(candidate=20.0, eager=900.0, compile=190.0), modes, "device", {}).remarkable == ""
    found = profile_report(placements(candidate=20.0, eager=900.0, compile=210.0), modes, "device", {})
    assert "10.5 times the best baseline needs your own eyes" in found.remarkable


def test_a_placement_says_what_it_saw_inside() -> None:
    times = placements(candidate=20.0, eager=40.0)
    times[0].launches = [Launch("fused(float*)", 19.0, 64, 256, 32, 0)]
    for number, placement in enumerate(times):
        placement.graph = [18.0 + number]
    report = profile_report(times, Modes(("eager",)), "device", {})
    assert [kernel.name for kernel in report.kernels] == ["fused"]
    assert (report.graph_us, report.graph_error, report.warm_us) == (20.0, "", 19.0)
    times[1].graph_error = "it cannot be captured into a CUDA graph: RuntimeError: a synchronisation"
    assert "a synchronisation" in profile_report(times, Modes(("eager",)), "device", {}).graph_error


def test_the_copy_is_the_end_of_the_road() -> None:
    assert share_of_copy(20.0, 10.0) == "50% of a plain copy's speed"
    assert "the end of the road" in share_of_copy(10.2, 10.0)
    assert "the end of the road" not in share_of_copy(10.4, 10.0)
    assert "no floor here" in share_of_copy(5.0, 10.0)
    assert share_of_copy(None, 10.0) == share_of_copy(10.0, 0.0) == ""

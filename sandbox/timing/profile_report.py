"""Puts what the placements measured into one report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from sandbox.task import JudgedBy
from sandbox.timing.kernel_runs import kernel_runs
from sandbox.timing.profiling import CANDIDATE, COPY, EAGER, GRAPH, PlacementTimes, by_side, medians
from sandbox.timing.statistics import speedup, too_short_to_call
from sandbox.verdict import Baseline, ProfileReport, Speedup

COMPILE = "compile"
BEST = "best"
BEST_PLAIN = "best-no-graphs"
GRAPHS = frozenset({GRAPH, "reduce-overhead", "max-autotune"})
"""Baselines that replay CUDA graphs: what they gain over the others may be the host's share, which a caller can have too."""
REMARKABLE = 10.0
SLOW_DEFAULT = 1.2
"""So many times slower than eager, torch.compile's default is no aim."""


@dataclass(frozen=True)
class Modes:
    """The baselines there are: those that can be timed, why the others cannot, and how long each took to get ready."""

    ready: tuple[str, ...]
    errors: Mapping[str, str] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)


def baselines(placements: Sequence[PlacementTimes], modes: Modes, by: JudgedBy) -> dict[str, Baseline]:
    """Return every mode by its name, the fastest of all as ``best``, and ``best-no-graphs`` where that one uses graphs."""
    device, latency, warm = (
        [getattr(placement, kind) for placement in placements] for kind in ("device", "latency", "warm")
    )
    found = {
        mode: Baseline(
            mode,
            medians(device, mode),
            medians(latency, mode),
            warm_us=medians(warm, mode),
            graphs=mode in GRAPHS,
            prepare_seconds=modes.seconds.get(mode) or None,
        )
        for mode in modes.ready
    }
    timed = [baseline for baseline in found.values() if baseline.us(by) is not None]
    plain = [baseline for baseline in timed if not baseline.graphs]
    failed = {
        mode: Baseline(mode, None, None, error, graphs=mode in GRAPHS, prepare_seconds=modes.seconds.get(mode) or None)
        for mode, error in modes.errors.items()
    }
    if timed:
        found[BEST] = min(timed, key=lambda baseline: baseline.us(by) or 0.0)
        if found[BEST].graphs and plain:
            found[BEST_PLAIN] = min(plain, key=lambda baseline: baseline.us(by) or 0.0)
    return {**found, **failed}


def profile_report(
    placements: Sequence[PlacementTimes],
    modes: Modes,
    by: JudgedBy,
    multiprocessor: Mapping[str, int],
    notes: Sequence[str] = (),
) -> ProfileReport:
    """Return the report of a candidate's times beside the baselines'.

    Args:
        placements: At least one.
        modes: The baselines.
        by: What the task is judged by.
        multiprocessor: The most that one holds; see ``kernel_runs``.
        notes: Said after the report's own.
    """
    device = [p.device for p in placements]
    samples = by_side([p.judged(by) for p in placements])
    known = baselines(placements, modes, by)
    gains = _gains(samples, known)
    best = gains.get(BEST)
    graph = [median(p.graph) for p in placements if p.graph]
    launches = next((p.launches for p in placements if p.launches), [])
    ours = medians([p.judged(by) for p in placements], CANDIDATE) or 0.0
    return ProfileReport(
        device_us=medians(device, CANDIDATE) or 0.0,
        latency_us=medians([p.latency for p in placements], CANDIDATE) or 0.0,
        baselines=known,
        speedup=gains,
        copy_us=medians(device, COPY) or 0.0,
        samples={side: [list(one) for one in lists] for side, lists in samples.items()},
        disturbed=next((p.disturbed for p in placements if p.disturbed), ""),
        notes=(*_notes(ours, known, gains, by, len(placements)), *notes),
        judged_by=by,
        warm_us=medians([p.warm for p in placements], CANDIDATE),
        graph_us=median(graph) if graph else None,
        graph_error=next((p.graph_error for p in placements if p.graph_error), ""),
        event_us=median(p.event_us for p in placements),
        kernels=kernel_runs(launches, multiprocessor),
        remarkable=_remarkable(best) if best is not None else "",
    )


def ratios(placements: Sequence[PlacementTimes], modes: Modes, by: JudgedBy) -> dict[str, float]:
    """Return how many times faster than eager, compile and best the candidate is so far, without intervals."""
    ours = medians([p.judged(by) for p in placements], CANDIDATE)
    known = baselines(placements, modes, by)
    theirs = {name: known[name].us(by) for name in (EAGER, COMPILE, BEST) if name in known}
    return {name: us / ours for name, us in theirs.items() if us is not None and ours}


def about_modes(known: Mapping[str, Baseline], by: JudgedBy) -> list[str]:
    """Return what whoever chooses an aim should know of the baselines."""
    times = {name: us for name, baseline in known.items() if (us := baseline.us(by)) is not None}
    notes = []
    if COMPILE in times and times[COMPILE] > SLOW_DEFAULT * times[EAGER]:
        notes.append(
            f"torch.compile's default is {times[COMPILE] / times[EAGER]:.1f} times slower than eager, as its choice of memory "
            f"layout can make it: beating it says little, so aim at the best ({known[BEST].mode})"
        )
    if BEST_PLAIN in times:
        notes.append(
            f"the best ({known[BEST].mode}) replays CUDA graphs, which spare the host its launches; compare it with the "
            f"candidate as a graph, and the candidate with {known[BEST_PLAIN].mode}, the fastest that does not"
        )
    return notes


def _gains(samples: Mapping[str, list[list[float]]], known: Mapping[str, Baseline]) -> dict[str, Speedup]:
    if CANDIDATE not in samples:
        return {}
    measured: dict[str, Speedup] = {}
    gains = {}
    for name, baseline in known.items():
        if baseline.mode in samples and baseline.device_us is not None:
            if baseline.mode not in measured:
                measured[baseline.mode] = speedup(samples[CANDIDATE], samples[baseline.mode])
            gains[name] = measured[baseline.mode]
    return gains


def _remarkable(best: Speedup) -> str:
    if best.ratio <= REMARKABLE:
        return ""
    return (
        f"{best.ratio:.1f} times the best baseline needs your own eyes: read the kernels and ask what they leave out "
        "before you believe it"
    )


def _notes(
    ours: float, known: Mapping[str, Baseline], gains: Mapping[str, Speedup], by: JudgedBy, placements: int
) -> list[str]:
    notes = [f"{placements} placement{'s' if placements != 1 else ''}; the intervals are over placements"]
    best = gains.get(BEST)
    theirs = known[BEST].us(by) if best is not None else None
    if best is not None and theirs is not None and too_short_to_call(ours, theirs, best):
        notes.append(f"too short to call: {best.ratio:.2f} times at {ours:.1f} us can be where the buffers lie")
    return notes + about_modes(known, by)

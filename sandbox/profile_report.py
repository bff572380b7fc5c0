"""Puts what the placements measured into one report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from sandbox.profiling import CANDIDATE, COPY, PlacementTimes, by_side, medians
from sandbox.statistics import speedup, too_short_to_call
from sandbox.verdict import Baseline, ProfileReport, Speedup

EAGER = "eager"
COMPILE = "compile"
BEST = "best"
REMARKABLE = 10.0


@dataclass(frozen=True)
class Modes:
    """The baselines there are: those that can be timed, and why the others cannot."""

    ready: tuple[str, ...]
    errors: Mapping[str, str] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)


def baselines(placements: Sequence[PlacementTimes], modes: Modes) -> dict[str, Baseline]:
    """Return ``eager``, ``compile`` and the fastest of all as ``best``, and every other mode by its name."""
    device, latency = [p.device for p in placements], [p.latency for p in placements]
    found = {mode: Baseline(mode, medians(device, mode), medians(latency, mode)) for mode in modes.ready}
    timed = [baseline for baseline in found.values() if baseline.device_us is not None]
    failed = {mode: Baseline(mode, None, None, error) for mode, error in modes.errors.items()}
    if timed:
        found[BEST] = min(timed, key=lambda baseline: baseline.device_us or 0.0)
    return {**found, **failed}


def profile_report(placements: Sequence[PlacementTimes], modes: Modes, notes: Sequence[str] = ()) -> ProfileReport:
    """Return the report of a candidate's times beside the baselines'."""
    device, latency = [p.device for p in placements], [p.latency for p in placements]
    samples = by_side(device)
    known = baselines(placements, modes)
    gains = {
        name: speedup(samples[CANDIDATE], samples[baseline.mode])
        for name, baseline in known.items()
        if baseline.mode in samples and baseline.device_us is not None
    }
    ours = medians(device, CANDIDATE) or 0.0
    return ProfileReport(
        device_us=ours,
        latency_us=medians(latency, CANDIDATE) or 0.0,
        baselines=known,
        speedup=gains,
        copy_us=medians(device, COPY) or 0.0,
        samples={side: [list(one) for one in lists] for side, lists in samples.items()},
        disturbed=next((p.disturbed for p in placements if p.disturbed), ""),
        notes=(*_notes(ours, known, gains, placements), *notes),
    )


def _notes(
    ours: float, known: Mapping[str, Baseline], gains: Mapping[str, Speedup], placements: Sequence[PlacementTimes]
) -> list[str]:
    notes = [f"{len(placements)} placements; the intervals are over placements"]
    warm = [median(p.warm[CANDIDATE]) for p in placements if p.warm.get(CANDIDATE)]
    if warm:
        notes.append(f"with warm caches a call takes {median(warm):.1f} us")
    best = gains.get(BEST)
    if best is None:
        return notes
    theirs = known[BEST].device_us or 0.0
    if too_short_to_call(ours, theirs, best):
        notes.append(f"too short to call: {best.ratio:.2f} times at {ours:.1f} us can be where the buffers lie")
    if best.ratio > REMARKABLE:
        notes.append(f"{best.ratio:.1f} times the best baseline is remarkable: look at the code before you believe it")
    return notes

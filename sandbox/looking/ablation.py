"""How much time each phase of a kernel takes: it is timed with that phase left out, although its answer is then wrong.

What is timed here is not a candidate: it is neither verified nor an attempt, earns nothing, and cannot land.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sandbox.looking.defines import ABLATE, chosen_phases
from sandbox.looking.race import Race, run_race
from sandbox.looking.study import Study
from sandbox.looking.sweep import PLACEMENTS, prepare
from sandbox.timing.statistics import speedup
from sandbox.verdict import Speedup

SCHEMA = "warpsmith.ablation/1"
NOTE = (
    "Ablation: what lacks a phase computes something else and never counts. The compiler also drops what only fed that phase, "
    "and phases overlap, so shares need not add up to 100 %."
)
_FULL = ""


@dataclass(frozen=True)
class Phase:
    """The candidate without one phase.

    Attributes:
        name: The phase.
        us: Time of a call without it, or None.
        share: Part of the whole's time that it takes, with its interval (``ratio`` is the share itself); None if not timed.
        problem: Why it was not timed.
    """

    name: str
    us: float | None = None
    share: Speedup | None = None
    problem: str = ""


@dataclass(frozen=True)
class AblationReport:
    """What leaving phases out showed.

    Attributes:
        us: Time of the whole candidate, or None.
        phases: Those left out, the costliest first.
        problem: Why nothing can be said, or empty.
        disturbed: Why the times are not to be trusted, or empty.
    """

    us: float | None
    phases: tuple[Phase, ...] = ()
    problem: str = ""
    disturbed: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON data; no part of it is a verdict."""
        return {"schema": SCHEMA, **asdict(self), "note": NOTE}


def ablate(study: Study, wanted: Sequence[str]) -> AblationReport:
    """Time the candidate whole and without each phase; without any named, each that its kernels can leave out.

    Raises:
        UsageError: A phase cannot be left out.
    """
    names = chosen_phases(study.candidate.files, wanted)
    variants = {_FULL: {}, **{name: {f"{ABLATE}{name}": "1"} for name in names}}
    trials, problems = prepare(study, variants, verify=False)
    if _FULL in problems:
        return AblationReport(None, problem=problems[_FULL])
    with study.alone() as watch:
        race = run_race(study, {name: trial.start_worker for name, trial in trials.items()}, watch, PLACEMENTS)
    problems.update(race.failed)
    if race.disturbed or _FULL in problems:
        return AblationReport(None, problem=problems.get(_FULL, ""), disturbed=race.disturbed)
    found = [_phase(name, race, problems.get(name, "")) for name in names]
    found.sort(key=lambda phase: -phase.share.ratio if phase.share else 1.0)
    return AblationReport(race.us(_FULL), tuple(found))


def _phase(name: str, race: Race, problem: str) -> Phase:
    if problem or name not in race.samples:
        return Phase(name, problem=problem or "not timed")
    gain = speedup(race.samples[name], race.samples[_FULL])
    share = Speedup(1 - 1 / gain.ratio, 1 - 1 / gain.low, 1 - 1 / gain.high)
    return Phase(name, race.us(name), share)

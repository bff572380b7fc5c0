"""One kernel under several values of its macros: built in parallel, verified quickly, timed against each other.

Nothing of it is a verdict: the best values have to be written into the source and checked.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

from sandbox.build import Built
from sandbox.errors import UsageError
from sandbox.looking.defines import Defines, combinations, flags, present_values
from sandbox.looking.race import Race, Starters, run_race
from sandbox.looking.study import Study
from sandbox.plans import CasePlan
from sandbox.timing.gpu_watch import DeviceWatch
from sandbox.timing.statistics import speedup
from sandbox.trial import Trial
from sandbox.verdict import Speedup

SCHEMA = "warpsmith.sweep/1"
FINALISTS = 4
PLACEMENTS = 4
_BESIDE = 6
_CASES = (CasePlan("fresh inputs 1", watch="operators"), CasePlan("fresh inputs 2"))
_LONGEST_REASON = 300


@dataclass(frozen=True)
class Variant:
    """The candidate with some values of its macros.

    Attributes:
        defines: The values.
        present: Whether they are those that the source has now.
        us: Time of a call, or None.
        best_gain: How much faster the best variant is, with its interval; None where they were not timed to the end together.
        problem: Why it was not timed, or not to the end.
    """

    defines: dict[str, str]
    present: bool
    us: float | None = None
    best_gain: Speedup | None = None
    problem: str = ""

    @property
    def name(self) -> str:
        """Its values, as on a command line."""
        return name_of(self.defines)


@dataclass(frozen=True)
class SweepReport:
    """What a sweep found.

    Attributes:
        variants: The fastest first; those without a time last.
        conclusion: Which is best, and whether it really is, in a sentence.
        disturbed: Why the times are not to be trusted, or empty.
    """

    variants: tuple[Variant, ...]
    conclusion: str
    disturbed: str = ""

    @property
    def best(self) -> Variant | None:
        """The fastest variant, if any was timed."""
        first = self.variants[0]
        return first if first.us is not None and not self.disturbed else None

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON data; no part of it is a verdict."""
        return {"schema": SCHEMA, **asdict(self), "best": self.best.defines if self.best else None}


def name_of(defines: Defines) -> str:
    """Return values as on a command line: ``TILE=64 UNROLL=2``."""
    return " ".join(f"{name}={value}" for name, value in defines.items())


def sweep(study: Study, values: Mapping[str, Sequence[str]]) -> SweepReport:
    """Time every combination of the values that builds and verifies, beside the values that the source has now.

    Raises:
        UsageError: There are too many combinations, or a name is none that the kernels leave open.
    """
    present = present_values(study.candidate.files, list(values))
    wanted = combinations(values)
    every = [*wanted, *([] if present in wanted else [present])]
    named = {name_of(defines): defines for defines in every}
    trials, problems = prepare(study, {name: {} if defines == present else defines for name, defines in named.items()})
    with study.alone() as watch:
        race, screened = _race(study, trials, name_of(present), watch)
    problems.update(race.failed)
    variants = [
        Variant(
            dict(defines), defines == present, _us(race, screened, name), None, _reason(problems, race, screened, name)
        )
        for name, defines in named.items()
    ]
    return _concluded(variants, race)


def prepare(
    study: Study, variants: Mapping[str, Defines], *, verify: bool = True
) -> tuple[dict[str, Trial], dict[str, str]]:
    """Build every variant in parallel, then guard and verify one after the other.

    Returns:
        Those that may be timed, and why the others may not.

    Raises:
        UsageError: Variants cannot be timed beside each other here.
    """
    if study.crowded:
        raise UsageError(study.crowded, where="variants")
    study.tell("build", f"building {len(variants)} variants in parallel")
    quiet = study.quietly()
    workers = min(len(variants), os.cpu_count() or 1, 8)
    with ThreadPoolExecutor(max_workers=workers, thread_name_prefix="sweep") as pool:
        builds = dict(
            zip(variants, pool.map(lambda defines: quiet.build(flags(defines)), variants.values()), strict=True)
        )
    problems = {name: _build_problem(built) for name, built in builds.items() if built.manifest is None}
    trials: dict[str, Trial] = {}
    for number, (name, defines) in enumerate(variants.items(), 1):
        if name not in problems:
            study.tell(
                "verify" if verify else "guard", f"{name or 'the candidate as it is'} ({number} of {len(variants)})"
            )
            trial = quiet.trial(flags(defines), _CASES)
            if problem := trial.ready(verify=verify):
                problems[name] = problem.removeprefix("The candidate is at fault: ")
            else:
                trials[name] = trial
    return trials, problems


def _race(study: Study, trials: Mapping[str, Trial], present: str, watch: DeviceWatch) -> tuple[Race, dict[str, float]]:
    """Time all on one placement where they are many, then the fastest and the present values on fresh ones.

    Returns:
        The last race, and the times of those that were left out of it.
    """
    starters = {name: trial.start_worker for name, trial in trials.items()}
    if len(starters) <= FINALISTS + 1:
        return run_race(study, starters, watch, PLACEMENTS), {}
    others = [name for name in starters if name != present]
    ratios: dict[str, float] = {}
    failed: dict[str, str] = {}
    for start in range(0, len(others), _BESIDE - 1):
        beside = [*others[start : start + _BESIDE - 1], *([present] if present in starters else [])]
        heat = run_race(study, _only(starters, beside), watch, 1)
        failed.update(heat.failed)
        if heat.disturbed:
            return Race(failed=failed, disturbed=heat.disturbed), {}
        pace = heat.us(present) or 1.0
        ratios.update({name: us / pace for name in beside if (us := heat.us(name)) is not None})
    fastest = sorted((name for name in ratios if name != present), key=ratios.__getitem__)[:FINALISTS]
    final = run_race(study, _only(starters, [*fastest, present]), watch, PLACEMENTS)
    final.failed.update(failed)
    pace = final.us(present) or 1.0
    return final, {name: ratio * pace for name, ratio in ratios.items()}


def _only(starters: Starters, names: Sequence[str]) -> dict[str, Callable[[], Any]]:
    return {name: starters[name] for name in names if name in starters}


def _us(race: Race, screened: Mapping[str, float], name: str) -> float | None:
    return race.us(name) or screened.get(name)


def _reason(problems: Mapping[str, str], race: Race, screened: Mapping[str, float], name: str) -> str:
    if name in problems:
        return problems[name][:_LONGEST_REASON]
    if race.us(name) is None and name in screened:
        return "timed once only: not among the fastest"
    return "" if race.us(name) is not None else "not timed"


def _concluded(variants: Sequence[Variant], race: Race) -> SweepReport:
    """Order the variants, compare each with the best on the placements they share, and say what that means."""
    timed = [variant for variant in variants if variant.name in race.samples]
    once = [variant for variant in variants if variant.us is not None and variant not in timed]
    untimed = [variant for variant in variants if variant.us is None]
    if race.disturbed or not timed:
        why = f"The times were disturbed: {race.disturbed}. Sweep again." if race.disturbed else _none_left(untimed)
        return SweepReport((*timed, *once, *untimed), why, race.disturbed)
    timed.sort(key=lambda variant: variant.us or 0.0)
    best = timed[0]
    compared = [_compared(variant, best, race) for variant in timed]
    once.sort(key=lambda variant: variant.us or 0.0)
    return SweepReport((*compared, *once, *untimed), _conclusion(compared))


def _compared(variant: Variant, best: Variant, race: Race) -> Variant:
    ours, theirs = race.samples[best.name], race.samples[variant.name]
    gain = None if variant is best else speedup(ours, theirs)
    return Variant(variant.defines, variant.present, variant.us, gain, variant.problem)


def _conclusion(timed: Sequence[Variant]) -> str:
    best = timed[0]
    said = [f"Best: {best.name}{' (as the source has it)' if best.present else ''}, {best.us:.1f} us."]
    present = next((variant for variant in timed if variant.present), None)
    if present is not None and present is not best:
        said.append(f"Against the present values {difference(present.best_gain)}.")
    following = next((variant for variant in timed[1:] if not variant.present), None)
    if following is not None:
        said.append(f"Against the next, {following.name}, {difference(following.best_gain)}.")
    return " ".join(said)


def difference(gain: Speedup | None) -> str:
    """Say how much faster something is, and whether that is more than two placements may differ by."""
    if gain is None:
        return "it was not compared"
    said = f"{gain.ratio:.3f} times as fast ({gain.low:.3f} to {gain.high:.3f})"
    return f"{said}: a real difference" if gain.low > 1 else f"{said}: no real difference"


def _none_left(untimed: Sequence[Variant]) -> str:
    first = untimed[0].problem if untimed else "nothing ran"
    return f"No variant could be timed. The first: {first}"


def _build_problem(built: Built) -> str:
    first = next(iter(built.report.diagnostics), None)
    return f"does not build: {first.file}:{first.line}: {first.message}" if first else "does not build"

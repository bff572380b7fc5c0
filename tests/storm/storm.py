"""A storm: right candidates among faulty ones, while somebody kills and stops the judge's processes."""

from __future__ import annotations

import os
import random
import re
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest import mock

from sandbox.errors import EnvironmentFault, WarpsmithError
from sandbox.isolation import Isolation, best_isolation
from sandbox.judge import Judge
from sandbox.judge_limits import GIBIBYTE, JudgeLimits, TierLimits
from sandbox.timing.patience import VARIABLE as PATIENCE
from sandbox.verdict import GuardReport, Verdict
from tests.scale_task import reference, write_candidate, write_task
from tests.storm.disturbance import SIGNALS, TARGETS, Disturbance, Hand, draw
from tests.storm.faults import Made, faults, right

_LIMITS = JudgeLimits(
    bench_seconds=60.0,
    compile_seconds=0.0,
    load_seconds=10.0,
    call_seconds=4.0,
    optional_seconds=600.0,
    memory_bytes=GIBIBYTE // 2,
    processes=64,
    file_bytes=GIBIBYTE,
    quick=TierLimits(cases=2, placements=1, profile_seconds=0.1, pairs=4, least_pairs=3),
)
_ON_GPU = {"memory_bytes": 4 * GIBIBYTE, "processes": 256, "load_seconds": 20.0}
"""A CUDA context alone takes hundreds of megabytes of the host's memory."""
_USUAL_SECONDS = 1.5
_BLAMES_THE_MACHINE = "The environment is at fault"
_ASKED_AGAIN = 3


@dataclass(frozen=True)
class Strike:
    """One verdict of the storm: a candidate, and what is done to the judge meanwhile."""

    made: Made
    disturbance: Disturbance | None = None


@dataclass
class Outcome:
    """What came of a strike.

    Attributes:
        reward, reason: Of the last verdict.
        seconds: Of all that was asked.
        asked_again: How often there was none, and why, which has to be somebody's doing from outside.
        sent: Who was sent the signal, if anybody was.
        wrong: What is not as it has to be; empty if all is.
    """

    strike: Strike
    reward: float | None = None
    reason: str = ""
    seconds: float = 0.0
    asked_again: list[str] = field(default_factory=list)
    sent: str = ""
    wrong: str = ""


def plan(device: str, verdicts: int, seed: int) -> list[Strike]:
    """Return so many strikes: half of them right candidates, every fault about as often as any other, in random order.

    A third meets a disturbance from outside, right candidates more often than others. The same seed plans the same.
    """
    chance = random.Random(seed)
    kinds = faults(device)
    turns = [chance.sample(kinds, len(kinds)) for _ in range(verdicts // len(kinds) + 1)]
    wrong = [made for turn in turns for made in turn][: verdicts - verdicts // 2]
    every = [Disturbance(target, number, chance.random()) for target in TARGETS for number in SIGNALS]
    chance.shuffle(every)
    strikes = [Strike(made, draw(chance) if chance.random() < 0.15 else None) for made in wrong]
    for number in range(verdicts - len(wrong)):
        met = every[number // 2] if number % 2 and number // 2 < len(every) else None
        later = draw(chance) if number // 2 >= len(every) and chance.random() < 0.5 else None
        strikes.append(Strike(right(device), met or later))
    chance.shuffle(strikes)
    return strikes


class Storm:
    """Runs strikes through one judge.

    Args:
        folder: For the task, the candidates, and what the judge keeps.
        device: ``cpu`` or ``cuda:N``.
        seed: Chooses among the processes that a disturbance may hit.
        mark: What a candidate's files are named.
        isolation: What candidates are built and run in; the best there is without one.
    """

    def __init__(self, folder: Path, device: str, seed: int, mark: str, isolation: Isolation | None = None) -> None:
        self._folder = folder
        self._suffix = ".cpp" if device == "cpu" else ".cu"
        self._chance = random.Random(seed)
        self._mark = mark
        spec = write_task(folder, reference() if device == "cpu" else reference(512, 4096), device=device)
        self._judge = Judge(
            spec,
            isolation=isolation or best_isolation(),
            cache=folder / "cache",
            scratch=folder / "scratch",
            limits=_LIMITS if device == "cpu" else replace(_LIMITS, **_ON_GPU),
        )

    def run(self, strikes: Sequence[Strike], over: threading.Event) -> Iterator[Outcome]:
        """Yield what came of each strike, until all are done or it is over; the verdict under way is given up then."""
        unguarded = mock.patch("sandbox.trial.check_source", return_value=GuardReport(ok=True))
        # A busy machine disturbs the times; here it is enough that a verdict says so.
        once = mock.patch.dict(os.environ, {PATIENCE: "0"})
        with self._judge, unguarded, once:
            for number, strike in enumerate(strikes):
                outcome = self._one(strike, number, over)
                if over.is_set():
                    return
                yield outcome

    def _one(self, strike: Strike, number: int, over: threading.Event) -> Outcome:
        """Ask for a verdict, and again where the judge says that the machine was at fault."""
        outcome = Outcome(strike)
        met = strike.disturbance
        anew = met is not None and met.target == "compiler"  # there is one only for what was not compiled before
        source = f"{strike.made.source}\n// {number if anew else ''}\n"
        python = strike.made.python.replace("STORM", self._mark)
        workspace = write_candidate(self._folder / f"candidate-{number}", source, python, self._suffix)
        started = time.monotonic()
        hand = Hand(met, _USUAL_SECONDS, self._chance) if met else None
        try:
            while self._blames_the_machine(self._asked(workspace, outcome, over), outcome) and not over.is_set():
                if hand is not None:
                    hand.rest()
        finally:
            if hand is not None:
                hand.rest()
                outcome.sent = hand.sent
        outcome.seconds = time.monotonic() - started
        outcome.wrong = outcome.wrong or _wrong(outcome)
        return outcome

    def _asked(self, workspace: Path, outcome: Outcome, over: threading.Event) -> Verdict | None:
        try:
            return self._judge.check(workspace, cancel=over)
        except EnvironmentFault as fault:
            outcome.reward, outcome.reason = None, f"{_BLAMES_THE_MACHINE}: {fault}"
            return None
        except WarpsmithError as fault:
            outcome.reward, outcome.reason, outcome.wrong = None, str(fault), "the judge blames itself"
            return None

    def _blames_the_machine(self, verdict: Verdict | None, outcome: Outcome) -> bool:
        """Take a verdict in, and tell whether it has to be asked for again."""
        if verdict is not None:
            outcome.reward, outcome.reason = verdict.reward, verdict.reason
            if verdict.reward is not None or _only_disturbed(verdict):
                return False
        outcome.asked_again.append(outcome.reason)
        return len(outcome.asked_again) <= _ASKED_AGAIN


def _only_disturbed(verdict: Verdict) -> bool:
    """Tell whether a candidate was found right, and its times alone are not to be trusted."""
    return verdict.correct and verdict.profile is not None and bool(verdict.profile.disturbed)


def _wrong(outcome: Outcome) -> str:
    """Return what is not as it has to be: a right candidate's verdict, a fault's reason, or a judge that blames nobody."""
    made, reason = outcome.strike.made, outcome.reason
    if outcome.asked_again and not outcome.sent:
        return "it was asked again, and nobody had done anything to the judge"
    if not all(_BLAMES_THE_MACHINE in why for why in outcome.asked_again):
        return "there was no verdict, and the machine is not blamed"
    if made.right:
        busy = outcome.reward is None and len(outcome.asked_again) <= _ASKED_AGAIN and _BLAMES_THE_MACHINE in reason
        return "" if busy or (outcome.reward or 0) >= 1 else "a right candidate without its right verdict"
    if outcome.reward != -1:
        return "a faulty candidate that was not rejected"
    return "" if any(re.search(words, reason) for words in made.words) else "a reason that does not say what happened"


def signal_of(outcome: Outcome) -> str:
    """Return what was done from outside, and whether it met anybody."""
    met = outcome.strike.disturbance
    if met is None:
        return ""
    return met.name + ("" if outcome.sent else " (too late)")

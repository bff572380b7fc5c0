"""Preference pairs in TRL's form: one prompt, two ways on from it, and what makes one of them better.

``{"prompt": [...], "chosen": [...], "rejected": [...], "tools": [...], "evidence": {...}}``. A pair needs two sessions
(agents side by side, a branch that was resumed, the same task again) that were asked with the same bytes up to an answer
in which they differ. The prompt is that request; either side goes on from it to the answer that led to the attempt it is
compared by, and no further, so nothing of what was found out afterwards is in the pair.

- ``accepted``: the developer took one side's attempt and refused the other's.
- ``faster``: both are correct and were measured at the same tier, on the same device, for the same task, and their
  intervals do not overlap.

Within one conversation there are no pairs: the later attempt was written knowing how the earlier one fared.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from agent.exports.evidence import decided, measured
from agent.exports.plain import plain
from agent.exports.trajectory import Message, Note, Trajectory, Turn, answered
from agent.state import Judged
from sandbox.verdict import Verdict

_SAME_PLACE = ("device", "sm", "driver", "torch", "cuda", "threads", "cpu")
"""What of two verdicts' environments must agree for their times to be compared."""


@dataclass(frozen=True)
class _Side:
    """One of two sessions, from the answer in which they differ on."""

    trajectory: Trajectory
    start: int

    @property
    def turn(self) -> Turn:
        return self.trajectory.turns[self.start]

    def attempts(self) -> Iterator[tuple[int, Judged]]:
        """Yield the index of the answer each attempt came of, and the attempt."""
        for index, turn in enumerate(self.trajectory.turns[self.start :], self.start):
            for attempt in turn.attempts:
                yield index, Judged.of(attempt)

    def until(self, end: int) -> list[Message] | None:
        """Return the messages from here to the answer ``end``; null where they are not one conversation."""
        turns = self.trajectory.turns[self.start : end + 1]
        if not all(later.goes_on_from(before) for before, later in itertools.pairwise(turns)):
            return None
        return plain(turns[-1].conversation[len(self.turn.messages) :])


@dataclass(frozen=True)
class _Preferred:
    """Which of two sides is better, by which attempts (with the answers they came of), and why."""

    kind: str
    better: _Side
    chosen: tuple[int, Judged]
    worse: _Side
    rejected: tuple[int, Judged]


def rows(trajectories: Iterable[Trajectory], note: Note) -> Iterator[dict[str, Any]]:
    """Yield the pairs; ``note`` is told what could have been one and is not, and why."""
    openings: dict[str, list[Trajectory]] = defaultdict(list)
    for trajectory in answered(trajectories, note):
        openings[trajectory.turns[0].prompt_sha256].append(trajectory)
        _note_within(trajectory, note)
    for alike in openings.values():
        if len(alike) == 1:
            note("A session shares its opening with no other one that is exported.")
        for one, other in itertools.combinations(alike, 2):
            yield from _between(one, other, note)


def _note_within(trajectory: Trajectory, note: Note) -> None:
    numbers = [judged.attempt for judged in trajectory.state.judged]
    decisions = [decided(trajectory.state, number) for number in numbers]
    if {"accepted", "rejected"} <= set(decisions):
        note(
            "Attempts that one session had accepted and rejected are no pair: the later was written knowing the earlier."
        )
    for _ in range(decisions.count("mixed")):
        note("An attempt was accepted in part, or taken back, so it is neither accepted nor rejected.")


def _between(one: Trajectory, other: Trajectory, note: Note) -> Iterator[dict[str, Any]]:
    parted = _parting(one, other, note)
    if parted is None:
        return
    for preferred in (_by_decision(*parted, note), _by_time(*parted, note)):
        if preferred is not None:
            chosen = preferred.better.until(preferred.chosen[0])
            rejected = preferred.worse.until(preferred.rejected[0])
            if chosen is None or rejected is None:
                note("A side was compacted before its attempt, so that it is not one conversation.")
            else:
                yield _row(preferred, chosen, rejected)


def _parting(one: Trajectory, other: Trajectory, note: Note) -> tuple[_Side, _Side] | None:
    """Return where two sessions part: the first answer in which they differ, if all before it is the same."""
    for index, (a, b) in enumerate(zip(one.turns, other.turns, strict=False)):
        if a.prompt_sha256 != b.prompt_sha256:
            note("After the same answers two sessions were told different things.")
            return None
        if _words(a.event.message) != _words(b.event.message):
            return _Side(one, index), _Side(other, index)
    note("Two sessions do not differ in any answer.")
    return None


def _by_decision(one: _Side, other: _Side, note: Note) -> _Preferred | None:
    found = []
    for side in (one, other):
        said = ((at, decided(side.trajectory.state, at[1].attempt)) for at in side.attempts())
        found.append({decision: at for at, decision in said if decision in ("accepted", "rejected")})
    for (better, yes), (worse, no) in itertools.permutations(zip((one, other), found, strict=True)):
        if "accepted" in yes and "rejected" in no:
            return _Preferred("accepted", better, yes["accepted"], worse, no["rejected"])
    if any(found):
        note("The developer's decisions in two sessions do not set an accepted attempt against a rejected one.")
    return None


def _by_time(one: _Side, other: _Side, note: Note) -> _Preferred | None:
    why = "Of two sessions that part, not both have a correct attempt that was timed at the same tier."
    for tier in ("full", "quick"):
        first, second = _timed(one, tier), _timed(other, tier)
        if first is None or second is None:
            continue
        if why := _incomparable(first[1].verdict, second[1].verdict):
            continue
        swapped = _interval(first[1].verdict)[0] < _interval(second[1].verdict)[0]
        sides = (other, second, one, first) if swapped else (one, first, other, second)
        if decided(sides[0].trajectory.state, sides[1][1].attempt) == "rejected":
            why = "The faster of two attempts is one that the developer refused."
            continue
        return _Preferred("faster", *sides)
    note(why)
    return None


def _timed(side: _Side, tier: str) -> tuple[int, Judged] | None:
    """Return the first attempt that says how fast it is: correct, not disturbed, measured against eager."""
    for index, judged in side.attempts():
        profile = judged.verdict.profile
        trusted = judged.verdict.correct and profile is not None and not profile.disturbed
        if judged.verdict.tier == tier and trusted and profile is not None and "eager" in profile.speedup:
            return index, judged
    return None


def _incomparable(one: Verdict, other: Verdict) -> str:
    """Return why nobody can say which of two timed attempts is faster, or nothing."""
    by = [verdict.profile.judged_by if verdict.profile else "" for verdict in (one, other)]
    if (one.task, by[0]) != (other.task, by[1]):
        return "Two sessions that part were judged on different terms."
    if any(one.environment.get(key) != other.environment.get(key) for key in _SAME_PLACE):
        return "Two sessions that part were measured in different places."
    (low, high), (other_low, other_high) = _interval(one), _interval(other)
    return "The intervals of two attempts overlap." if low <= other_high and other_low <= high else ""


def _interval(verdict: Verdict) -> tuple[float, float]:
    gain = verdict.profile.speedup["eager"] if verdict.profile else None
    return (gain.low, gain.high) if gain else (0.0, 0.0)


def _words(message: Message) -> Message:
    """Return what an answer says, without ids and seals, which differ where nothing else does."""
    (said,) = plain([message])
    return {**said, "tool_calls": [call["function"] for call in said.get("tool_calls", ())]}


def _row(preferred: _Preferred, chosen: list[Message], rejected: list[Message]) -> dict[str, Any]:
    sides = {"chosen": (preferred.better, preferred.chosen), "rejected": (preferred.worse, preferred.rejected)}
    return {
        "prompt": plain(preferred.better.turn.messages),
        "chosen": chosen,
        "rejected": rejected,
        "tools": preferred.better.turn.tools,
        "evidence": {
            "kind": preferred.kind,
            **{name: _told(side, index, judged) for name, (side, (index, judged)) in sides.items()},
        },
    }


def _told(side: _Side, index: int, judged: Judged) -> dict[str, Any]:
    state = side.trajectory.state
    reasons = [reason for reason in state.rejected(judged.attempt).values() if reason]
    return {
        "session": side.trajectory.session.id,
        "turn": side.trajectory.turns[index].event.turn,
        "answers": index - side.start + 1,
        **measured(judged),
        "decision": decided(state, judged.attempt),
        "said": "; ".join(reasons),
    }

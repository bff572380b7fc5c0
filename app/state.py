"""The session as the screen knows it: what ``app.fold`` has folded its events into, and what can be asked of it.

Nothing here draws. :meth:`SessionState.take_changes` says which parts moved since the last call, so that a screen
redraws only those.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Flag, auto
from typing import Any

from agent.events import PermissionAsked, RunEnded
from agent.ranking import best_of
from app.blocks import Block, Call, Step
from sandbox.task import TaskSpec
from sandbox.verdict import Verdict


class Part(Flag):
    """Parts of the state that can change independently."""

    NONE = 0
    TASK = auto()
    STREAM = auto()
    LIVE = auto()
    ATTEMPTS = auto()
    DECISIONS = auto()
    STATUS = auto()
    PROBLEM = auto()
    QUESTION = auto()


@dataclass(frozen=True)
class Judged:
    """One attempt: its files (paths to blob hashes), its verdict, and when it was measured (Unix time)."""

    number: int
    files: dict[str, str]
    verdict: Verdict
    time: float

    @property
    def timed(self) -> bool:
        """Whether there are times at all: a disturbed profile has none."""
        return self.verdict.profile is not None and self.verdict.profile.device_us > 0

    def speedup(self, baseline: str = "eager") -> float | None:
        """How much faster than a baseline it was measured to be, or None."""
        profile = self.verdict.profile
        measured = profile.speedup.get(baseline) if profile is not None else None
        return None if measured is None else measured.ratio


@dataclass(frozen=True)
class Decision:
    """What the developer decided about one hunk."""

    accepted: bool
    reason: str = ""


@dataclass
class Landing:
    """An attempt written into the developer's tree. ``outcome`` lists what the undo did to each file, once undone."""

    number: int
    attempt: int
    files: list[dict[str, Any]]
    partial: bool
    time: float
    commit: str = ""
    outcome: list[dict[str, str]] | None = None
    undone: float = 0.0


@dataclass(frozen=True)
class Problem:
    """What the developer has to know before anything else: what, where, next step."""

    what: str
    where: str = ""
    next_step: str = ""


@dataclass(frozen=True)
class Changes:
    """What moved since the last look: parts, and the indices of stream blocks that are new or changed."""

    parts: Part
    blocks: frozenset[int]


@dataclass
class SessionState:
    """Everything the screen shows of a session.

    Attributes:
        files: Workspace paths to blob hashes at the start of the session.
        running: Whether the loop runs; ``cut_off`` tells that it ended without saying so (a crash).
        ready: Whether the engine takes commands; ``lost`` tells that it ended by itself.
        turn: Model answers in this run so far; ``turn_limit`` is the run's budget.
        step: What the judge does right now, or None.
        ahead: What it does, or came to, while the model thinks, without having been asked; or None.
        asked: The question about a call that is open, or None.
        mode: The permission mode.
        blocks: The stream as stored; ``live`` are the blocks of the answer that is being streamed.
        decisions: By attempt, file and hunk id.
        last_n: Number of the last event folded in.
        calls: Tool calls by id: their indices in ``blocks``.
    """

    task: TaskSpec | None = None
    model: str = ""
    device: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    running: bool = False
    cut_off: bool = False
    ready: bool = False
    lost: bool = False
    turn: int = 0
    turn_limit: int = 0
    run_started: float = 0.0
    end: RunEnded | None = None
    step: Step | None = None
    ahead: Step | None = None
    asked: PermissionAsked | None = None
    mode: str = ""
    todo: list[dict[str, str]] = field(default_factory=list)
    profile: dict[str, Any] | None = None
    attempts: list[Judged] = field(default_factory=list)
    decisions: dict[tuple[int, str, str], Decision] = field(default_factory=dict)
    landings: list[Landing] = field(default_factory=list)
    problem: Problem | None = None
    blocks: list[Block] = field(default_factory=list)
    live: list[Block] = field(default_factory=list)
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float | None = None
    last_n: int = 0
    calls: dict[str, int] = field(default_factory=dict, repr=False)
    _parts: Part = field(default=Part.NONE, repr=False)
    _changed: set[int] = field(default_factory=set, repr=False)

    # --- asking ---------------------------------------------------------------------------------------------------

    def attempt(self, number: int | None) -> Judged | None:
        """Return an attempt by its number, or None."""
        return next((judged for judged in reversed(self.attempts) if judged.number == number), None)

    def before(self, number: int) -> dict[str, str]:
        """Return the files of the attempt before this one; those at the start for the first."""
        earlier = [judged for judged in self.attempts if judged.number < number]
        return earlier[-1].files if earlier else self.files

    def best(self) -> Judged | None:
        """Return the best attempt so far; what is judged after a run's end, for a landing, counts as well."""
        return best_of(self.attempts)

    def running_call(self) -> str:
        """Return the name of the tool that is waited for, or an empty text: results of calls that run at once come in order."""
        recent = self.blocks[-10:]
        return next((block.name for block in recent if isinstance(block, Call) and block.status == "running"), "")

    def environment(self) -> dict[str, Any]:
        """Return what the judge last said about the machine: device, isolation and versions."""
        if self.attempts:
            return self.attempts[-1].verdict.environment
        return self.profile.get("environment", {}) if self.profile else {}

    @property
    def busy_since(self) -> float:
        """When what is going on now began (Unix time): the last thing in the stream."""
        last = self.live[0] if self.live else self.blocks[-1] if self.blocks else None
        return max(self.run_started, last.time if last else 0.0)

    def landing_to_undo(self) -> Landing | None:
        """Return the last landing that has not been undone."""
        return next((landing for landing in reversed(self.landings) if landing.outcome is None), None)

    def landing_to_redo(self) -> Landing | None:
        """Return the landing that was undone last, unless something has landed since."""
        undone = [landing for landing in self.landings if landing.outcome is not None]
        last = max(undone, key=lambda landing: landing.undone, default=None)
        return last if last is not None and all(each.time <= last.undone for each in self.landings) else None

    def stands_whole(self, attempt: int) -> bool:
        """Whether all of an attempt is what landed last and was not undone."""
        last = self.landing_to_undo()
        return last is not None and last.attempt == attempt and not last.partial

    def take_changes(self) -> Changes:
        """Return what moved since the last call."""
        changes = Changes(self._parts, frozenset(self._changed))
        self._parts, self._changed = Part.NONE, set()
        return changes

    # --- changing -------------------------------------------------------------------------------------------------

    def moved(self, parts: Part) -> None:
        """Note that parts changed."""
        self._parts |= parts

    def all_moved(self) -> None:
        """Note that everything is to be drawn, by a screen that shows the state for the first time."""
        self._parts, self._changed = ~Part.NONE, set(range(len(self.blocks)))

    def add(self, block: Block) -> int:
        """Append a block to the stream and return its index."""
        self._changed.add(len(self.blocks))
        self.blocks.append(block)
        self._parts |= Part.STREAM
        return len(self.blocks) - 1

    def touch(self, index: int) -> None:
        """Note that a block of the stream changed."""
        self.blocks[index].version += 1
        self._changed.add(index)
        self._parts |= Part.STREAM

    def report(self, problem: Problem) -> None:
        """Show a problem that no event tells of, such as the death of the engine."""
        self.problem = problem
        self._parts |= Part.PROBLEM

    def dismiss(self) -> None:
        """Take the problem off the screen; it stays in the stream."""
        self.problem = None
        self._parts |= Part.PROBLEM

    def engine_lost(self) -> None:
        """Note that the engine is gone: nothing runs any more."""
        self.ready, self.lost = False, True
        self.settle()

    def settle(self) -> None:
        """Settle a run that ended without a word: its open calls are cut, and the loop rests."""
        self.cut_off = self.cut_off or self.running
        self.running, self.step, self.ahead = False, None, None
        self.ask(None)
        for index, block in enumerate(self.blocks):
            if isinstance(block, Call) and block.status in ("waiting", "running"):
                block.status = "cut"
                self.touch(index)
        self.drop_live()
        self._parts |= Part.STATUS

    def rest(self) -> None:
        """Note that no engine is there: what runs, by what is stored, was cut off."""
        self.ready, self.step = False, None
        if self.running:
            self.settle()
        self.moved(Part.STATUS)

    def ask(self, question: PermissionAsked | None) -> None:
        """Open a question, or close the one that is open."""
        self.asked = question
        self._parts |= Part.QUESTION | Part.STATUS

    def drop_live(self) -> None:
        """Forget the answer that was being streamed: it is finished, or will never be."""
        self.live = []
        self._parts |= Part.LIVE

"""What a session's events amount to: the conversation, the attempts, the developer's decisions, the landings.

The engine applies every event it stores, so a resumed session has exactly the state the old engine had.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent import events as ev
from agent.budget import Limits, Spent
from agent.context.counting import estimate
from agent.framing import DEVELOPER
from agent.ranking import best_of
from sandbox.reward import undecided
from sandbox.verdict import Tier, Verdict

CUT_OFF = "Interrupted"
"""How the result of a call begins that was cut off before it was done."""


@dataclass(frozen=True)
class Judged:
    """An attempt: its number, the hashes of its files, its verdict, and whose that is where it was not measured here."""

    attempt: int
    files: Mapping[str, str]
    verdict: Verdict
    taken_from: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, event: ev.Attempt) -> Judged:
        """Return what an event tells, with its verdict read."""
        return cls(event.attempt, event.files, Verdict.from_json(event.verdict), event.taken_from)


@dataclass
class SessionState:
    """The fold over a session's events, in order.

    Attributes:
        messages: The conversation as it is sent, without the tools.
        tools: The schemas sent with it.
        turns: Answers of the model so far.
        open_calls: Tool calls of the last answer that have no result yet, by id in order.
        running_call: The one that began last.
        steering: Texts the agent has yet to be told, oldest first.
        original_files: Workspace files at the start, as blob hashes.
        judged: Attempts in order.
        decisions: The last decision on each hunk: ``(attempt, file, hunk)`` to its reason when rejected, null when accepted.
        landings: By number; ``undone`` those taken back, with how.
        running: Whether a run began that has not ended.
        end_reason: Why the last run that ended did; empty where none has.
        original: ``OriginalProfile.to_json()`` once it was measured.
        mode: The permission mode chosen last, empty before the first choice.
        allowed: Rules for calls that the developer allowed in this session.
        words: All the developer said, as the model was told it, in order.
        todo: The agent's plan.
        notes: What the agent noted of an attempt, by its number.
        skills_read: Texts of skills and their files that were read, in order.
        contrasted: Numbers of the attempts that were compared, of each comparison.
        spent: What the model's answers cost.
        limits: Of the run that began last.
        spent_before: What had been spent when it began.
        judged_ahead: The verdicts that were begun before a Check asked for them.
        refused_tokens: How long the shortest request was that the provider called too long; null where none was.
    """

    messages: list[dict[str, Any]] = field(default_factory=list)
    tools: list[dict[str, Any]] = field(default_factory=list)
    turns: int = 0
    open_calls: dict[str, str] = field(default_factory=dict)
    running_call: str | None = None
    steering: list[tuple[str, str]] = field(default_factory=list)
    started: bool = False
    original_files: Mapping[str, str] = field(default_factory=dict)
    judged: list[Judged] = field(default_factory=list)
    decisions: dict[tuple[int, str, str], str | None] = field(default_factory=dict)
    landings: dict[int, ev.Landed] = field(default_factory=dict)
    undone: dict[int, ev.Undone] = field(default_factory=dict)
    running: bool = False
    end_reason: str = ""
    original: dict[str, Any] | None = None
    mode: str = ""
    allowed: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    todo: list[dict[str, str]] = field(default_factory=list)
    notes: dict[int, str] = field(default_factory=dict)
    skills_read: list[str] = field(default_factory=list)
    refused_tokens: int | None = None
    contrasted: list[tuple[int, ...]] = field(default_factory=list)
    spent: Spent = field(default_factory=Spent)
    judged_ahead: list[ev.JudgedAhead] = field(default_factory=list)
    limits: Limits | None = None
    spent_before: Spent = field(default_factory=Spent)
    _arguments: dict[str, dict[str, Any]] = field(default_factory=dict)
    _counted_tokens: int = 0
    _counted_messages: int = 0

    def apply(self, event: ev.Event) -> None:
        """Take one stored event into account."""
        match event:
            case ev.SessionStarted():
                self.started, self.original_files = True, event.files
            case ev.RunStarted():
                self.running, self.limits, self.spent_before = True, Limits.stored(event), self.spent
            case ev.RunEnded():
                self.running, self.end_reason = False, event.reason
            case ev.ConversationStarted():
                self.messages, self.tools = [event.message], event.tools
            case ev.UserMessage():
                self._told(event)
            case ev.ModelTurn():
                self._answered(event)
            case ev.ToolStarted():
                self.running_call = event.call_id
                self._arguments[event.call_id] = event.arguments
            case ev.ToolFinished():
                self._finished(event)
            case ev.Compacted():
                self._compacted(event)
            case ev.Todo():
                self.todo = event.items
            case ev.OriginalProfiled():
                self.original = event.profile
            case ev.Attempt():
                self.judged.append(Judged.of(event))
                self.notes[event.attempt] = str(self._arguments.get(event.call_id or "", {}).get("note", ""))
            case ev.JudgedAhead():
                self.judged_ahead.append(event)
            case _:
                self._decided(event)

    def _answered(self, event: ev.ModelTurn) -> None:
        self.turns += 1
        self.spent = self.spent.after(event, lambda: estimate([*self.messages, *self.tools, event.message]))
        self.messages.append(event.message)
        self.open_calls = {call["id"]: call["function"]["name"] for call in event.message.get("tool_calls") or ()}
        self._arguments = {}
        self._counted_tokens = event.usage.get("total_tokens", 0)
        self._counted_messages = len(self.messages) if self._counted_tokens else 0

    def _told(self, event: ev.UserMessage) -> None:
        self.messages.append(event.message)
        if event.attempts:
            self.contrasted.append(tuple(event.attempts))
        if event.origin in ("steer", "decision"):
            self.words.append(event.message["content"])
            if self.steering:
                self.steering.pop(0)

    def _finished(self, event: ev.ToolFinished) -> None:
        self.messages.append(event.message)
        self.open_calls.pop(event.call_id, None)
        text = event.message["content"]
        if text.startswith(DEVELOPER):
            self.words.append(text)
        if event.name == "Skill" and event.ok and text not in self.skills_read:
            self.skills_read.append(text)

    def _compacted(self, event: ev.Compacted) -> None:
        self.messages = list(event.messages)
        self._counted_tokens = self._counted_messages = 0
        if event.refused:
            self.refused_tokens = min(event.tokens_before, self.refused_tokens or event.tokens_before)

    def _decided(self, event: ev.Event) -> None:
        match event:
            case ev.HunkAccepted():
                self.decisions[event.attempt, event.file, event.hunk] = None
            case ev.HunkRejected():
                self.decisions[event.attempt, event.file, event.hunk] = event.reason
                self.steering.append(("decision", _rejection(event)))
            case ev.Steered():
                self.steering.append(("steer", "\n\n".join(filter(None, (event.text, event.skill)))))
            case ev.ModeChanged():
                self.mode = event.mode
            case ev.PermissionAnswered():
                if event.decision == "allow" and event.pattern:
                    self.allowed.append(event.pattern)
            case ev.Landed():
                self.landings[event.landing] = event
                self.steering.append(("decision", _landing(event, self.rejected(event.attempt))))
            case ev.Undone():
                self.undone[event.landing] = event
                self.steering.append(("decision", f"The developer took landing {event.landing} back."))

    def rejected(self, attempt: int) -> dict[tuple[str, str], str]:
        """Return the rejected hunks of an attempt, ``(file, hunk)`` to the reason."""
        return {(f, h): reason for (n, f, h), reason in self.decisions.items() if n == attempt and reason is not None}

    def attempt(self, number: int) -> Judged | None:
        """Return an attempt by its number."""
        return next((judged for judged in self.judged if judged.attempt == number), None)

    def judgement(self, files: Mapping[str, str], tier: Tier) -> Judged | None:
        """Return the last verdict of exactly these files at this tier that another measurement would not change."""
        fits = (j for j in reversed(self.judged) if j.files == files and j.verdict.tier == tier)
        return next((judged for judged in fits if settled(judged.verdict)), None)

    def disturbed(self, files: Mapping[str, str]) -> bool:
        """Whether a measurement of exactly these files was disturbed."""
        profiles = (judged.verdict.profile for judged in self.judged if judged.files == files)
        return any(profile is not None and profile.disturbed != "" for profile in profiles)

    @property
    def best(self) -> Judged | None:
        """The best correct attempt; see ``best_of``."""
        return best_of(self.judged)

    @property
    def landings_standing(self) -> list[int]:
        """Landings that were not taken back, oldest first."""
        return [number for number in self.landings if number not in self.undone]

    @property
    def tokens(self) -> int:
        """How long the next request is: as the provider counted the last one with its answer, and an estimate of what is new."""
        tools = 0 if self._counted_messages else estimate(self.tools)
        return self._counted_tokens + estimate(self.messages[self._counted_messages :]) + tools

    @property
    def prompt_sha256(self) -> str:
        """Hash of the request as it would be sent now."""
        request = json.dumps({"messages": self.messages, "tools": self.tools}, sort_keys=True)
        return hashlib.sha256(request.encode()).hexdigest()


def settled(verdict: Verdict) -> bool:
    """Whether a verdict rests on the candidate and not on how this measurement went."""
    findings = verdict.guard.findings if verdict.guard else ()
    clocked = any(finding.rule == "clock" and finding.severity == "reject" for finding in findings)
    too_wide = verdict.profile is not None and undecided(verdict.profile) != ""
    return verdict.reward is not None and not clocked and not too_wide


def _rejection(event: ev.HunkRejected) -> str:
    what = event.file if event.hunk == "file" else f"hunk {event.hunk} of {event.file}"
    because = f": {event.reason}" if event.reason else ", without giving a reason."
    return f"The developer rejected {what} in attempt {event.attempt}{because}"


def _landing(event: ev.Landed, rejected: Mapping[tuple[str, str], str]) -> str:
    landed = ", ".join(str(entry["path"]) for entry in event.files)
    without = f", without {', '.join(f'{f} ({h})' for f, h in rejected)}" if rejected else ""
    return f"The developer accepted attempt {event.attempt}{without}; it is in their project now ({landed})."

"""The coordinator: rounds of agents side by side, each from the best so far, until the rounds are over."""

from __future__ import annotations

import asyncio
import json as json_module
import signal
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from agent import commands as cmd
from agent import events as ev
from agent.budget import OVER
from agent.events import EndReason
from agent.headless import FAULTS, LandPolicy, narration
from agent.outcome import unproven
from agent.ranking import best_owned
from agent.search.driving import LOST, drive
from agent.search.ideas import idea_for
from agent.search.record import Member, Record
from agent.search.sharing import share
from agent.search.telling import first_words, outcome, summary
from agent.session import change_settings, create_session, is_open, read_state
from agent.settings import LIMITS
from agent.state import Judged
from sandbox.errors import ExitCode

REMEASURED = 3
"""How many attempts are measured anew at the end at most: one that falls back makes another one the best."""
_FAULTY = (*FAULTS, LOST)
"""Ends that are not the agent's own: it takes no part any more, until the search is resumed: what was at fault may be mended."""


def run_search(
    record: Record,
    *,
    json: bool = False,
    land: LandPolicy = "never",
    commit: bool = False,
    limits: Mapping[str, Any] | None = None,
) -> ExitCode:
    """Run a search to its end, or go on with it; see ``agent.headless.run`` for what is returned.

    Args:
        record: The search.
        json: See ``agent.headless.run``, as for the two that follow.
        land: When the best attempt lands.
        commit: Whether that is a commit too.
        limits: Other limits of a search that goes on, by their settings' names, with what it has used counted. Agents of its
            last round that a limit had ended go on too.

    Raises:
        UsageError: A limit cannot be that.
    """
    if limits:
        record.relimit(limits)
    return asyncio.run(_Search(record, json=json, extended=bool(limits)).run(land, commit=commit))


def unfinished(record: Record) -> bool:
    """Tell whether a coordinator that goes on with a search has agents to run: rounds, cut off ones, ones that failed."""
    last = max((member.round for member in record.members), default=0)
    ends = [record.ended.get(str(member.session), LOST) for member in record.members]
    return last < record.rounds or any(end in _FAULTY for end in ends)


class _Search:
    def __init__(self, record: Record, *, json: bool, extended: bool) -> None:
        self._record = record
        self._json = json
        self._extended = extended
        last = max((member.round for member in record.members), default=1)
        limited = {str(member.session) for member in record.members if member.round == last and extended}
        self._earlier = {
            session
            for session, reason in record.ended.items()
            if reason in _FAULTY or (session in limited and reason in OVER)
        }

    async def run(self, land: LandPolicy, *, commit: bool) -> ExitCode:
        task = asyncio.current_task()
        assert task is not None
        for ending in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(ending, task.cancel)
        again = f"search {self._record.id}: go on with it with warpsmith run --resume-search {self._record.id}\n"
        sys.stderr.write(again)
        unlanded: list[str] = []
        interrupted = False
        try:
            for number in range(1, self._record.rounds + 1):
                await self._round(number)
            await self._measure_best()
            if land == "full-pass":
                unlanded = await self._land(commit=commit)
        except asyncio.CancelledError:
            interrupted = True
        best = self._best()
        if self._json:
            sys.stdout.write(json_module.dumps(outcome(self._record, best, unlanded)) + "\n")
        else:
            sys.stdout.write(summary(self._record, best[0] if best else None, unlanded))
        if interrupted:
            sys.stderr.write(again)
            return ExitCode.INTERRUPTED
        return self._code(best is not None and not unlanded)

    async def _round(self, number: int) -> None:
        """Let all agents of a round run to their ends; those that an earlier coordinator began go on."""
        best = self._best()
        begun = {member.agent: member for member in self._record.members if member.round == number}
        for agent in range(1, self._record.agents + 1):
            if agent not in begun and not self._given_up(agent):
                begun[agent] = self._begin(number, agent, best)
        await asyncio.gather(*(self._let_run(member) for member in begun.values() if self._undone(member)))

    def _undone(self, member: Member) -> bool:
        """Whether an agent has yet to come to its end, or came to one that an earlier coordinator saw and that need not stand."""
        session = str(member.session)
        return session not in self._record.ended or session in self._earlier

    def _begin(self, number: int, agent: int, best: tuple[Member, Judged] | None) -> Member:
        record = self._record
        model = record.models[(agent - 1) % len(record.models)] if record.models else record.settings.model
        base = {"session": str(best[0].session), "attempt": best[1].attempt} if best else None
        idea = idea_for(agent, number, record.task.device, record.ideas)
        told = first_words(record, agent, idea, best)
        search: dict[str, Any] = {"folder": str(record.folder), "base": base, "told": told}
        settings = replace(share(record, number), model=model)
        session = create_session(record.task, settings, settings.home, search)
        member = Member(number, agent, session, model, idea, base)
        record.add(member)
        return member

    async def _let_run(self, member: Member) -> None:
        if is_open(member.session):  # by an engine whose coordinator was killed just now, or by the developer
            sys.stderr.write(f"agent {member.agent} | waits until its session {member.session} is closed elsewhere\n")
        if self._extended:
            shared = share(self._record, member.round)
            change_settings(member.session, {name: getattr(shared, name) for name in LIMITS})
        ended = await drive(
            member.session, [cmd.Run(rest=True)], (ev.RunEnded,), lambda e, line: self._tell(member, e, line)
        )
        self._record.end(member, ended.reason if isinstance(ended, ev.RunEnded) else LOST)

    def _tell(self, member: Member, event: ev.Event, line: str) -> None:
        if self._json:
            told = {"agent": member.agent, "round": member.round, "session": str(member.session)}
            sys.stdout.write(json_module.dumps({**json_module.loads(line), **told}) + "\n")
            sys.stdout.flush()
            return
        text = f"ended: {event.reason} {event.detail}".rstrip() if isinstance(event, ev.RunEnded) else narration(event)
        for row in text.splitlines():
            sys.stderr.write(f"agent {member.agent} | {row}\n")

    def _best(self) -> tuple[Member, Judged] | None:
        """Return the best attempt of all sessions, by the rule of one session."""
        members = self._record.members
        return best_owned((member, judged) for member in members for judged in read_state(member.session).judged)

    async def _measure_best(self) -> None:
        """Measure the best attempt in full on fresh samples: the best of many may only have been the luckiest."""
        measured: set[str] = set()
        while (best := self._best()) and best[1].verdict.source_sha256 not in measured and len(measured) < REMEASURED:
            member, judged = best
            measured.add(judged.verdict.source_sha256)
            ends = (ev.Attempt, ev.LandingRefusedEvent)
            measure = cmd.Measure(attempt=judged.attempt)
            await drive(member.session, [measure], ends, partial(self._tell, member))

    def _given_up(self, agent: int) -> bool:
        """Whether an agent's model or engine failed in an earlier round: it takes no part any more."""
        return any(m.agent == agent and self._record.ended.get(str(m.session)) in _FAULTY for m in self._record.members)

    def _code(self, good: bool) -> ExitCode:
        if good:
            return ExitCode.OK
        ends = list(self._record.ended.values())
        faults = [FAULTS.get(EndReason(end), ExitCode.INTERNAL) if end != LOST else ExitCode.INTERNAL for end in ends]
        all_failed = all(end in _FAULTY for end in ends)
        return faults[0] if faults and all_failed else ExitCode.FAILED

    async def _land(self, *, commit: bool) -> list[str]:
        """Land the best attempt from its session, and return what spoke against it."""
        best = self._best()
        if best is None:
            return ["there is no attempt to land"]
        member, judged = best
        if against := unproven(judged):
            return [against]
        land = cmd.Land(attempt=judged.attempt, commit=commit, faster=True)
        ends = (ev.Landed, ev.LandingRefusedEvent)
        ended = await drive(member.session, [land], ends, lambda e, line: self._tell(member, e, line))
        return [] if isinstance(ended, ev.Landed) else [narration(ended) if ended else "the engine was lost"]

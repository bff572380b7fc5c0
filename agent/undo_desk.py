"""Undoing landings on the developer's word, landing again what was undone, and settling what a dead engine left."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from agent import events as ev
from agent.landing import FileChange
from agent.landing.commit import Place, find_place
from agent.landing.deed import Journal, carry_out, conclude, take_away
from agent.landing.index import INDEX, is_index, lines_of, noted, project_root
from agent.landing.kept import name_of
from agent.landing.message import redo_message, undo_message
from agent.landing.taking_back import place_of_undo, take_back
from agent.stream import Stream
from sandbox.errors import EnvironmentFault, LandingRefused
from sandbox.task import TaskSpec


class UndoDesk:
    """Takes landings of a session back, and stores each undo as an event; it needs no judge."""

    def __init__(self, spec: TaskSpec, stream: Stream) -> None:
        self._spec = spec.landing
        self._stream = stream
        self._journal = Journal(stream.writer.folder)
        self._project = project_root(self._spec.path)

    async def undo(self, landing: int, *, partly: bool = False, commit: bool = False) -> None:
        """Take a landing back, with a commit if it was one and the branch still has that, or if a ``commit`` is wanted.

        Raises:
            LandingRefused: There is no such landing, or it was undone; or files of it were edited since, and not ``partly``
                what can be taken back is wanted, or nothing can; or the commit that is wanted cannot be made.
        """
        landed = self._stream.state.landings.get(landing)
        if landed is None or landing in self._stream.state.undone:
            raise LandingRefused(f"There is no landing {landing} to undo.")
        changes = [self._journal.change(entry) for entry in landed.files]
        steps = take_back(changes, self._project, self._name, partly=partly)
        todo = [step.change for step in steps if step.change is not None]
        if commit:
            place: Place | None = find_place(todo)
            notes = list(place.notes) if place else []
        else:
            place, notes = place_of_undo(landed.commit, todo, exact=all(step.exact for step in steps))
        undone = ev.Undone(
            landing=landing,
            files=[{"path": str(step.path), "outcome": step.outcome} for step in steps],
            changes=[self._journal.entry(change) for change in todo],
            notes=notes,
        )
        self._write(todo, undone, place, undo_message(self._name, landed.commit))

    async def redo(self, landing: int) -> None:
        """Take an undo back: what it took away lands again, as a landing of its own.

        Raises:
            LandingRefused: The landing was not undone, or files were edited since.
        """
        landed, undone = self._stream.state.landings.get(landing), self._stream.state.undone.get(landing)
        if landed is None or undone is None:
            raise LandingRefused(f"Landing {landing} was not undone, so it cannot land again.")
        changes = [self._journal.change(entry).inverse() for entry in undone.changes]
        index = next((c.after for c in map(self._journal.change, landed.files) if c.path.name == INDEX), None)
        lines = lines_of(index, self._name)
        changes = [change for change in changes if not is_index(change.path)]
        changes += noted(self._project, self._name, lines)
        place, notes = place_of_undo(undone.commit, changes, exact=True)
        again = dataclasses.replace(
            landed,
            landing=self._next,
            files=[self._journal.entry(change) for change in changes],
            commit="",
            notes=notes,
        )
        self._write(changes, again, place, redo_message(self._name, undone.commit))

    def recover(self) -> None:
        """Settle a landing or an undo that the last engine began and did not live to store."""
        deed = self._journal.pending()
        if deed is None:
            return
        event = ev.from_json(deed.note)
        if not self._is_stored(event):
            what = "An undo" if isinstance(event, ev.Undone) else "A landing"
            if conclude(deed) and isinstance(event, ev.Landed | ev.Undone) and deed.commit is not None:
                self._stream.emit(dataclasses.replace(event, commit=deed.commit.new))
            else:
                self._stream.emit(
                    ev.LandingRefusedEvent(what=f"{what} was cut off when the engine died; it was taken back.")
                )
        self._journal.end()

    @property
    def _next(self) -> int:
        return len(self._stream.state.landings) + 1

    @property
    def _name(self) -> str:
        return name_of(self._spec, self._project)

    def _is_stored(self, event: ev.Event | None) -> bool:
        state = self._stream.state
        if isinstance(event, ev.Undone):
            return event.landing in state.undone
        return isinstance(event, ev.Landed) and event.landing in state.landings

    def _write(
        self, changes: Sequence[FileChange], event: ev.Landed | ev.Undone, place: Place | None = None, message: str = ""
    ) -> None:
        """Write and store a landing or an undo. A journal lets the next engine settle one that is cut off in between."""
        commit = carry_out(changes, self._journal, ev.to_json(event), place, message)
        try:
            self._stream.emit(event if commit is None else dataclasses.replace(event, commit=commit.new))
        except EnvironmentFault as fault:
            if commit is None:
                take_away(changes)
                self._journal.end()
                raise
            what = f"It is committed as {commit.new[:9]}, and the session could not note it: {fault.what}"
            raise EnvironmentFault(what, where=fault.where, next_step="Mend this; the next start notes it.") from fault
        self._journal.end()

"""Landing and undoing on the developer's word: what was accepted is put together, judged if it never was, and written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agent import events as ev
from agent.judging import Judging
from agent.landing import FileChange, VerifiedInputs, land, plan, select, undo
from agent.state import Judged
from agent.store import read_blob, write_atomically
from agent.stream import Stream
from sandbox.errors import EnvironmentFault, LandingRefused
from sandbox.task import TaskSpec


class LandingDesk:
    """Carries out landings and undoes them, and stores each as an event."""

    def __init__(self, spec: TaskSpec, stream: Stream, judging: Judging) -> None:
        self._spec = spec
        self._stream = stream
        self._judging = judging
        self._folder = stream.writer.folder
        self._journal = self._folder / "landing.json"

    async def land(self, attempt: int) -> None:
        """Write an attempt, without its rejected hunks, into the developer's tree.

        Raises:
            LandingRefused: The state is not correct, is no change, or the tree is not as expected; nothing was written.
            TaskError, EnvironmentFault: It could not be judged.
        """
        judged = self._stream.state.attempt(attempt)
        if judged is None:
            raise LandingRefused(f"There is no attempt {attempt}.")
        rejected = self._stream.state.rejected(attempt)
        original = self._stream.files(self._stream.state.original_files)
        files = select(original, self._stream.files(judged.files), set(rejected))
        if files == original:
            raise LandingRefused(f"Nothing of attempt {attempt} is left to land: every change was rejected.")
        proof = await self._proof(files)
        signature = (await self._judging.original())["signature"]
        verified = VerifiedInputs.of(self._spec, signature, original[self._spec.candidate_file])
        changes = plan(self._spec, original, files, proof.verdict, verified)
        landed = ev.Landed(
            landing=len(self._stream.state.landings) + 1,
            attempt=attempt,
            files=[_entry(change, self._stream) for change in changes],
            partial=bool(rejected),
            verdict=proof.verdict.to_json(),
        )
        self._write(changes, landed)

    def _write(self, changes: Sequence[FileChange], landed: ev.Landed) -> None:
        """Write and store a landing. A journal lets the next engine take back one that is cut off in between."""
        write_atomically(self._journal, json.dumps(landed.files).encode())
        try:
            land(changes)
            self._stream.emit(landed)
        except EnvironmentFault:
            undo(changes)
            raise
        finally:
            self._journal.unlink(missing_ok=True)

    def recover(self) -> None:
        """Take back a landing that the last engine began and did not live to store."""
        if not self._journal.exists():
            return
        entries = json.loads(self._journal.read_bytes())
        if not any(landed.files == entries for landed in self._stream.state.landings.values()):
            undo([_change(entry, self._folder) for entry in entries])
            self._stream.emit(
                ev.LandingRefusedEvent(what="A landing was cut off when the engine died; it was taken back.")
            )
        self._journal.unlink()

    async def undo(self, landing: int) -> None:
        """Take a landing back.

        Raises:
            LandingRefused: There is no such landing, or it was undone; or the tree is not as it left it.
        """
        landed = self._stream.state.landings.get(landing)
        if landed is None or landing in self._stream.state.undone:
            raise LandingRefused(f"There is no landing {landing} to undo.")
        outcomes = undo([_change(entry, self._folder) for entry in landed.files])
        files = [{"path": str(path), "outcome": what} for path, what in outcomes]
        self._stream.emit(ev.Undone(landing=landing, files=files))

    async def _proof(self, files: Mapping[str, bytes]) -> Judged:
        """Return a full verdict of exactly these files, judging them if there is none."""
        hashes = {path: self._stream.blob(content) for path, content in files.items()}
        judged = self._stream.state.judgement(hashes, "full") or await self._judging.attempt(files, "full")
        if not judged.verdict.correct:
            raise LandingRefused(
                f"The state to land is not correct: {judged.verdict.reason}",
                where=f"attempt {judged.attempt}",
                next_step="Accept more of the attempt, or let the agent go on.",
            )
        return judged


def _entry(change: FileChange, stream: Stream) -> dict[str, Any]:
    before, after = (None if content is None else stream.blob(content) for content in (change.before, change.after))
    return {"path": str(change.path), "before": before, "after": after, "mode": change.mode}


def _change(entry: Mapping[str, Any], folder: Path) -> FileChange:
    before, after = (None if sha is None else read_blob(folder, sha) for sha in (entry["before"], entry["after"]))
    return FileChange(Path(entry["path"]), before, after, entry["mode"])

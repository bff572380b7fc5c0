"""Landing on the developer's word: what was accepted is put together, judged in the form in which it lands, and written."""

from __future__ import annotations

from collections.abc import Mapping

from agent import events as ev
from agent.judging import Judging
from agent.landing import VerifiedInputs, landed_form, plan, select
from agent.landing.commit import find_place
from agent.landing.index import lines_for, noted
from agent.landing.kept import kept_of
from agent.landing.message import landing_message
from agent.state import Judged
from agent.stream import Stream
from agent.undo_desk import UndoDesk
from sandbox.errors import LandingRefused
from sandbox.task import TaskSpec
from sandbox.verdict import Tier, Verdict

_TRIES = 3
"""So often is what lands judged, as long as its times are disturbed."""


class LandingDesk(UndoDesk):
    """Carries out landings as well, and stores each as an event."""

    def __init__(self, spec: TaskSpec, stream: Stream, judging: Judging) -> None:
        super().__init__(spec, stream)
        self._judging = judging

    async def land(self, attempt: int, *, commit: bool = False, faster: bool = False) -> None:
        """Write an attempt, without its rejected hunks, into the developer's tree; as one commit too, if that is wanted.

        Raises:
            LandingRefused: The state is not correct, is no change, is not faster than eager where it was to be
                ``faster``, or the tree is not as expected; nothing was written.
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
        verified = VerifiedInputs.of(self._spec, signature, original[self._spec.candidate_file], proof.verdict.verify)
        form = landed_form(self._spec, original, files, proof.verdict, verified)
        verdict = await self._judged_as_it_lands(files, form)
        if against := refusal(verdict, faster=faster):
            raise (
                self._busy(verdict, judged.attempt)
                if _disturbed(verdict)
                else _refused(against, verdict, judged.attempt)
            )
        changes = plan(self._spec, original, files, verdict, verified)
        kept = kept_of(self._spec, changes, verdict, self._project, self._stream.writer.folder.name)
        changes += noted(self._project, kept.name, lines_for(kept))
        place = find_place(changes) if commit else None
        landed = ev.Landed(
            landing=self._next,
            attempt=attempt,
            files=[self._journal.entry(change) for change in changes],
            partial=bool(rejected),
            verdict=verdict.to_json(),
            notes=[*untimed(verdict), *(place.notes if place else ())],
        )
        self._write(changes, landed, place, landing_message(kept, verdict))

    async def _judged_as_it_lands(self, files: Mapping[str, bytes], form: Mapping[str, bytes]) -> Verdict:
        """Return a full verdict of the landed form; one whose times were disturbed is tried again."""
        verdict = await self._judging.landed(files, form)
        for number in range(2, _TRIES + 1):
            if not _disturbed(verdict):
                break
            text = f"the machine was busy: judging what lands again ({number} of {_TRIES})"
            self._stream.emit(ev.StageEvent(part="profile", text=text))
            verdict = await self._judging.landed(files, form)
        return verdict

    def _busy(self, verdict: Verdict, attempt: int) -> LandingRefused:
        """Return the refusal of what could not be timed, and has to be seen to be faster."""
        what = (
            f"The machine was busy {_TRIES} times over, so it could not be timed; nothing was written. {verdict.reason}"
        )
        next_step = f"Try again when it is quieter: warpsmith sessions land {self._stream.writer.folder}"
        return LandingRefused(what, where=f"attempt {attempt}", next_step=next_step)

    async def _proof(self, files: Mapping[str, bytes]) -> Judged:
        """Return a verdict of exactly these files in the workspace's form, judging them if there is none.

        What lands is judged in full after it; this one has to be full only where it says at which sizes it holds.
        """
        hashes = {path: self._stream.blob(content) for path, content in files.items()}
        tiers: list[Tier] = ["full"] if self._spec.dynamic else ["full", "quick"]
        known = [judged for tier in tiers if (judged := self._stream.state.judgement(hashes, tier)) is not None]
        judged = known[0] if known else await self._judging.attempt(files, tiers[-1])
        if not judged.verdict.correct:
            raise _refused("The state to land is not correct", judged.verdict, judged.attempt)
        return judged


def refusal(verdict: Verdict, *, faster: bool) -> str:
    """Return what speaks against a landing whose landed form was judged so, or an empty text.

    A developer who has looked may land what is not faster, or could not be timed; without one it has to be ``faster``.
    """
    if not verdict.correct:
        return "In the form in which it lands it is not correct"
    if faster and verdict.reward not in (2, 3):
        return "In the form in which it lands it was not seen to be faster than eager"
    return ""


def untimed(verdict: Verdict) -> list[str]:
    """Return what has to be said of a landing whose landed form is correct and has no time that can be trusted."""
    if verdict.reward is not None:
        return []
    return [f"It is correct as it landed; how fast it is was not measured. {verdict.reason}"]


def _disturbed(verdict: Verdict) -> bool:
    return verdict.correct and verdict.profile is not None and bool(verdict.profile.disturbed)


def _refused(what: str, verdict: Verdict, attempt: int) -> LandingRefused:
    next_step = "Accept more of the attempt, or let the agent go on."
    return LandingRefused(f"{what}: {verdict.reason}", where=f"attempt {attempt}", next_step=next_step)

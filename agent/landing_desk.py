"""Landing on the developer's word: what was accepted is put together, judged in the form in which it lands, and written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent import events as ev
from agent.judging import Judging
from agent.landing import FileChange, VerifiedInputs, landed_form, plan, select
from agent.landing.commit import Place, find_place
from agent.landing.index import lines_for, noted
from agent.landing.kept import Kept, kept_of
from agent.landing.message import landing_message
from agent.landing.replaced import told_replaced
from agent.state import Judged
from agent.stream import Stream
from agent.undo_desk import UndoDesk
from sandbox.errors import LandingRefused
from sandbox.forms import forms_of
from sandbox.task import TaskSpec
from sandbox.verdict import Tier, Verdict

_TRIES = 3
"""So often is what lands judged, as long as its times are disturbed."""


class LandingDesk(UndoDesk):
    """Carries out landings as well, and stores each as an event."""

    def __init__(self, spec: TaskSpec, stream: Stream, judging: Judging) -> None:
        super().__init__(spec, stream)
        self._judging = judging

    async def land(self, attempt: int, *, commit: bool = False, faster: bool = False, untimed: bool = False) -> None:
        """Write an attempt, without its rejected hunks, into the developer's tree; as one commit too, if that is wanted.

        Whether the tree can take it is looked at before anything is judged, and once more before it is written.

        Raises:
            LandingRefused: The state is not correct, is no change, is not faster than eager where it was to be
                ``faster`` (what could not be timed lands if ``untimed``), or the tree is not as expected; nothing was written.
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
        profile = await self._judging.original()
        if judged.verdict.correct:
            verified = self._verified(profile, original, judged.verdict)
            self._planned(original, files, judged.verdict, verified, commit=commit)
        whole = not rejected and self._proves(judged)
        proof = judged if whole else await self._proof(files, partial=bool(rejected))
        verified = self._verified(profile, original, proof.verdict)
        form = landed_form(self._spec, original, files, proof.verdict, verified)
        verdict = await self._judged_as_it_lands(files, form, tries=1 if untimed else _TRIES)
        timeless = untimed and _disturbed(verdict)
        if against := refusal(verdict, faster=faster and not timeless):
            raise (
                self._busy(verdict, judged.attempt)
                if _disturbed(verdict)
                else _refused(against, verdict, judged.attempt, partial=bool(rejected))
            )
        changes, kept, place = self._planned(original, files, verdict, verified, commit=commit)
        landed = ev.Landed(
            landing=self._next,
            attempt=attempt,
            files=[self._journal.entry(change) for change in changes],
            partial=bool(rejected),
            verdict=verdict.to_json(),
            notes=[*filter(None, [told_replaced(changes)]), *told_untimed(verdict), *(place.notes if place else ())],
        )
        self._write(changes, landed, place, landing_message(kept, verdict))

    def _proves(self, judged: Judged) -> bool:
        """Whether an attempt's own verdict, timed or not, says that it is right, and at which sizes and in which forms."""
        return judged.verdict.correct and (judged.verdict.tier == "full" or not self._needs_full)

    @property
    def _needs_full(self) -> bool:
        """Whether only a full verdict says all that a landing covers."""
        return bool(self._spec.dynamic) or bool(forms_of(self._spec))

    def _verified(self, profile: Mapping[str, Any], original: Mapping[str, bytes], verdict: Verdict) -> VerifiedInputs:
        """Return what a verdict holds for, by the profile of the reference as well."""
        return VerifiedInputs.by(profile, self._spec, original[self._spec.candidate_file], verdict.verify)

    def _planned(
        self,
        original: Mapping[str, bytes],
        files: Mapping[str, bytes],
        verdict: Verdict,
        verified: VerifiedInputs,
        *,
        commit: bool,
    ) -> tuple[list[FileChange], Kept, Place | None]:
        """Return what a landing would write, the index with it, and where its commit would go; nothing is written.

        Raises:
            LandingRefused: The tree or the repository cannot take it.
        """
        changes = plan(self._spec, original, files, verdict, verified)
        kept = kept_of(self._spec, changes, verdict, self._project, self._stream.writer.folder.name)
        changes += noted(self._project, kept.name, lines_for(kept))
        return changes, kept, find_place(changes) if commit else None

    async def _judged_as_it_lands(
        self, files: Mapping[str, bytes], form: Mapping[str, bytes], *, tries: int = _TRIES
    ) -> Verdict:
        """Return a full verdict of the landed form; one whose times were disturbed is tried again."""
        verdict = await self._judging.landed(files, form)
        for number in range(2, tries + 1):
            if not _disturbed(verdict):
                break
            text = f"the machine was busy: judging what lands again ({number} of {tries})"
            self._stream.emit(ev.StageEvent(part="profile", text=text))
            verdict = await self._judging.landed(files, form)
        return verdict

    def _busy(self, verdict: Verdict, attempt: int) -> LandingRefused:
        """Return the refusal of what could not be timed, and has to be seen to be faster."""
        what = (
            f"The machine was busy {_TRIES} times over, so it could not be timed; nothing was written. {verdict.reason}"
        )
        next_step = (
            f"Try again when it is quieter: warpsmith sessions land {self._stream.writer.folder} (with --untimed it lands "
            "without having been seen to be faster)"
        )
        return LandingRefused(what, where=f"attempt {attempt}", next_step=next_step)

    async def _proof(self, files: Mapping[str, bytes], *, partial: bool) -> Judged:
        """Return a verdict of exactly these files in the workspace's form, judging them if there is none.

        What lands is judged in full after it; this one has to be full only where it says at which sizes and in which forms it
        holds.
        """
        hashes = {path: self._stream.blob(content) for path, content in files.items()}
        tiers: list[Tier] = ["full"] if self._needs_full else ["full", "quick"]
        known = [judged for tier in tiers if (judged := self._stream.state.judgement(hashes, tier)) is not None]
        judged = known[0] if known else await self._judging.attempt(files, tiers[-1])
        if not judged.verdict.correct:
            what = (
                "Without the changes that were rejected it is not correct"
                if partial
                else "The state to land is not correct"
            )
            raise _refused(what, judged.verdict, judged.attempt, partial=partial)
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


def told_untimed(verdict: Verdict) -> list[str]:
    """Return what has to be said of a landing whose landed form is correct and has no time that can be trusted."""
    if verdict.reward is not None:
        return []
    return [f"It is correct as it landed; how fast it is was not measured. {verdict.reason}"]


def _disturbed(verdict: Verdict) -> bool:
    return verdict.correct and verdict.profile is not None and bool(verdict.profile.disturbed)


def _refused(what: str, verdict: Verdict, attempt: int, *, partial: bool) -> LandingRefused:
    """Return the refusal of what was judged so; only of a ``partial`` state more can be accepted."""
    next_step = "Accept more of it (in the IDE), or let the agent go on." if partial else "Let the agent go on."
    return LandingRefused(f"{what}: {verdict.reason}", where=f"attempt {attempt}", next_step=next_step)

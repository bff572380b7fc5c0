"""The session's judge, behind a thread of its own: opened while the screen and the model are busy, asked one thing at a time."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from agent import events as ev
from agent.redact import Redactor
from agent.session import Session
from agent.shared_verdicts import SharedVerdict, SharedVerdicts
from agent.state import Judged
from agent.stream import Stream
from agent.unasked import Unasked, worth_judging
from sandbox.errors import EnvironmentFault, InternalError, WarpsmithError
from sandbox.isolation import best_isolation
from sandbox.judge import Judge
from sandbox.judge_limits import JudgeLimits
from sandbox.looking.study import Study
from sandbox.processes import descendants, kill_all
from sandbox.progress import Progress, Stage
from sandbox.snapshot import kernels_digest, write_snapshot
from sandbox.verdict import Tier, Verdict

T = TypeVar("T")
CLOSE_SECONDS = 0.5
"""How long the judge may take to come to rest before its processes are killed."""
FRUITLESS = 2
"""After so many verdicts ahead in a row that came to nothing there are no more: the machine has no time that is to spare."""
REWARDED_QUICKLY = JudgeLimits(quick=replace(JudgeLimits.quick, placements=3))
"""Limits where quick verdicts are rewards: with the placements that training takes at least."""

_Work = Callable[[Judge, Path, threading.Event], T]
"""Something that the judge does with a folder, until the event is set."""
OnFault = Callable[[WarpsmithError], None]


class Judging:
    """Opens the judge, and stores what it finds as events, without secrets: what a candidate says is part of a verdict.

    Args:
        on_fault: Told once when the judge cannot be opened: the task is unusable, or the environment at fault.

    Attributes:
        timed: Whether attempts are timed; where correctness alone earns something they are not.
    """

    def __init__(self, session: Session, stream: Stream, on_fault: OnFault) -> None:
        self._session = session
        self._shared = SharedVerdicts(session)
        self._redact = Redactor(os.environ)
        self._stream = stream
        self._on_fault = on_fault
        self.timed = session.settings.reward_tier != "correctness"
        self._scratch = session.folder / "scratch"
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="judge")
        self._judge: Judge | None = None
        self._opened: asyncio.Task[Judge] | None = None
        self._original: asyncio.Task[dict[str, Any]] | None = None
        self._ahead: asyncio.Task[None] | None = None
        self._unasked: Unasked | None = None
        self._fruitless = 0
        self._kernels = ""
        self._closing = False

    def open(self) -> asyncio.Task[Judge]:
        """Begin to open the judge, unless that was done; after a failure it is tried again."""
        if self._opened is None or _failed(self._opened):
            self._opened = asyncio.create_task(self._open())
            self._opened.add_done_callback(self._tell_fault)
        return self._opened

    def begin_original(self) -> asyncio.Task[dict[str, Any]]:
        """Begin to measure the reference, unless that was done; after a failure it is tried again."""
        if self._original is None or _failed(self._original):
            self._drop_unasked()
            self._original = asyncio.create_task(self._measure_original())
            self._original.add_done_callback(_failed)  # whoever needs it gets the error; nobody else has to
        return self._original

    async def original(self) -> dict[str, Any]:
        """Return the profile of the reference, measured once a session (``OriginalProfile.to_json()``)."""
        return await asyncio.shield(self.begin_original())

    @property
    def tells_whose(self) -> bool:
        """Whether the agent is told which session a verdict was taken from."""
        return self._shared.told

    async def attempt(
        self, files: Mapping[str, bytes], tier: Tier, call_id: str | None = None, *, fresh: bool = False
    ) -> Judged:
        """Judge these files and store the attempt. Cancelling stops the judge and returns when it has stopped.

        Unless it is to be a fresh one, a verdict of the same code is taken over from another session that shares its own, or
        waited for while it is being judged there. A quick verdict of these files that was begun ahead is waited for, and taken
        whichever way it went.

        Raises:
            TaskError, EnvironmentFault: Nothing could be judged.
        """
        if fresh:
            return self._store(files, await self._verdict(files, tier), call_id)
        async with self._shared.once(files, tier, lambda: self._tell_wait("the same code")) as known:
            if known is not None:
                return self._adopt(files, known, call_id)
            judged = self._store(files, await self._verdict(files, tier), call_id)
            self._shared.keep(files, judged)
            return judged

    async def _verdict(self, files: Mapping[str, bytes], tier: Tier) -> Verdict:
        ahead = await self._judged_ahead(files) if tier == "quick" else None
        if ahead is not None:
            return ahead
        return await self._asked(
            files, lambda judge, folder, cancel: judge.check(folder, tier, cancel=cancel, timed=self.timed)
        )

    def _adopt(self, files: Mapping[str, bytes], known: SharedVerdict, call_id: str | None) -> Judged:
        """Store another session's verdict as that of an attempt here, and say whose it is."""
        text = f"the same code was attempt {known.attempt} of session {known.session}: its verdict counts"
        self._stream.emit(ev.StageEvent(part="profile", text=text))
        return self._store(files, known.verdict, call_id, {"session": known.session, "attempt": known.attempt})

    def _store(
        self,
        files: Mapping[str, bytes],
        verdict: Verdict,
        call_id: str | None,
        taken_from: dict[str, Any] | None = None,
    ) -> Judged:
        hashes = {path: self._stream.blob(content) for path, content in files.items()}
        number = len(self._stream.state.judged) + 1
        told = self._redact.data(verdict.to_json())
        self._stream.emit(
            ev.Attempt(attempt=number, files=hashes, verdict=told, call_id=call_id, taken_from=taken_from)
        )
        return self._stream.state.judged[-1]

    async def landed(self, files: Mapping[str, bytes], form: Mapping[str, bytes]) -> Verdict:
        """Return a full verdict of an attempt's files as they land (``form``: see ``landed_form``); nothing is stored.

        Raises:
            TaskError, EnvironmentFault: See ``attempt``.
        """
        verdict = await self._asked(
            files, lambda judge, folder, cancel: judge.check(folder, "full", cancel=cancel, landed=form)
        )
        return Verdict.from_json(self._redact.data(verdict.to_json()))

    async def study(self, files: Mapping[str, bytes], look: Callable[[Study], T]) -> T:
        """Look at these files in a way that is no verdict; nothing is stored. Cancelling stops the judge, as in ``attempt``.

        Raises:
            UsageError: The files cannot be looked at so.
            TaskError, EnvironmentFault: See ``attempt``.
        """
        return await self._asked(files, lambda judge, folder, cancel: judge.study(folder, look, cancel=cancel))

    def build_ahead(self, files: Mapping[str, bytes]) -> None:
        """Begin to build these files' kernels, which a Check of them then finds built; whatever else was being built ends.

        Nothing is stored, and what is at fault is told by the Check.
        """
        if self._turn_to(files) and any(path.startswith("kernels/") for path in files):
            self._ahead = asyncio.create_task(
                self._in_judge(files, lambda judge, folder, cancel: judge.build_ahead(folder, cancel=cancel))
            )
            self._ahead.add_done_callback(_failed)

    def judge_ahead(self, files: Mapping[str, bytes]) -> None:
        """Begin a quick verdict of these files, which a Check of them then finds under way or done; any other one ends.

        It is no attempt, and the model is told nothing, before a Check asks for it. None is begun where there is nothing to
        learn: kernels that nothing calls yet, files that were judged.
        """
        if self._unasked is not None and self._unasked.files == files:
            return
        self._drop_unasked()
        wanted = self._session.settings.verdicts_ahead and self._fruitless < FRUITLESS
        if wanted and worth_judging(files, self._session.task.candidate_file, self._stream.state):
            before = self._listener(lambda stage: self._tell_stage_ahead(stage, unasked))
            self._unasked = unasked = Unasked(files, before, self._listener(self._tell_stage), timed=self.timed)
            unasked.task = asyncio.create_task(self._judge_unasked(unasked))
            unasked.task.add_done_callback(_failed)

    def stop_ahead(self) -> None:
        """End what is built and judged ahead: nobody will ask for it."""
        if self._ahead is not None:
            self._ahead.cancel()
        self._ahead, self._kernels = None, ""
        self._drop_unasked()

    async def close(self) -> None:
        """End the judge with everything it started."""
        self._closing = True
        self.stop_ahead()
        for task in (self._opened, self._original):
            if task is not None:
                task.cancel()
        if self._judge is not None:
            self._judge.give_up()
        idle = asyncio.wrap_future(self._thread.submit(lambda: None))
        await asyncio.wait([idle], timeout=CLOSE_SECONDS)
        while not idle.done():  # the judge waits for a process of its own: what it waits for has to go
            await asyncio.to_thread(kill_all, descendants(os.getpid()))
            await asyncio.wait([idle], timeout=0.1)
        if self._judge is not None:
            await asyncio.to_thread(self._judge.close)
        await asyncio.to_thread(self._thread.shutdown, wait=True, cancel_futures=True)
        shutil.rmtree(self._scratch, ignore_errors=True)

    async def _open(self) -> Judge:
        shutil.rmtree(self._scratch, ignore_errors=True)
        settings = self._session.settings
        self._judge = Judge(
            self._session.task,
            isolation=best_isolation(settings.isolation or None),
            cache=settings.cache,
            scratch=self._scratch / "judge",
            progress=self._listener(self._tell_stage),
            limits=REWARDED_QUICKLY if settings.reward_tier == "quick" else None,
        )
        await self._in_thread(self._judge.open)
        return self._judge

    def _tell_fault(self, task: asyncio.Task[Judge]) -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, WarpsmithError):
            self._on_fault(error)
        elif error is not None:
            self._on_fault(InternalError(f"The judge could not be opened: {error!r}."))

    async def _measure_original(self) -> dict[str, Any]:
        if self._stream.state.original is None:
            async with self._shared.original_once(lambda: self._tell_wait("the original")) as profile:
                if profile is None:
                    judge = await asyncio.shield(self.open())
                    profile = self._redact.data((await self._in_thread(judge.original)).to_json())
                    self._shared.keep_original(profile)
            self._stream.emit(ev.OriginalProfiled(profile=profile))
        assert self._stream.state.original is not None
        return self._stream.state.original

    async def _asked(self, files: Mapping[str, bytes], work: _Work[T]) -> T:
        """Have the judge look at these files and at nothing else; cancelling stops it, and returns when it has stopped."""
        self._turn_to(files)
        self._drop_unasked()
        return await self._in_judge(files, work)

    async def _judge_unasked(self, unasked: Unasked) -> Verdict | None:
        if self._shared.known(unasked.files, "quick"):
            return None
        verdict = await self._in_judge(unasked.files, unasked.judge)
        self._fruitless = self._fruitless + 1 if verdict.reward is None else 0
        return verdict

    async def _judged_ahead(self, files: Mapping[str, bytes]) -> Verdict | None:
        """Take the verdict of these files that was begun ahead; None where there is none, or none that says anything."""
        unasked = self._unasked
        if unasked is None or unasked.files != files:
            return None
        self._unasked = None  # it is the asker's now: whatever else is asked of the judge waits for it
        unasked.ask()
        saved, verdict = unasked.seconds, None
        with contextlib.suppress(WarpsmithError):  # judged again, it is told
            verdict = await unasked.task
        taken = verdict is not None and verdict.reward is not None
        self._tell_ahead(saved if taken else unasked.seconds, taken=taken)
        return verdict if taken else None

    def _drop_unasked(self) -> None:
        unasked, self._unasked = self._unasked, None
        if unasked is None:
            return
        unasked.task.cancel()
        self._tell_ahead(unasked.seconds, taken=False)

    def _tell_ahead(self, seconds: float, *, taken: bool) -> None:
        if taken or seconds:
            self._stream.emit_anyway(ev.JudgedAhead(seconds=round(seconds, 3), taken=taken))

    def _turn_to(self, files: Mapping[str, bytes]) -> bool:
        """Give up what is built ahead of another state than this; return whether this one's kernels are others than before."""
        kernels = kernels_digest(files)
        if kernels == self._kernels:
            return False
        self.stop_ahead()
        self._kernels = kernels
        return True

    async def _in_judge(self, files: Mapping[str, bytes], work: _Work[T]) -> T:
        judge, cancel = await asyncio.shield(self.open()), threading.Event()
        return await self._in_thread(
            lambda: work(judge, write_snapshot(dict(files), self._scratch / "candidate"), cancel), cancel
        )

    async def _in_thread(self, work: Callable[[], T], cancel: threading.Event | None = None) -> T:
        """Do the judge's work in its thread; when cancelled, drop it, or ask it to stop and wait until it has."""
        work_of_thread = self._thread.submit(work)
        future = asyncio.wrap_future(work_of_thread)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            future.add_done_callback(_failed)  # nobody waits for it any more
            if not work_of_thread.cancel() and cancel is not None:
                cancel.set()
                with contextlib.suppress(WarpsmithError):
                    await asyncio.shield(future)
            raise

    def _listener(self, tell: Progress) -> Progress:
        """Return a listener for the judge's thread that tells stages in this one's loop."""
        loop = asyncio.get_running_loop()

        def pass_on(stage: Stage) -> None:
            if not self._closing:
                loop.call_soon_threadsafe(tell, stage)

        return pass_on

    def _tell_wait(self, what: str) -> None:
        self._tell_stage(Stage("profile", f"waiting: another session has {what} judged just now"))

    def _tell_stage(self, stage: Stage) -> None:
        with contextlib.suppress(EnvironmentFault):  # a full disk ends the run at the next event that matters
            self._stream.emit(ev.StageEvent(part=stage.part, text=stage.text, partial=stage.partial))

    def _tell_stage_ahead(self, stage: Stage, unasked: Unasked) -> None:
        if self._unasked is unasked:  # and was not dropped or asked for meanwhile
            self._stream.emit(ev.StageAhead(part=stage.part, text=stage.text, partial=stage.partial))


def _failed(task: asyncio.Future[Any]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)

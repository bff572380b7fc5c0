"""The judge's parent: decides what is built, guarded, verified and profiled, keeps the clock, and writes the verdict.

It imports no torch. What runs the developer's and the candidate's code are other processes (``sandbox/harness``): a
trusted bench with the reference, and a worker for each placement of the candidate, forked by a zygote.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from sandbox.build import Built, has_sources
from sandbox.crew import Crew
from sandbox.errors import EnvironmentFault, machine_fault
from sandbox.guard.alive import prove_dynamic, prove_static
from sandbox.isolation import Isolation
from sandbox.judge_limits import JudgeLimits
from sandbox.likeness import likeness
from sandbox.looking.study import Study
from sandbox.machine.scratch import scratch_folder
from sandbox.original import OperatorTime, OriginalProfile, trace_reference
from sandbox.processes import Cancelled, ProcessLost
from sandbox.progress import LOADED, Progress, Stage, silent
from sandbox.snapshot import Snapshot, digest, kernels_digest, read_candidate, write_snapshot
from sandbox.task import TaskSpec
from sandbox.timing.timekeeper import Timekeeper
from sandbox.trial import Trial
from sandbox.verdict import TaskIdentity, Tier, Verdict
from sandbox.workers import TransportFailed

T = TypeVar("T")


class Judge:
    """Judges candidates of one task; one for each session, used from one thread at a time.

    Args:
        spec: The task.
        isolation: How workers are isolated.
        cache: Where compiled kernels and compiled baselines are kept.
        scratch: A folder for files that last as long as this judge.
        progress: Told what is being done.
        limits: Time and memory limits.

    Attributes:
        environment: Device, versions, isolation and whatever else times depend on; filled by ``open``.
    """

    def __init__(
        self,
        spec: TaskSpec,
        *,
        isolation: Isolation,
        cache: Path,
        scratch: Path,
        progress: Progress = silent,
        limits: JudgeLimits | None = None,
    ) -> None:
        self.spec = spec
        self.environment: dict[str, Any] = {}
        self._isolation = isolation
        self._cache = cache
        self._scratch = scratch
        self._progress = progress
        self._limits = limits or JudgeLimits()
        self._cancel: threading.Event | None = None
        self._given_up = threading.Event()
        self._work: Path | None = None
        self._crew: Crew | None = None
        self._guards = 0
        self._ahead: tuple[str, Built] | None = None
        self._temporary = contextlib.ExitStack()

    def __enter__(self) -> Judge:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> None:
        """Start bench and zygote, and load and accept the task.

        Raises:
            TaskError: The task cannot be used.
            EnvironmentFault: The interpreter or the machine lacks something, or a guard is dead.
        """
        self._progress(Stage("task", f"loading {self.spec.id}"))
        self._scratch.mkdir(parents=True, exist_ok=True)
        self._work = Path(tempfile.mkdtemp(prefix="judge-", dir=self._scratch))
        self._work.chmod(0o755)
        temporary = self._temporary.enter_context(scratch_folder("warpsmith-judge-"))
        self._crew = Crew(
            self.spec, self._isolation, self._cache, self._work, temporary, self._limits, self._check_cancel
        )
        try:
            with self._crew.pool.shared("task", "loading", self._progress):
                self._guards = prove_static()
                self._crew.open()
                self._guards += prove_dynamic(self._crew, self._isolation.name)
            self._crew.rest()
        except ProcessLost as lost:
            self.close()
            raise EnvironmentFault(f"The task cannot be loaded: {lost}", where=str(self.spec.path)) from lost
        except BaseException:
            self.close()
            raise
        self._describe(self._crew)
        self._progress(Stage("task", LOADED))

    def original(self, progress: Progress | None = None) -> OriginalProfile:
        """Profile the reference: operators, every baseline, the plain copy, and what its output depends on.

        Raises:
            TaskError: The reference fails under the profiler.
            EnvironmentFault: The machine is at fault.
        """
        crew, _ = self._opened()
        listen = progress or self._progress
        listen(Stage("profile", "profiling the original"))
        for attempt in (1, 2):
            try:
                with crew.pool.shared("profile", "profiling", listen):
                    found, disturbed = trace_reference(crew)
                timed = Timekeeper(crew, self.spec, "quick", self._limits, listen).time_original()
                break
            except ProcessLost as lost:
                if attempt == 2:
                    raise EnvironmentFault(f"The original cannot be profiled. {lost}") from lost
        crew.rest()
        self._describe(crew)
        return OriginalProfile(
            operators=tuple(OperatorTime(**operator) for operator in found["operators"]),
            baselines=timed.baselines,
            copy_us=timed.copy_us,
            bytes_moved=found["bytes_moved"],
            precision=found["precision"],
            depends_on=tuple(found["depends_on"]),
            ignores=tuple(found["ignores"]),
            signature=tuple(found["signature"]),
            environment=self.environment,
            notes=(*found["notes"], *timed.notes),
            judged_by=self.spec.judged_by,
            reads=found.get("reads"),
            operators_disturbed=disturbed,
        )

    def check(
        self,
        candidate: Path,
        tier: Tier = "quick",
        progress: Progress | None = None,
        cancel: threading.Event | None = None,
        landed: Mapping[str, bytes] | None = None,
        asked: threading.Event | None = None,
        *,
        timed: bool = True,
    ) -> Verdict:
        """Judge a candidate: build, guard, verify, profile; what comes later runs only if what came before passed.

        Args:
            candidate: A workspace folder, or the candidate's Python file.
            tier: ``quick`` or ``full``.
            progress: Told what is being done; the judge's own listener if absent.
            cancel: Ends the check soon after it is set; the reward is then null.
            landed: The same candidate in the form in which it lands: its Python file, and the folder of kernels with all that
                lies in it. The workspace's form is what is built and read by the guard, this one is verified and timed.
            asked: Given where nobody has asked for this verdict yet, and set once somebody does. Until then the check ends as
                if it were cancelled when somebody else waits for the device.
            timed: Whether it is timed; where not, what is correct earns 1.

        Raises:
            UsageError: There is no such candidate.
            EnvironmentFault: The machine is at fault.
        """
        files = read_candidate(candidate, self.spec)
        crew, _ = self._opened()
        crew.pool.asked = asked
        try:
            with self._machine_blamed(cancel):
                return self._check(files, tier, progress or self._progress, landed, timed=timed)
        finally:
            crew.pool.asked = None

    def study(
        self,
        candidate: Path,
        look: Callable[[Study], T],
        progress: Progress | None = None,
        cancel: threading.Event | None = None,
    ) -> T:
        """Look at a candidate in a way that is no verdict, and return what was seen.

        Args:
            candidate: A workspace folder, or the candidate's Python file.
            look: Does it: ``profile_kernels``, ``sanitize``, ``sweep`` or ``ablate``.
            progress: Told what is being done; the judge's own listener if absent.
            cancel: Ends it soon after it is set.

        Raises:
            UsageError: There is no such candidate, or it cannot be looked at so.
            EnvironmentFault: The machine is at fault, or it was cancelled.
        """
        files = read_candidate(candidate, self.spec)
        listen = progress or self._progress
        crew, work = self._opened()
        try:
            with self._machine_blamed(cancel):
                snapshot = Snapshot(write_snapshot(files, work / "candidate"), files)
                study = Study(crew, snapshot, work, listen, self._cancel)
                seen = self._twice(lambda _: look(study), listen)
                crew.rest()
                self._describe(crew)
                return seen
        except (Cancelled, InterruptedError) as error:
            raise EnvironmentFault("It was interrupted before it was finished.") from error

    def build_ahead(self, candidate: Path, cancel: threading.Event | None = None) -> None:
        """Build a candidate's kernels before it is checked, so that the check finds what came of them.

        Nothing is told of it: the check tells. What one build left is known until the next.

        Args:
            candidate: A workspace folder, or the candidate's Python file.
            cancel: Ends it soon after it is set.

        Raises:
            UsageError: There is no such candidate.
            EnvironmentFault: The machine is at fault.
        """
        files = read_candidate(candidate, self.spec)
        crew, work = self._opened()
        snapshot = write_snapshot(files, work / "ahead")
        if not has_sources(snapshot / "kernels"):
            return
        with self._machine_blamed(cancel), contextlib.suppress(InterruptedError):
            built = crew.build(snapshot / "kernels", silent, cancel)
            self._ahead = None if built.killed else (kernels_digest(files), built)

    def close(self) -> None:
        """End every process this judge started, and remove its files."""
        if self._crew is not None:
            self._crew.close()
            self._crew = None
        self._temporary.close()
        if self._work is not None:
            shutil.rmtree(self._work, ignore_errors=True)
            self._work = None

    def _check(
        self,
        files: dict[str, bytes],
        tier: Tier,
        progress: Progress,
        landed: Mapping[str, bytes] | None,
        *,
        timed: bool,
    ) -> Verdict:
        crew, work = self._opened()
        form = None if landed is None else write_snapshot(dict(landed), work / "landed")
        snapshot = Snapshot(write_snapshot(files, work / "candidate"), files, form)
        ahead = self._ahead[1] if self._ahead and self._ahead[0] == kernels_digest(files) else None

        def attempt(first: bool) -> Trial:
            trial = Trial(
                crew,
                snapshot,
                tier,
                progress,
                forgiving=first,
                cancel=self._cancel,
                ahead=ahead if first else None,
            )
            try:
                trial.run(timed=timed)
            except (Cancelled, InterruptedError):
                trial.cancelled = True
            return trial

        trial = self._twice(attempt, progress)
        crew.rest()
        self._describe(crew)
        verdict = trial.verdict(self._identity(crew), digest(files), self.environment)
        return replace(verdict, source_sha256=likeness(files))

    def _twice(self, work: Callable[[bool], T], progress: Progress) -> T:
        """Do ``work``, told whether it is the first time; again where a process was lost or memory could not be shared.

        That memory cannot be shared is told by the candidate's process, and held against one without a candidate.
        """
        crew, _ = self._opened()
        usual = crew.transport
        try:
            return work(True)
        except ProcessLost as lost:
            progress(Stage("task", f"starting again: {lost}"))
        except TransportFailed as failed:
            if usual != "host":
                progress(Stage("task", f"sharing host memory instead of the device's: {failed}"))
                usual = usual if crew.can_share() else "host"
                crew.transport = "host"
        try:
            return work(False)
        except TransportFailed as failed:
            raise EnvironmentFault(f"Processes cannot share memory: {failed}.") from failed
        finally:
            crew.transport = usual

    @contextlib.contextmanager
    def _machine_blamed(self, cancel: threading.Event | None) -> Iterator[None]:
        """Raise what the machine did wrong as its fault."""
        self._cancel = cancel
        try:
            yield
        except ProcessLost as lost:
            raise EnvironmentFault(f"The judge lost a process twice. {lost}", next_step="Check again.") from lost
        except OSError as error:
            fault = machine_fault(error)
            if fault is not None:
                raise fault from error
            raise
        finally:
            self._cancel = None

    def give_up(self) -> None:
        """Wait for nothing any more: whoever waits for the device in another thread gets ``Cancelled``. Then ``close``."""
        self._given_up.set()

    def _opened(self) -> tuple[Crew, Path]:
        if self._crew is None or self._work is None:
            raise RuntimeError("the judge is not open")
        return self._crew, self._work

    def _describe(self, crew: Crew) -> None:
        self.environment = {
            **crew.environment,
            "isolation": self._isolation.name,
            "worker_isolation": self._isolation.workers,
            "isolation_means": self._isolation.description,
            "guards": self._guards,
            "transport": crew.transport,
            "workers": f"fresh: {crew.fresh}" if crew.fresh else "forked",
            **({"clocks": crew.clocks} if crew.clocks else {}),
        }

    def _identity(self, crew: Crew) -> TaskIdentity:
        source = hashlib.sha256(self.spec.path.read_bytes()).hexdigest()
        return TaskIdentity(self.spec.id, source, crew.accepted.get("precision", self.spec.precision), self.spec.policy)

    def _check_cancel(self) -> None:
        cancelled = self._given_up.is_set() or (self._cancel is not None and self._cancel.is_set())
        if cancelled or (self._crew is not None and self._crew.pool.wanted()):
            raise Cancelled

"""The judges of single-turn tasks, one a task, side by side; each distinct candidate is judged once."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Protocol, TypeVar

from sandbox.errors import EnvironmentFault
from sandbox.isolation import Isolation
from sandbox.judge import Judge
from sandbox.judge_limits import JudgeLimits, TierLimits
from sandbox.reward import FAILED
from sandbox.snapshot import write_snapshot
from sandbox.task import TaskSpec
from trainer.tasks.memo import Memo, Outcome, key_of
from trainer.tasks.task import Files, NoAnswer, Task

Asked = tuple[Task, str]
"""A task and a whole answer to it, its opening included."""
_Unknown = tuple[Task, dict[str, Files]]
Found = TypeVar("Found", Files, Outcome)

QUICK = TierLimits(cases=5, placements=3, profile_seconds=1.2, pairs=100, least_pairs=6, more_placements=2)
"""A quick verdict with the three placements that a reward of training takes at least."""
_TRIES = 3
"""Times that a candidate is judged whose verdict says nothing, because the machine was disturbed."""


class Judges(Protocol):
    """Whoever judges answers; ``judged`` is how many verdicts there were so far."""

    device: str
    judged: int

    def judge(self, asked: Sequence[Asked]) -> list[Outcome]:
        """Return what each answer comes to, in order; see ``Desk``."""


class Desk:
    """Judges answers; a context manager that ends all judges when it is left. Several threads may ask at once.

    Args:
        device: ``cpu`` or ``cuda:N``, resolved.
        isolation: How candidates are isolated.
        cache: Where compiled kernels and baselines are kept.
        scratch: A folder for files that last as long as this.
        memo: What is known already.
        at_once: Judges at work at once, whoever asks; as many as there are CPUs if absent.
        open_judges: Judges that are open at most, and not fewer than are at work; each takes two processes with torch in them.
        progress: Told how many candidates are left to be judged, now and then.
        beside: More devices of the same model, which take their share of the tasks.

    Attributes:
        judged: Verdicts so far.
        seconds: What they took, one beside the other, by ``sifting`` and the parts of a verdict.
    """

    def __init__(
        self,
        device: str,
        *,
        isolation: Isolation,
        cache: Path,
        scratch: Path,
        memo: Memo,
        at_once: int | None = None,
        open_judges: int = 48,
        progress: Callable[[int], None] = lambda _: None,
        beside: Sequence[str] = (),
    ) -> None:
        self.device = device
        self._devices = (device, *beside)
        self._isolation, self._cache, self._scratch, self._memo = isolation, cache, scratch, memo
        self._limits = JudgeLimits(quick=QUICK)
        self._at_once = at_once or os.cpu_count() or 1
        self._places = threading.BoundedSemaphore(self._at_once)
        self._most = max(open_judges, self._at_once)
        self._judges: OrderedDict[str, Judge] = OrderedDict()
        self._at_work: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._lock = threading.Lock()
        self._closed = False
        self._left = 0
        self._progress = progress
        self.judged = 0
        self.seconds: Counter[str] = Counter()

    def __enter__(self) -> Desk:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all judges; whoever still waits for one of them learns nothing."""
        self._closed = True
        judges = list(self._judges.values())
        self._judges.clear()
        self._end(judges)

    def leave_others(self) -> None:
        """Judge on the first device alone from now on."""
        with self._lock:
            self._devices = (self.device,)
            gone = [name for name, judge in self._judges.items() if judge.spec.device != self.device]
            judges = [self._judges.pop(name) for name in gone if not self._at_work[name].locked()]
        self._end(judges)

    def judge(self, asked: Sequence[Asked]) -> list[Outcome]:
        """Return what each answer comes to, in order; what is not known yet is judged, several tasks side by side.

        An outcome without a reward is one that the machine left no verdict on, try after try.

        Raises:
            TaskError: A task cannot be used.
            EnvironmentFault: The machine lacks what judging takes.
        """
        self._memo.refresh()
        found: dict[Asked, Outcome] = {}
        keys: dict[Asked, str] = {}
        unknown: dict[str, tuple[Task, dict[str, Files]]] = {}
        for task, answer in dict.fromkeys((task, answer) for task, answer in asked):
            try:
                files = task.candidate(answer)
            except NoAnswer as nothing:
                found[task, answer] = Outcome(-1, str(nothing))
                continue
            key = keys[task, answer] = key_of(task, files, self.device, asdict(QUICK))
            if self._memo.get(key) is None:
                unknown.setdefault(task.name, (task, {}))[1][key] = files
        unjudged = self._judge_all([*unknown.values()])
        for each, key in keys.items():
            found[each] = self._memo.get(key) or unjudged[key]
        return [found[each] for each in asked]

    def _judge_all(self, unknown: Sequence[_Unknown]) -> dict[str, Outcome]:
        """Judge candidates by task, and return the outcomes of those that no verdict could be had on, by key.

        First it is seen which are right, of all of them side by side, and then how fast those are: what is timed has the
        device alone, and all others wait whenever one is.
        """
        self._left = sum(len(candidates) for _, candidates in unknown)
        sifted = self._each(unknown, self._sift)
        right = [(task, left) for (task, _), left in zip(unknown, sifted, strict=True) if left]
        unjudged: dict[str, Outcome] = {}
        for found in self._each(right, self._time):
            unjudged |= found
        return unjudged

    def _each(
        self, unknown: Sequence[_Unknown], work: Callable[[Task, dict[str, Files]], dict[str, Found]]
    ) -> list[dict[str, Found]]:
        """Do some work for each task, several side by side, no more at a time than there may be judges."""

        def in_place(task: Task, candidates: dict[str, Files]) -> dict[str, Found]:
            with self._places:
                try:
                    return work(task, candidates)
                except Exception:
                    self._refuse_closed()  # whatever broke, it broke because its judge was ended under it
                    raise

        found = []
        for start in range(0, len(unknown), self._most):
            with ThreadPoolExecutor(self._at_once, thread_name_prefix="judge") as threads:
                working = [threads.submit(in_place, *each) for each in unknown[start : start + self._most]]
                try:
                    for each in working:
                        self._progress(self._left)
                        found.append(each.result())
                except BaseException:
                    threads.shutdown(wait=False, cancel_futures=True)
                    raise
        return found

    def _sift(self, task: Task, candidates: dict[str, Files]) -> dict[str, Files]:
        """Judge those candidates that are wrong, and return the others, by key."""
        others: dict[str, Files] = {}
        for key, files in candidates.items():
            with self._at_work[task.name]:
                if self._memo.get(key):  # another thread asked for the same meanwhile
                    continue
                self._refuse_closed()
                folder = self._written(task, files)
                try:
                    judge, began = self._opened(task), time.monotonic()
                    wrong = judge.study(folder, lambda study: study.quietly().trial().ready())
                    self._spent(sifting=time.monotonic() - began)
                except EnvironmentFault:
                    wrong = ""
                if wrong:
                    self._keep(key, task, Outcome(FAILED, wrong, tier="quick"))
                else:
                    others[key] = files
        return others

    def _time(self, task: Task, candidates: dict[str, Files]) -> dict[str, Outcome]:
        """Judge candidates that are right as far as was seen, and return the outcomes of those without a verdict."""
        unjudged: dict[str, Outcome] = {}
        for key, files in candidates.items():
            with self._at_work[task.name]:
                if self._memo.get(key):
                    continue
                self._refuse_closed()
                outcome = self._verdict(task, files)
                self._keep(key, task, outcome)
                if outcome.reward is None:
                    unjudged[key] = outcome
        return unjudged

    def _keep(self, key: str, task: Task, outcome: Outcome) -> None:
        self._memo.keep(key, task, outcome)
        with self._lock:
            self.judged += 1
            self._left -= 1

    def _spent(self, **seconds: float) -> None:
        with self._lock:
            self.seconds.update(seconds)

    def _written(self, task: Task, files: Files) -> Path:
        return write_snapshot(files, self._scratch / task.name / "candidate")

    def _refuse_closed(self) -> None:
        if self._closed:
            raise EnvironmentFault("The judges are closed.")

    def _verdict(self, task: Task, files: Files) -> Outcome:
        """Judge a candidate, again where the machine was disturbed or at fault."""
        folder = self._written(task, files)
        for _ in range(_TRIES):
            judge = self._opened(task)
            try:
                verdict = judge.check(folder, "quick")
                outcome = Outcome.of(verdict)
                self._spent(**asdict(verdict.seconds))
            except EnvironmentFault as fault:
                outcome = Outcome(None, fault.what)
                with self._lock:
                    self._judges.pop(task.name, None)
                judge.close()
            if outcome.reward is not None or self._closed:
                break
        return outcome

    def _opened(self, task: Task) -> Judge:
        """Return the judge of a task whose lock is held."""
        with self._lock:
            judge = self._judges.get(task.name)
            if judge is not None:
                self._judges.move_to_end(task.name)
                return judge
            device = self._devices[len(self._judges) % len(self._devices)]
            judge = self._judges[task.name] = Judge(
                self._spec(task, device),
                isolation=self._isolation,
                cache=self._cache,
                scratch=self._scratch / task.name / "judge",
                limits=self._limits,
            )
            spare = self._spare()
        self._end(spare)
        try:
            judge.open()
        except BaseException:
            with self._lock:
                self._judges.pop(task.name, None)
            raise
        return judge

    def _spare(self) -> list[Judge]:
        """Take out the judges of tasks that nobody works on, the longest unused first, until there are no more than may be."""
        found = []
        for name in [*self._judges]:
            if len(self._judges) <= self._most:
                break
            if not self._at_work[name].locked():
                found.append(self._judges.pop(name))
        return found

    def _end(self, judges: Sequence[Judge]) -> None:
        with ThreadPoolExecutor(max(1, len(judges))) as threads:
            for judge in judges:
                judge.give_up()
                threads.submit(judge.close)

    def _spec(self, task: Task, device: str) -> TaskSpec:
        folder = self._scratch / task.name / "task"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "reference.py"
        path.write_text(task.source)
        python = Path(sys.executable)
        return TaskSpec("kernelbench", path, "Model", path.stem, folder, python, device=device)


def shares(outcomes: Sequence[Outcome]) -> dict[str, float | None]:
    """Return the shares of rewards among outcomes, as numbers of a step: ``wrong``, ``plain``, ``faster``, ``fastest``."""
    counts = Counter(outcome.reward for outcome in outcomes)
    names = {-1: "wrong", 1: "plain", 2: "faster", 3: "fastest"}
    return {name: counts[reward] / len(outcomes) for reward, name in names.items()} if outcomes else {}

"""The judges of single-turn tasks, one a task, side by side; each distinct candidate is judged once."""

from __future__ import annotations

import os
import sys
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from types import TracebackType

from sandbox.errors import EnvironmentFault
from sandbox.isolation import Isolation
from sandbox.judge import Judge
from sandbox.judge_limits import JudgeLimits, TierLimits
from sandbox.snapshot import write_snapshot
from sandbox.task import TaskSpec
from trainer.tasks.memo import Memo, Outcome, key_of
from trainer.tasks.task import Files, NoAnswer, Task

Asked = tuple[Task, str]
"""A task and a whole answer to it, its opening included."""

QUICK = TierLimits(cases=5, placements=3, profile_seconds=1.2, pairs=100, least_pairs=6, more_placements=2)
"""A quick verdict with the three placements that a reward of training takes at least."""
_TRIES = 3
"""Times that a candidate is judged whose verdict says nothing, because the machine was disturbed."""


class Desk:
    """Judges answers; a context manager that ends all judges when it is left.

    Args:
        device: ``cpu`` or ``cuda:N``, resolved.
        isolation: How candidates are isolated.
        cache: Where compiled kernels and baselines are kept.
        scratch: A folder for files that last as long as this.
        memo: What is known already.
        at_once: Judges at work at once; as many as there are CPUs if absent.
        open_judges: Judges that are open at most, and not fewer than are at work; each takes two processes with torch in them.
        progress: Told how many candidates are left to be judged, now and then.
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
    ) -> None:
        self.device = device
        self._isolation, self._cache, self._scratch, self._memo = isolation, cache, scratch, memo
        self._limits = JudgeLimits(quick=QUICK)
        self._at_once = at_once or os.cpu_count() or 1
        self._most = max(open_judges, self._at_once)
        self._judges: OrderedDict[str, Judge] = OrderedDict()
        self._progress = progress
        self.judged = 0

    def __enter__(self) -> Desk:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all judges."""
        while self._judges:
            self._judges.popitem()[1].close()

    def judge(self, asked: Sequence[Asked]) -> list[Outcome]:
        """Return what each answer comes to, in order; what is not known yet is judged, several tasks side by side.

        Raises:
            TaskError: A task cannot be used.
            EnvironmentFault: The machine is at fault, or too busy for a verdict.
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
        self._judge_all([*unknown.values()])
        return [found[each] if each in found else self._known(keys[each]) for each in asked]

    def _known(self, key: str) -> Outcome:
        outcome = self._memo.get(key)
        assert outcome is not None  # it was judged just now
        return outcome

    def _judge_all(self, unknown: Sequence[tuple[Task, dict[str, Files]]]) -> None:
        left = sum(len(candidates) for _, candidates in unknown)
        for start in range(0, len(unknown), self._most):  # no more tasks at a time than there may be judges
            together = unknown[start : start + self._most]
            self._make_room({task.name for task, _ in together})
            with ThreadPoolExecutor(self._at_once, thread_name_prefix="judge") as threads:
                working = [threads.submit(self._judge_task, task, candidates) for task, candidates in together]
                try:
                    for (_, candidates), work in zip(together, working, strict=True):
                        self._progress(left)
                        work.result()
                        left -= len(candidates)
                except BaseException:
                    threads.shutdown(wait=False, cancel_futures=True)
                    raise

    def _judge_task(self, task: Task, candidates: dict[str, Files]) -> None:
        judge = self._opened(task)
        for key, files in candidates.items():
            folder = write_snapshot(files, self._scratch / task.name / "candidate")
            for _ in range(_TRIES):
                outcome = Outcome.of(judge.check(folder, "quick"))
                if outcome.reward is not None:
                    break
            else:
                raise EnvironmentFault(
                    f"No verdict in {_TRIES} tries: {outcome.reason}",
                    where=task.name,
                    next_step="Let nothing else use the device, and go on with the same command.",
                )
            self._memo.keep(key, task, outcome)
            self.judged += 1

    def _opened(self, task: Task) -> Judge:
        judge = self._judges.get(task.name)
        if judge is None:
            judge = Judge(
                self._spec(task),
                isolation=self._isolation,
                cache=self._cache,
                scratch=self._scratch / task.name / "judge",
                limits=self._limits,
            )
            judge.open()
            self._judges[task.name] = judge
        return judge

    def _spec(self, task: Task) -> TaskSpec:
        folder = self._scratch / task.name / "task"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "reference.py"
        path.write_text(task.source)
        python = Path(sys.executable)
        return TaskSpec("kernelbench", path, "Model", path.stem, folder, python, device=self.device)

    def _make_room(self, needed: set[str]) -> None:
        """End judges that are not needed, the longest unused first, so that those that are may be opened."""
        for name in needed & self._judges.keys():
            self._judges.move_to_end(name)
        spare = [name for name in self._judges if name not in needed]
        new = len(needed - self._judges.keys())
        for name in spare[: max(0, len(self._judges) + new - self._most)]:
            self._judges.pop(name).close()


def shares(outcomes: Sequence[Outcome]) -> dict[str, float | None]:
    """Return the shares of rewards among outcomes, as numbers of a step: ``wrong``, ``plain``, ``faster``, ``fastest``."""
    counts = Counter(outcome.reward for outcome in outcomes)
    names = {-1: "wrong", 1: "plain", 2: "faster", 3: "fastest"}
    return {name: counts[reward] / len(outcomes) for reward, name in names.items()} if outcomes else {}

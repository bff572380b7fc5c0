"""The command line of the experiment; see the package."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from agent.settings import load_settings
from sandbox.isolation import best_isolation
from sandbox.judge_version import judge_version
from sandbox.machine.devices import resolve_device
from tests.gpu.learning import baselines
from tests.gpu.learning.experiment import VARIANTS, Experiment, OutOfTime, Sizes, Variant
from tests.gpu.learning.results import Results, draw_curves, show
from tests.gpu.learning.sharing import SharedDesk, serve
from trainer.run.processes import started
from trainer.tasks.judging import Desk
from trainer.tasks.memo import Memo, machine_of
from trainer.tasks.rows import practice
from trainer.tasks.task import Task

_SIZES = ("steps", "each", "collected", "shown", "every")
_EVERY = 20.0
_GRACE = 10.0
"""Seconds that a run which is in the midst of something has after the end."""


def main() -> int:
    """Do the runs that are asked for and not done yet, then print what is known."""
    options = _parser().parse_args()
    results = Results(options.folder / "results.jsonl")
    if options.draw:
        draw_curves(results, options.draw)
        return 0
    if not options.table:
        _take(options, results)
    show(results)
    return 0


def _take(options: argparse.Namespace, results: Results) -> None:
    began = time.monotonic()
    ending = began + 60 * options.minutes
    judging, *beside = [resolve_device(device) for device in options.judge_on]
    settings = load_settings({})
    memo = Memo(options.folder / "judged.jsonl")
    results.add("machine", device=machine_of(judging), judge=judge_version(), cpus=os.cpu_count(), known=len(memo))
    with (
        tempfile.TemporaryDirectory(prefix="warpsmith-learning-") as scratch,
        Desk(
            judging,
            isolation=best_isolation(settings.isolation or None),
            cache=settings.cache,
            scratch=Path(scratch),
            memo=memo,
            at_once=options.judges,
            open_judges=options.open_judges,
            beside=beside,
        ) as desk,
        _reporting(lambda: f"{time.monotonic() - began:.0f} s: {desk.judged} judged, {len(memo)} known"),
    ):
        trained, held_out = practice(judging)[:: options.thin], practice(judging, held_out=True)[:: options.thin]
        good = baselines.told_apart(desk, [*held_out, *trained], results)
        print(f"known answers: {time.monotonic() - began:.0f} s, {desk.judged} judged", flush=True)
        trained, held_out = [task for task in trained if task in good], [task for task in held_out if task in good]
        runs = Runs(options, desk, trained, held_out, results, Path(scratch), ending)
        runs.start()
        if len([*results.lines("baseline")]) < baselines.COUNT:
            baselines.take(desk, trained, held_out, results)
        runs.finish()


class Runs:
    """Runs as processes, some at once; each asks the desk in a thread of its own here."""

    def __init__(
        self,
        options: argparse.Namespace,
        desk: Desk,
        trained: list[Task],
        held_out: list[Task],
        results: Results,
        scratch: Path,
        ending: float,
    ) -> None:
        self._options, self._desk, self._tasks = options, desk, (trained, held_out)
        self._results, self._scratch, self._ending = results, scratch, ending
        wanted = options.runs or [variant.run for variant in VARIANTS]
        self._left = [variant for variant in VARIANTS if variant.run in wanted and variant.run not in results.done()]
        self._working: list[BaseProcess] = []
        self._begun = 0

    def start(self) -> None:
        """Start as many as may be at once."""
        while self._left and len(self._working) < self._options.at_once:
            self._start(self._left.pop(0))

    def finish(self) -> None:
        """Start the others as the first end, and wait until all have ended or the time is over."""
        while self._working and time.monotonic() < self._ending + _GRACE:
            wait([process.sentinel for process in self._working], timeout=1.0)
            self._working = [process for process in self._working if process.is_alive()]
            if time.monotonic() < self._ending - 60 * self._options.least_minutes:
                self.start()
        for process in self._working:
            process.kill()

    def _start(self, variant: Variant) -> None:
        trained, held_out = self._tasks
        here, there = Pipe()
        device = resolve_device(self._options.learn_on[self._begun % len(self._options.learn_on)])
        self._begun += 1
        names = [[task.name for task in tasks] for tasks in self._tasks]
        process = get_context("spawn").Process(
            target=_run,
            args=(variant, device, there, self._options, names, self._scratch, self._results.path, self._ending),
        )
        process.start()
        there.close()
        self._working.append(process)
        tasks = {task.name: task for task in [*trained, *held_out]}
        threading.Thread(target=serve, args=(here, self._desk, tasks), daemon=True).start()


def _run(
    variant: Variant,
    device: str,
    pipe: Connection,
    options: argparse.Namespace,
    names: list[list[str]],
    scratch: Path,
    results: Path,
    ending: float,
) -> None:
    """Do a run, in a process of its own."""
    tasks = {task.name: task for held_out in (False, True) for task in practice(device, held_out)}
    trained, held_out = ([tasks[name] for name in some] for some in names)
    asked = {name: number for name, number in vars(options).items() if name in _SIZES and number}
    with started(device) as processes:
        desk, sizes = SharedDesk(device, pipe), replace(Sizes(), **asked)
        experiment = Experiment(
            options.model, scratch, processes, desk, trained, held_out, Results(results), ending, sizes
        )
        began = time.monotonic()
        try:
            experiment.run(variant)
            print(f"{variant.run}: {time.monotonic() - began:.0f} s", flush=True)
        except OutOfTime:
            print(f"{variant.run}: the time is over; what was judged is kept", flush=True)


@contextmanager
def _reporting(tell: Callable[[], str]) -> Iterator[None]:
    """Print how far it is, again and again."""
    ended = threading.Event()

    def report() -> None:
        while not ended.wait(_EVERY):
            print(f"--- {tell()}", flush=True)

    threading.Thread(target=report, daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.learning", description="Learning is real.")
    parser.add_argument("--model", type=Path, help="folder of the start model, in transformers' form")
    parser.add_argument("--judge-on", nargs="+", default=["auto"], help="auto, cpu, or cuda:N, several of one model")
    parser.add_argument("--learn-on", nargs="+", default=["auto"], help="the runs take turns with several")
    parser.add_argument("--at-once", type=int, default=1, help="runs")
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent, help="of results.jsonl and judged.jsonl")
    parser.add_argument("--runs", nargs="+", choices=[variant.run for variant in VARIANTS], help="default: all")
    parser.add_argument("--least-minutes", type=float, default=2.0, help="that must be left for another run to begin")
    parser.add_argument("--thin", type=int, default=1, help="take every so many-th task only")
    parser.add_argument("--steps", type=int, help="of PPO")
    parser.add_argument("--each", type=int, help="answers to each task of a step")
    parser.add_argument("--collected", type=int, help="answers to each task that fine-tuning chooses from")
    parser.add_argument("--shown", type=int, help="answers to each task that is held out")
    parser.add_argument("--every", type=int, help="steps between evaluations")
    parser.add_argument("--judges", type=int, help="at work at once; default: one for each CPU")
    parser.add_argument("--open-judges", type=int, default=40, help="that stay open, two processes each")
    parser.add_argument("--table", action="store_true", help="only print what is known")
    parser.add_argument("--draw", type=Path, metavar="FILE", help="only draw the curves")
    return parser


if __name__ == "__main__":
    sys.exit(main())

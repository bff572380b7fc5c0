"""The runs of the experiment as processes, some at once, with one desk for all of them."""

from __future__ import annotations

import argparse
import threading
import time
from dataclasses import replace
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch

from tests.gpu.learning.experiment import VARIANTS, Experiment, OutOfTime, Sizes, Variant
from tests.gpu.learning.results import Results
from tests.gpu.learning.sharing import SharedDesk, serve
from trainer.run.processes import started
from trainer.tasks.judging import Desk
from trainer.tasks.rows import practice
from trainer.tasks.task import Task

SIZES = ("steps", "each", "collected", "shown", "every")
"""Options that change ``Sizes``."""
_THREADS = 2
"""Of a run on the CPU; many runs and compilers share it."""
_GRACE = 10.0
"""Seconds that a run which is in the midst of something has after the end."""


class Runs:
    """Runs as processes on one device, some at once; each asks the desk in a thread of its own here."""

    def __init__(
        self, options: argparse.Namespace, device: str, desk: Desk, results: Results, scratch: Path, ending: float
    ) -> None:
        self._options, self._device, self._desk, self._results = options, device, desk, results
        self._scratch, self._ending = scratch, ending
        wanted = options.runs or [variant.run for variant in VARIANTS]
        self._left = [variant for variant in VARIANTS if variant.run in wanted and variant.run not in results.done()]
        self._tasks: tuple[list[Task], list[Task]] | None = None
        self._working: list[tuple[BaseProcess, Connection]] = []

    def __enter__(self) -> Runs:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        for process, _pipe in self._working:
            process.kill()

    def start(self) -> None:
        """Start as many as may be at once; they load until they are told the tasks."""
        while self._left and len(self._working) < self._options.at_once:
            self._start(self._left.pop(0))

    def go(self, trained: list[Task], held_out: list[Task]) -> None:
        """Tell those that wait the tasks."""
        self._tasks = trained, held_out
        for _, pipe in self._working:
            self._serve(pipe)

    def finish(self) -> None:
        """Start the others as the first end, and wait until all have ended or the time is over."""
        while self._working and time.monotonic() < self._ending + _GRACE:
            wait([process.sentinel for process, _ in self._working], timeout=1.0)
            self._working = [(process, pipe) for process, pipe in self._working if process.is_alive()]
            if time.monotonic() < self._ending - 60 * self._options.least_minutes:
                self.start()

    def _start(self, variant: Variant) -> None:
        here, there = Pipe()
        process = get_context("spawn").Process(
            target=_run,
            args=(variant, self._device, there, self._options, self._scratch, self._results.path, self._ending),
        )
        process.start()
        there.close()
        self._working.append((process, here))
        if self._tasks:
            self._serve(here)

    def _serve(self, pipe: Connection) -> None:
        assert self._tasks is not None  # whoever calls has seen to it
        pipe.send([[task.name for task in tasks] for tasks in self._tasks])
        known = {task.name: task for tasks in self._tasks for task in tasks}
        threading.Thread(target=serve, args=(pipe, self._desk, known), daemon=True).start()


def _run(
    variant: Variant,
    device: str,
    pipe: Connection,
    options: argparse.Namespace,
    scratch: Path,
    results: Path,
    ending: float,
) -> None:
    """Do a run, in a process of its own."""
    torch.set_num_threads(_THREADS)
    asked = {name: number for name, number in vars(options).items() if name in SIZES and number}
    with started(device) as processes:
        experiment = Experiment(
            options.model,
            scratch,
            processes,
            SharedDesk(device, pipe),
            Results(results),
            ending,
            replace(Sizes(), **asked),
        )
        began = time.monotonic()
        try:
            experiment.run(variant, lambda: _tasks(device, pipe))
            print(f"{variant.run}: {time.monotonic() - began:.0f} s", flush=True)
        except OutOfTime:
            print(f"{variant.run}: the time is over; what was judged is kept", flush=True)


def _tasks(device: str, pipe: Connection) -> list[list[Task]]:
    """Wait for the names of the tasks, and return those of training and those that are held out."""
    known = {task.name: task for held_out in (False, True) for task in practice(device, held_out)}
    return [[known[name] for name in names] for names in pipe.recv()]

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
from pathlib import Path

from agent.settings import load_settings
from sandbox.isolation import best_isolation
from sandbox.judge_version import judge_version
from sandbox.machine.devices import resolve_device
from tests.gpu.learning import baselines
from tests.gpu.learning.experiment import VARIANTS
from tests.gpu.learning.results import Results, draw_curves, show
from tests.gpu.learning.runs import Runs
from trainer.tasks.judging import Desk
from trainer.tasks.memo import Memo, machine_of
from trainer.tasks.rows import practice

_EVERY = 20.0


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
    judging, learning = resolve_device(options.judge_on), resolve_device(options.learn_on)
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
            beside=[learning] if learning != judging else [],
        ) as desk,
        _reporting(lambda: f"{time.monotonic() - began:.0f} s: {_told(desk)}, {len(memo)} known"),
        Runs(options, learning, desk, results, Path(scratch), ending) as runs,
    ):
        trained, held_out = practice(judging)[:: options.thin], practice(judging, held_out=True)[:: options.thin]
        good = baselines.told_apart(desk, [*held_out, *trained], results)
        print(f"known answers: {time.monotonic() - began:.0f} s, {desk.judged} judged", flush=True)
        trained, held_out = [task for task in trained if task in good], [task for task in held_out if task in good]
        desk.leave_others()
        runs.go(trained, held_out)
        if options.baselines:
            baselines.take(desk, trained, held_out, results)
        runs.finish()


def _told(desk: Desk) -> str:
    seconds = ", ".join(f"{part} {spent:.0f} s" for part, spent in desk.seconds.items())
    return f"{desk.judged} judged ({seconds})"


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
    parser.add_argument("--judge-on", default="auto", help="auto, cpu, or cuda:N")
    parser.add_argument("--learn-on", default="auto", help="known answers are judged there too, before anybody learns")
    parser.add_argument("--at-once", type=int, default=1, help="runs")
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent, help="of results.jsonl and judged.jsonl")
    parser.add_argument("--runs", nargs="+", choices=[variant.run for variant in VARIANTS], help="default: all")
    parser.add_argument("--least-minutes", type=float, default=2.0, help="that must be left for another run to begin")
    parser.add_argument("--no-baselines", dest="baselines", action="store_false", help="another process takes them")
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

"""The command line of the experiment; see the package."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from agent.settings import load_settings
from sandbox.isolation import best_isolation
from sandbox.judge_version import judge_version
from sandbox.machine.devices import resolve_device
from tests.gpu.learning import baselines
from tests.gpu.learning.experiment import VARIANTS, Experiment, OutOfTime, Sizes
from tests.gpu.learning.results import Results, draw_curves, show
from trainer.run.processes import started
from trainer.tasks.judging import Desk
from trainer.tasks.memo import Memo, machine_of
from trainer.tasks.rows import practice

_SPARE = 1.1


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
    ending = time.monotonic() + 60 * options.minutes
    device = resolve_device(options.device)
    settings = load_settings({})
    memo = Memo(options.folder / "judged.jsonl")
    results.add("machine", device=machine_of(device), judge=judge_version(), cpus=os.cpu_count(), known=len(memo))
    with (
        tempfile.TemporaryDirectory(prefix="warpsmith-learning-") as scratch,
        started(device) as processes,
        Desk(
            device,
            isolation=best_isolation(settings.isolation or None),
            cache=settings.cache,
            scratch=Path(scratch),
            memo=memo,
            at_once=options.judges,
            open_judges=options.open_judges,
            progress=lambda left: print(f"    {left} to judge", flush=True),
        ) as desk,
    ):
        trained, held_out = practice(device)[: options.tasks], practice(device, held_out=True)[: options.tasks]
        began = time.monotonic()
        good = baselines.told_apart(desk, [*held_out, *trained], results)
        print(f"known answers: {time.monotonic() - began:.0f} s, {desk.judged} judged", flush=True)
        trained, held_out = [task for task in trained if task in good], [task for task in held_out if task in good]
        if not any(results.lines("baseline")):
            baselines.take(desk, trained, held_out, results)
        sizes = replace(
            Sizes(), **{name: number for name, number in vars(options).items() if name in _SIZES and number}
        )
        experiment = Experiment(options.model, processes, desk, trained, held_out, results, ending, sizes)
        longest = 0.0
        for variant in VARIANTS:
            if variant.run in results.done() or (options.runs and variant.run not in options.runs):
                continue
            began = time.monotonic()
            if began + _SPARE * longest > ending:
                print(f"{variant.run}: too little time is left", flush=True)
                break
            try:
                experiment.run(variant)
            except OutOfTime:
                print(f"{variant.run}: the time is over; what was judged is kept", flush=True)
                break
            longest = max(longest, time.monotonic() - began)
            print(f"{variant.run}: {time.monotonic() - began:.0f} s, {desk.judged} judged so far", flush=True)


_SIZES = ("steps", "each", "collected", "every")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.learning", description="Learning is real.")
    parser.add_argument("--model", type=Path, help="folder of the start model, in transformers' form")
    parser.add_argument("--device", default="auto", help="auto, cuda:N or cpu")
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent, help="of results.jsonl and judged.jsonl")
    parser.add_argument("--runs", nargs="+", choices=[variant.run for variant in VARIANTS], help="default: all")
    parser.add_argument("--tasks", type=int, help="of each kind at most")
    parser.add_argument("--steps", type=int, help="of PPO")
    parser.add_argument("--each", type=int, help="answers to each task of a step")
    parser.add_argument("--collected", type=int, help="answers to each task that fine-tuning chooses from")
    parser.add_argument("--every", type=int, help="steps between evaluations")
    parser.add_argument("--judges", type=int, help="at work at once; default: one for each CPU")
    parser.add_argument("--open-judges", type=int, default=28, help="that stay open, two processes each")
    parser.add_argument("--table", action="store_true", help="only print what is known")
    parser.add_argument("--draw", type=Path, metavar="FILE", help="only draw the curves")
    return parser


if __name__ == "__main__":
    sys.exit(main())

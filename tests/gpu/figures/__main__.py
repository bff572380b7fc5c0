"""The command line of the figures; see the package."""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import time
from pathlib import Path

from sandbox.errors import WarpsmithError
from sandbox.machine.devices import resolve_device, visible_gpus
from tests.gpu.figures.campaign import ENOUGH, Campaign
from tests.gpu.figures.nsight import compare
from tests.gpu.figures.results import CPU_RESULTS, GPU_RESULTS, Results
from tests.gpu.figures.summary import tables

FIGURES = ("aa8", "aa20", "power", "ncu")


def main() -> int:
    """Take the figures that are asked for, then print what is known."""
    options = _parser().parse_args()
    device = options.device if options.device == "all" else resolve_device(options.device)
    results = Results(options.results or (CPU_RESULTS if device == "cpu" else GPU_RESULTS))
    if options.add:
        print(f"{results.take_over(Results(options.add).lines())} lines are new")
    elif device == "all" and not options.table:
        _on_every_gpu(options, results.path)
    elif not options.table:
        with contextlib.suppress(KeyboardInterrupt):  # what was taken until then is written, and shown
            _take(options, device, results)
    print(tables(results.lines()))
    return 0


def _take(options: argparse.Namespace, device: str, results: Results) -> None:
    """Share the minutes among the figures; what one does not use the next has."""
    ending = time.monotonic() + 60 * options.minutes
    campaign = Campaign(results, device, options.load, options.tiers, options.enough)
    figures = [figure for figure in options.figures or FIGURES if figure != "ncu" or device != "cpu"]
    for number, figure in enumerate(figures):
        left = ending - time.monotonic()
        if left <= 0:
            print(f"{figure}: no time is left", flush=True)
            continue
        try:
            if figure == "ncu":
                compare(results, device, left / (len(figures) - number))
            else:
                campaign.take(figure, left / (len(figures) - number))
        except WarpsmithError as error:
            print(f"{figure}: {error}", flush=True)


def _on_every_gpu(options: argparse.Namespace, path: Path) -> None:
    """Run this command once for each GPU, all writing to one file; one load after the other, for it is the whole machine's."""
    for name in options.load:
        arguments = [*options.figures, "--minutes", str(options.minutes / len(options.load)), "--load", name]
        arguments += ["--tiers", *options.tiers, "--enough", str(options.enough), "--results", str(path)]
        command = [sys.executable, "-W", "ignore", "-m", "tests.gpu.figures", *arguments]
        numbers = range(len(visible_gpus()))
        running = [subprocess.Popen([*command, "--device", f"cuda:{number}"]) for number in numbers]
        for process in running:
            process.wait()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.figures", description="Figures the judge must show.")
    parser.add_argument("figures", nargs="*", choices=[*FIGURES, []], help="default: all")
    parser.add_argument("--minutes", type=float, default=18.0)
    parser.add_argument("--device", default="auto", help="auto, cuda:N, cpu, or all: one run on each GPU")
    parser.add_argument("--load", nargs="+", choices=["quiet", "busy"], default=["quiet", "busy"])
    parser.add_argument("--tiers", nargs="+", choices=["full", "quick"], default=["full", "quick"])
    parser.add_argument("--enough", type=int, default=ENOUGH, help="trials of each kind after which no more are taken")
    parser.add_argument("--results", type=Path, help="file of the lines; default: results.jsonl of this package")
    parser.add_argument("--add", type=Path, metavar="FILE", help="take over the lines of a run on another machine")
    parser.add_argument("--table", action="store_true", help="only print what is known")
    return parser


if __name__ == "__main__":
    sys.exit(main())

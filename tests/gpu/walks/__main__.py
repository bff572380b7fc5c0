"""Modules of public packages on the whole way, each by the commands a developer types; a table of figures for each.

    python -m tests.gpu.walks --out FOLDER                         all of them, on the first GPU, one after the other
    python -m tests.gpu.walks --out FOLDER --devices cuda:0 cuda:1 at once, one a device
    python -m tests.gpu.walks --out FOLDER --devices cpu --python VENV/bin/python llama filterresponsenorm

For each: its tests, ``hotspots`` of its script, the capture, a session with a played model, the landing in a clone, its tests,
``hotspots --compare``, undo. Exit code 0: every walk came to its end. ``FOLDER/NAME/log.txt`` holds what each command said,
``table.txt`` the figures as far as they are known, from the first step on.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from tests.gpu.walks.walk import PLANS, Stopped, Walk


def main() -> int:
    """Walk what was asked for, and print each walk's table once its figures are known."""
    options = _parser().parse_args()
    plans: SimpleQueue = SimpleQueue()
    kind = options.devices[0].partition(":")[0]
    for plan in PLANS:
        if kind in plan.command and (plan.name in options.names or not options.names):
            plans.put(plan)
    walks: list[Walk] = []
    stopped: dict[str, str] = {}

    def work(device: str) -> None:
        while True:
            try:
                plan = plans.get_nowait()
            except Empty:
                return
            folder = (options.out / plan.name).resolve()
            folder.mkdir(parents=True)
            walk = Walk(plan, folder, options.python, device, options.seconds)
            walks.append(walk)
            try:
                for step in walk.go():  # whoever ends it before its end has what is known by then
                    table = _write(walk, f"so far: {step} is done")
                    if step == "compare":
                        print(table, flush=True)
                _write(walk, "tests green before and after, undone to the byte")
                print(f"{plan.name}: tests green before and after, undone to the byte", flush=True)
            except Stopped as reason:
                stopped[plan.name] = str(reason)
                print(_write(walk, f"STOPPED: {reason}"), flush=True)

    workers = [threading.Thread(target=work, args=(device,)) for device in options.devices]
    began = time.monotonic()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print(f"{len(walks) - len(stopped)} of {len(walks)} came to their end in {time.monotonic() - began:.0f} s")
    return 1 if stopped else 0


def _write(walk: Walk, how: str) -> str:
    """Write a walk's table into its folder, and return it."""
    table = "\n".join(_lines(walk, how))
    (walk.folder / "table.txt").write_text(f"{table}\n")
    return table


def _lines(walk: Walk, how: str) -> Iterator[str]:
    yield f"{walk.plan.class_name} of {walk.plan.package} on {walk.before.get('device', walk.device)}"
    if walk.verdict:
        gains = {name: f"{r:.2f} [{low:.2f}, {high:.2f}]" for name, (r, low, high) in walk.verdict["speedup"].items()}
        yield f"  verdict of what landed  reward {walk.verdict.get('reward')}, times as fast: {json.dumps(gains)}"
    if walk.comparison:
        yield from _compared(walk.comparison, walk.plan.class_name)
    yield f"  seconds                 {json.dumps({name: round(took) for name, took in walk.took.items()})}"
    yield f"  {how}"


def _compared(told: dict[str, Any], class_name: str) -> Iterator[str]:
    counts = {name: {key: one[key] for key in ("fused", "original")} for name, one in told["landings"].items()}
    yield f"  calls                   {json.dumps(counts)}"
    yield f"  said                    {' '.join([told['conclusion'], *told['notes']])}"
    for each in told["classes"]:
        if each["name"] == class_name and None not in each.values():
            yield f"  share of the time       {each['share_before']:.1%} before, {each['share_now']:.1%} now"
            yield f"  its forward call        {each['call_us_before']:.1f} us before, {each['call_us_now']:.1f} us now"
    if told["speedup"]:
        interval = f"[{told['low']:.3f}, {told['high']:.3f}]" if told["low"] else "(too few stretches for an interval)"
        yield f"  a step                  {told['step_ms_before']:.3f} ms before, {told['step_ms_now']:.3f} ms now"
        yield f"  steps                   {told['speedup']:.3f} {interval} times as fast"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.gpu.walks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", choices=[*(plan.name for plan in PLANS), []], help="which (default: all)")
    parser.add_argument("--out", type=Path, required=True, help="a new folder")
    parser.add_argument("--devices", nargs="+", default=["cuda:0"], help="cuda:N or cpu; each takes a walk at a time")
    parser.add_argument("--python", default=sys.executable, help="the projects' interpreter")
    parser.add_argument("--seconds", type=float, default=8.0, help="each script is watched for so long")
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""Everything worth seeing on a GPU machine, in order of worth, in a given number of minutes; one command, one summary.

    python -m tests.gpu --minutes 9 --out FOLDER      what one short stay on a machine allows
    python -m tests.gpu --minutes 20 --out FOLDER     the same with more trials
    python -m tests.gpu --only figures kinds          some steps

Each step is a command that also runs alone:

| step | alone |
|---|---|
| ``tests`` | ``python -m pytest -s tests/gpu --deselect tests/gpu/test_kinds.py -m "gpu and not slow"`` |
| ``storm`` | ``python -m tests.storm --device cuda:0 --verdicts 60`` |
| ``figures`` | ``python -m tests.gpu.figures --minutes 9`` |
| ``kinds`` | ``python -m tests.gpu.kinds --minutes 5`` |
| ``bench`` | ``python -m tests.bench --only verdict`` |
| ``candidates`` | ``python -m tests.candidates --device cuda:0 --minutes 8`` |
| ``modules`` | ``python -m pytest -s tests/gpu/test_modules.py`` |

A step prints as it goes, into ``FOLDER/STEP.log`` too, and is ended when its time is up: what it found by then is in
``FOLDER/figures.jsonl`` and ``FOLDER/kinds.jsonl``, which ``--add`` of ``tests.gpu.figures`` takes over.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_SPARE_SECONDS = 30.0


@dataclass(frozen=True)
class Step:
    """One command. ``share`` is its part of the minutes; ``arguments`` may hold ``{minutes}`` and ``{out}``."""

    name: str
    share: float
    arguments: Sequence[str]


STEPS = (
    Step("tests", 0.2, ["pytest", "-q", "-s", "tests/gpu", "-m", "gpu and not slow", "-p", "no:cacheprovider"]),
    Step(
        "storm", 0.3, ["tests.storm", "--device", "cuda:0", "--verdicts", "60", "--seed", "1", "--minutes", "{minutes}"]
    ),
    Step("figures", 0.3, ["tests.gpu.figures", "--minutes", "{minutes}", "--results", "{out}/figures.jsonl"]),
    Step("kinds", 0.1, ["tests.gpu.kinds", "--minutes", "{minutes}", "--results", "{out}/kinds.jsonl"]),
    Step("bench", 0.1, ["tests.bench", "--only", "verdict"]),
    Step("candidates", 0.25, ["tests.candidates", "--device", "cuda:0", "--minutes", "{minutes}"]),
    Step("modules", 0.05, ["pytest", "-q", "-s", "tests/gpu/test_modules.py", "-p", "no:cacheprovider"]),
)


@dataclass(frozen=True)
class Ended:
    """How a step ended: its exit code, or None where its time was up, and the last lines it printed."""

    step: Step
    code: int | None
    seconds: float
    tail: Sequence[str]


def main() -> int:
    """Run the steps, each within its share of what is left, and print how each ended."""
    options = _parser().parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    ending = time.monotonic() + 60 * options.minutes
    steps = [step for step in STEPS if step.name in options.only]
    ended = []
    for number, step in enumerate(steps):
        left = ending - time.monotonic()
        share = step.share / sum(other.share for other in steps[number:])
        if left * share < _SPARE_SECONDS:
            print(f"===== {step.name}: no time is left", flush=True)
            continue
        ended.append(run(step, left * share, options.out))
    print("\n===== summary")
    for one in ended:
        told = "its time was up" if one.code is None else f"exit code {one.code}"
        print(f"{one.step.name:10} {one.seconds:6.0f} s  {told}")
        for line in one.tail:
            print(f"    {line}")
    return 0 if all(one.code in (0, None) for one in ended) else 1


def run(step: Step, seconds: float, out: Path) -> Ended:
    """Run a step for so long at most, showing and keeping what it prints."""
    minutes = f"{max(0.3, (seconds - _SPARE_SECONDS) / 60):.2f}"
    arguments = [argument.replace("{minutes}", minutes).replace("{out}", str(out)) for argument in step.arguments]
    print(f"===== {step.name}: {seconds:.0f} s at most: {' '.join(arguments)}", flush=True)
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        start_new_session=True,
    )
    late = threading.Event()
    timer = threading.Timer(seconds, lambda: (late.set(), _end(process)))
    timer.start()
    lines: list[str] = []
    try:
        assert process.stdout is not None
        with (out / f"{step.name}.log").open("w") as log:
            for line in process.stdout:
                print(line, end="", flush=True)
                log.write(line)
                log.flush()
                lines.append(line.rstrip())
        code = process.wait()
    finally:
        timer.cancel()
        _end(process)
    return Ended(
        step, None if late.is_set() else code, time.monotonic() - began, [line for line in lines if line][-12:]
    )


def _end(process: subprocess.Popen[str]) -> None:
    """Interrupt a step and whatever it started, then kill what did not listen."""
    for number, patience in ((signal.SIGINT, 10.0), (signal.SIGKILL, 5.0)):
        try:
            os.killpg(process.pid, number)
            process.wait(patience)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--only", nargs="+", choices=[step.name for step in STEPS], default=[s.name for s in STEPS])
    parser.add_argument("--out", type=Path, default=Path("build") / "gpu", help="folder for logs and lines")
    return parser


if __name__ == "__main__":
    sys.exit(main())

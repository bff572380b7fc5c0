"""A storm of faults on the judge: every right candidate gets its right verdict, and nothing is left behind.

    python -m tests.storm [--device cpu|cuda:0] [--verdicts 60] [--seed N] [--minutes M] [--only WORDS]
                          [--isolation docker]

Prints a line for each verdict, a table of the kinds of fault, and what was left behind. Exit status 1 if a verdict is not
what it has to be, or if anything is left. `--minutes` is the time for all of it: half a minute before, or when this process is
told to end by SIGTERM, the verdict under way is given up, and what came of the others and what is left behind is printed.

A long one on a CPU (two to four seconds a verdict; on a machine where nothing else runs, or right candidates get no reward,
because their times are not to be trusted):

    python -m tests.storm --verdicts 1000 --minutes 60
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import uuid
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from tests.levels import LOCAL, isolation_named
from tests.storm import leaks
from tests.storm.storm import Outcome, Storm, plan, signal_of

_LAST_SECONDS = 30.0
"""For ending the judge, for what goes by itself meanwhile, and for saying what was left."""


def main() -> int:
    """Storm, and say how it went."""
    options = _parser().parse_args()
    mark = f"storm-{uuid.uuid4().hex[:12]}"
    folder = Path(tempfile.mkdtemp(prefix=f"{mark}-"))
    temporary = folder / "tmp"
    temporary.mkdir()
    os.environ.update({leaks.MARK: mark, "TMPDIR": str(temporary), "WARPSMITH_POOL": str(folder / "pool")})
    tempfile.tempdir = str(temporary)
    folder.chmod(0o755)
    leaks.adopt_orphans()
    before = leaks.Before(mark, [temporary, folder / "scratch"], options.device)
    strikes = [
        strike
        for strike in plan(options.device, options.verdicts, options.seed)
        if not options.only or any(word in f"{strike.made.name} {strike.disturbance}" for word in options.only)
    ]
    print(f"seed {options.seed}: {len(strikes)} verdicts on {options.device}", flush=True)
    outcomes: list[Outcome] = []
    over = _end(max(0.0, 60 * options.minutes - _LAST_SECONDS))
    try:
        isolation = isolation_named(options.isolation) if options.isolation else None
        storm = Storm(folder, options.device, options.seed, mark, isolation)
        for outcome in storm.run(strikes, over):
            outcomes.append(outcome)
            _tell(len(outcomes), outcome)
    finally:
        shutil.rmtree(folder / "project", ignore_errors=True)
        left = before.left()
        shutil.rmtree(folder, ignore_errors=True)
    return _summary(outcomes, left, len(strikes))


def _end(seconds: float) -> threading.Event:
    """Return what is set when the time is up, or when this process is told to end."""
    over = threading.Event()
    timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), over.set)
    timer.daemon = True
    timer.start()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    return over


def _tell(number: int, outcome: Outcome) -> None:
    again = f" [asked again: {len(outcome.asked_again)}]" if outcome.asked_again else ""
    print(
        f"{number:4} {outcome.seconds:5.1f} s  {outcome.reward!s:>4}  {outcome.strike.made.name:34} "
        f"{signal_of(outcome):28} {outcome.reason[:150]}{again}",
        flush=True,
    )
    if outcome.wrong:
        print(f"     WRONG: {outcome.wrong}. {outcome.sent} {outcome.reason} {outcome.asked_again}", flush=True)


def _summary(outcomes: Sequence[Outcome], left: Sequence[str], wanted: int) -> int:
    """Print the table and what was left; return the exit status."""
    kinds: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        kinds[outcome.strike.made.name].append(outcome)
        if outcome.sent:
            kinds[f"... {outcome.strike.disturbance and outcome.strike.disturbance.name}"].append(outcome)
    print(f"\n{'kind':40} verdicts  wrong  asked again  seconds")
    for name, some in sorted(kinds.items()):
        wrong, again = sum(bool(one.wrong) for one in some), sum(bool(one.asked_again) for one in some)
        seconds = sum(one.seconds for one in some) / len(some)
        print(f"{name:40} {len(some):8}  {wrong:5}  {again:11}  {seconds:7.1f}")
    wrong = sum(bool(outcome.wrong) for outcome in outcomes)
    hit = sum(bool(outcome.sent) for outcome in outcomes)
    total = sum(outcome.seconds for outcome in outcomes)
    print(f"\n{len(outcomes)} of {wanted} verdicts in {total:.0f} s, {hit} of them met from outside; {wrong} wrong")
    print("\n".join([f"{len(left)} things left behind", *left]) if left else "nothing was left behind")
    return int(bool(wrong or left or not outcomes))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.storm", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--verdicts", type=int, default=60)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--minutes", type=float, default=600.0, help="for all of it, the summary included")
    parser.add_argument(
        "--only", nargs="*", default=[], help="parts of names of faults, or of what is done from outside"
    )
    parser.add_argument(
        "--isolation", choices=[*LOCAL, "docker"], help="exactly this one; without it, the best there is"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())

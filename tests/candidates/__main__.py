"""The table of cheats: what caught each of them, with the static guard and with it looking away.

    python -m tests.candidates [--device cpu|cuda:0] [--only K09 K10] [--minutes 8] [--isolation docker]

Exit status 1 if a cheat was missed or an honest candidate rejected.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from sandbox.verdict import Verdict
from tests.candidates.cheats.suite import CHEATS
from tests.candidates.frame import Candidate, Judges, caught_by
from tests.candidates.honest.suite import HONEST
from tests.candidates.tasks import TASKS
from tests.levels import LOCAL, isolation_named


def main() -> int:
    """Judge all that have a meaning on the device, in the order of their tasks, and print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", nargs="*", default=[], help="rows of the catalogue, or parts of names")
    parser.add_argument("--minutes", type=float, default=600.0, help="stop after so many")
    parser.add_argument(
        "--isolation", choices=[*LOCAL, "docker"], help="exactly this one; without it, the best there is"
    )
    options = parser.parse_args()
    isolation = isolation_named(options.isolation) if options.isolation else None
    wrong, end = 0, time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory(prefix="candidates-") as folder:
        os.environ.setdefault("WARPSMITH_POOL", f"{folder}/pool")  # not behind whatever else is judged on this machine
        judges = Judges(TASKS, Path(folder), options.device, isolation=isolation)
        try:
            for name, candidate in _chosen(options.device, options.only):
                if time.monotonic() > end:
                    print("The time is up; what follows was not judged.")
                    break
                wrong += not _row(name, candidate, judges)
        finally:
            judges.close()
    print(f"{wrong} of them not as they should be")
    return int(wrong > 0)


def _chosen(device: str, only: list[str]) -> Iterator[tuple[str, Candidate]]:
    everything = sorted({**CHEATS, **HONEST}.items(), key=lambda item: item[1].task)
    for name, candidate in everything:
        if candidate.runs_on(device) and (not only or any(word in name for word in only)):
            yield name, candidate


def _row(name: str, candidate: Candidate, judges: Judges) -> bool:
    """Print a candidate's row; return whether it was judged as it should be."""
    verdict = judges.check(candidate)
    found = caught_by(verdict)
    if not candidate.row:
        print(f"honest  {name:60} {f'REJECTED by {found}: {verdict.reason}' if found else 'passes'}", flush=True)
        return verdict.correct
    beside = _told(judges.check(candidate, guarded=False)) if found.startswith("guard") else "-"
    print(f"cheat   {name:60} {_told(verdict):40} without the static guard: {beside}", flush=True)
    return bool(found)


def _told(verdict: Verdict) -> str:
    """Return what caught a cheat, or what it has from not being caught: times that were disturbed earn nothing."""
    missed = f"MISSED, reward {verdict.reward}" if verdict.reward is not None else "MISSED, without a reward"
    return caught_by(verdict) or missed


if __name__ == "__main__":
    sys.exit(main())

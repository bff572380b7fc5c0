"""Kill the engine at random moments, and see that nothing is lost and every session comes to the same end.

    python -m tests.agent.killed [--kills 50] [--seed N] [--minutes M] [--only KIND]

Plays one session undisturbed and others that are each killed several times, and prints a line for each kill, what was
wrong, and a table of the kinds of moment. Exit status 1 if anything was.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.agent.killed.blade import KINDS, LANDING, WORKING, Moment, draw
from tests.agent.killed.play import Played, play
from tests.agent.killed.proof import wrong
from tests.agent.killed.story import script
from tests.agent.support import make_settings
from tests.servers.openai_server import OpenAIServer
from tests.storm import leaks

OF_ONE_KIND = 3
"""Kills of a session where only one kind is wanted."""


def main() -> int:
    """Play, kill, compare, and say how it went."""
    options = _parser().parse_args()
    mark = f"killed-{uuid.uuid4().hex[:12]}"
    folder = Path(tempfile.mkdtemp(prefix=f"{mark}-"))
    temporary = folder / "tmp"
    temporary.mkdir()
    os.environ.update({leaks.MARK: mark, "TMPDIR": str(temporary), "WARPSMITH_POOL": str(folder / "pool")})
    tempfile.tempdir = str(temporary)
    leaks.adopt_orphans()
    before = leaks.Before(mark, [temporary], "cpu")
    print(f"seed {options.seed}: {options.kills} kills", flush=True)
    killed: Counter[str] = Counter()
    bad: Counter[str] = Counter()
    try:
        for played, faults in _sessions(folder, options):
            for moment, last in played.struck:
                killed[moment.kind] += 1
                bad[moment.kind] += bool(faults)
                print(f"  {moment.kind:14} count {moment.count:3} delay {moment.delay:.3f} s, after {last}", flush=True)
            print(f"{len(played.struck)} kills: {'the same end' if not faults else 'WRONG'}", flush=True)
            print("".join(f"    {fault}\n" for fault in faults), end="", flush=True)
    finally:
        left = before.left()
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
    for kind in KINDS:
        print(f"{kind:14} {killed[kind]:4} kills, {bad[kind]:3} of them in sessions with a fault")
    print("".join(f"left behind: {each}\n" for each in left), end="")
    return int(bool(left) or bool(sum(bad.values())) or sum(killed.values()) < options.kills)


def _sessions(folder: Path, options: argparse.Namespace) -> Iterator[tuple[Played, list[str]]]:
    """Play sessions until there were enough kills, and yield each with what was wrong."""
    chance, end, kills, number = random.Random(options.seed), time.monotonic() + 60 * options.minutes, 0, 0
    with OpenAIServer(script()) as server:
        undisturbed = _play(folder, "undisturbed", server, [])
        faults = wrong(undisturbed, undisturbed)
        yield undisturbed, faults
        while not faults and kills < options.kills and time.monotonic() < end:
            number += 1
            server.script[:] = script()
            moments = _draw_all(chance, options)[: options.kills - kills]
            played = _play(folder, f"session{number}", server, moments)
            kills += len(played.struck)
            yield played, wrong(played, undisturbed)


def _play(folder: Path, name: str, server: OpenAIServer, moments: list[Moment]) -> Played:
    place = folder / name
    place.mkdir()
    settings = make_settings(place, model="openai/test", api_base=server.base_url, cache=folder / "cache")
    return play(place, settings, moments)


def _draw_all(chance: random.Random, options: argparse.Namespace) -> list[Moment]:
    """Draw one moment of every kind: those of the work in random order, then those of the landing, then one more.

    Where only one kind is wanted, draw a few of it.
    """
    kinds = [*chance.sample(WORKING, len(WORKING)), *chance.sample(LANDING, len(LANDING)), "event"]
    return [draw(kind, chance) for kind in ([options.only] * OF_ONE_KIND if options.only else kinds)]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.agent.killed", description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--only", choices=("", *KINDS), default="")
    parser.add_argument("--keep", action="store_true", help="keep the sessions' folder")
    return parser


if __name__ == "__main__":
    sys.exit(main())

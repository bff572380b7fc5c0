"""Kill a run at random moments, go on with it each time, and compare what it ends with to an undisturbed one.

    python -m tests.trainer.killed --kills 20

Training runs in children of this process, which has imported everything and computed nothing, so that a child begins at once
and can be killed in its first milliseconds as well as in its last. Kills are SIGKILL: nothing gets to tidy up.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

import torch

from tests.trainer.made import episodes, training_set
from trainer import ppo, rft, value  # noqa: F401 - imported before the children are made
from trainer.__main__ import main as trainer
from trainer.policy.tiny import write_tiny_policy

TIMES = {"seconds", "tokens_per_second", "memory_gib"}
STEPS = {"rft": 12, "value": 12, "ppo": 12}


def prepare(folder: Path) -> None:
    """Write a tiny model and a training set, in a child."""

    def work() -> int:
        model = write_tiny_policy(folder / "model", layers=1, width=32, vocabulary=400)
        training_set(folder / "set", model, episodes(24))
        return 0

    if _wait(_child(work)) != 0:
        raise SystemExit("the model and its training set could not be written")


def command(folder: Path, stage: str, out: str, *others: str) -> list[str]:
    """Return the arguments of a run over what `prepare` wrote."""
    accepting = ["--set", "reject_k3=none", "--set", "version_gap=none"]
    options = ["--set", "batch=4", *accepting, "--steps", str(STEPS[stage]), "--device", "cpu", *others]
    return [stage, str(folder / "set"), "--model", str(folder / "model"), "--out", str(folder / out), *options]


def undisturbed(folder: Path, stage: str) -> float:
    """Run to the end, and return how many seconds that took."""
    began = time.monotonic()
    if _wait(_child(lambda: trainer(command(folder, stage, f"{stage}-whole")))) != 0:
        raise SystemExit(f"the undisturbed {stage} failed")
    return time.monotonic() - began


def disturbed(folder: Path, stage: str, kills: int, seconds: float, chance: random.Random) -> list[Path]:
    """Kill a run so many times, in as many folders as it takes, and return the folders; each run ended in the end."""
    folders, done = [folder / f"{stage}-killed-0"], 0
    while True:
        child = _child(lambda: trainer(command(folder, stage, folders[-1].name)))
        if done < kills and not _ends_within(child, chance.uniform(0, 3 * seconds / max(kills, 3))):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            done += 1
            continue
        if done == kills:
            if _wait(child) != 0:
                raise SystemExit(f"a killed {stage} could not go on")
            return folders
        folders.append(folder / f"{stage}-killed-{len(folders)}")


def fingerprint(run: Path) -> dict[str, str]:
    """Return what a run ended with: hashes of all files of its latest checkpoint, and of its numbers but for times."""
    latest = run / "checkpoints" / (run / "latest").read_text().strip()
    found = {str(path.relative_to(latest)): path.read_bytes() for path in latest.rglob("*") if path.is_file()}
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    found["metrics"] = json.dumps([{k: v for k, v in line.items() if k not in TIMES} for line in lines]).encode()
    return {name: hashlib.sha256(data).hexdigest() for name, data in sorted(found.items())}


def compare(stage: str, kills: int, seed: int) -> bool:
    """Kill and compare one stage; return whether all ended alike."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        seconds = undisturbed(folder, stage)
        folders = disturbed(folder, stage, kills, seconds, random.Random(seed))
        expected = fingerprint(folder / f"{stage}-whole")
        odd = [run.name for run in folders if fingerprint(run) != expected]
        ends = (
            f"{len(folders)} runs ended with the same {len(expected)} files" if not odd else f"differ: {', '.join(odd)}"
        )
        print(f"{stage}: {kills} kills in runs of {seconds:.1f} s; {ends}")
        return not odd


def _child(work: Callable[[], int]) -> int:
    child = os.fork()
    if child == 0:
        code = 70
        try:
            torch.set_num_threads(1)
            with StringIO() as told, redirect_stderr(told):
                code = work()
                if code:
                    print(told.getvalue(), file=sys.__stderr__)
        finally:
            os._exit(code)
    return child


def _wait(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _ends_within(child: int, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            if os.waitstatus_to_exitcode(status) != 0:
                raise SystemExit("a run failed that nobody had killed")
            return True
        time.sleep(0.002)
    return False


def main() -> int:
    """Kill runs as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20, help="of each stage (default: %(default)s)")
    parser.add_argument("--stage", choices=STEPS, action="append", help="default: all")
    parser.add_argument("--seed", type=int, default=0, help="of the moments (default: %(default)s)")
    options = parser.parse_args()
    same = [compare(stage, options.kills, options.seed) for stage in options.stage or STEPS]
    return 0 if all(same) else 1


if __name__ == "__main__":
    sys.exit(main())

"""The command line of the kinds; see the package."""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from sandbox.errors import WarpsmithError
from sandbox.isolation import best_isolation
from sandbox.judge import Judge
from sandbox.judge_limits import JudgeLimits
from sandbox.judge_version import judge_version
from sandbox.machine.devices import resolve_device
from sandbox.verdict import Verdict
from tests.gpu.figures.results import ROOT, Results
from tests.gpu.kinds.kinds import KINDS, write_kind, wrongs

GPU_RESULTS = Path(__file__).with_name("results.jsonl")
CPU_RESULTS = ROOT / "build" / "kinds-cpu.jsonl"


def main() -> int:
    """Judge what is asked for and not known yet; the exit code is 1 where a verdict is not what it should be."""
    options = _parser().parse_args()
    device = resolve_device(options.device)
    results = Results(options.results or (CPU_RESULTS if device == "cpu" else GPU_RESULTS))
    known = set() if options.again else _known(results)
    ending = time.monotonic() + 60 * options.minutes
    limits = JudgeLimits(compile_seconds=options.compile_seconds)
    with contextlib.suppress(KeyboardInterrupt):  # what was taken until then is written, and told
        for name in options.kinds or KINDS:
            tiers = [tier for tier in options.tiers if (name, tier) not in known]
            if tiers and time.monotonic() < ending:
                _judge(name, device, tiers, limits, results)
    return _conclude(results, options.kinds or KINDS, options.tiers)


def _judge(name: str, device: str, tiers: Sequence[str], limits: JudgeLimits, results: Results) -> None:
    """Judge a kind in its tiers and write a line each; a task that is refused is a line too."""
    with tempfile.TemporaryDirectory(prefix="warpsmith-kinds-") as scratch:
        folder = Path(scratch)
        spec, candidate = write_kind(name, folder, device)
        places = {"cache": folder / "cache", "scratch": folder / "scratch"}
        try:
            with Judge(spec, isolation=best_isolation(), limits=limits, **places) as judge:
                results.begin(judge.environment)
                for tier in tiers:
                    verdict = judge.check(candidate, tier)
                    notes = [*(verdict.verify.notes if verdict.verify else ()), *_profile_notes(verdict)]
                    told = {
                        "reward": verdict.reward,
                        "wrong": wrongs(verdict),
                        "reason": verdict.reason,
                        "notes": notes,
                    }
                    results.add("kind", name=name, tier=tier, wall=round(verdict.seconds.total, 1), **told)
                    _print(name, tier, **told)
        except WarpsmithError as error:
            results.begin({})
            for tier in tiers:
                results.add("kind", name=name, tier=tier, reward=None, wrong=[str(error)], reason=str(error), notes=[])
            _print(name, "-", None, [str(error)], str(error), [])


def _profile_notes(verdict: Verdict) -> Sequence[str]:
    return verdict.profile.notes if verdict.profile else ()


def _print(name: str, tier: str, reward: int | None, wrong: Sequence[str], reason: str, notes: Sequence[str]) -> None:
    print(f"{'WRONG' if wrong else 'ok':6} {name:16} {tier:6} reward {reward}: {reason}", flush=True)
    for text in wrong:
        print(f"         {text}", flush=True)
    for text in notes:
        print(f"         note: {text}", flush=True)


def _known(results: Results) -> set[tuple[str, str]]:
    """Return kinds and tiers that this very judge gave a reward for."""
    lines = list(results.lines())
    runs = {line["run"] for line in lines if line["kind"] == "run" and line["judge"] == judge_version()[:12]}
    return {
        (line["name"], line["tier"])
        for line in lines
        if line["kind"] == "kind" and line["run"] in runs and line["reward"] is not None and not line["wrong"]
    }


def _conclude(results: Results, kinds: Sequence[str], tiers: Sequence[str]) -> int:
    """Say how the last verdict of each kind and tier came out."""
    last = {(line["name"], line["tier"]): line for line in results.lines() if line["kind"] == "kind"}
    wanted = [(kind, tier) for kind in kinds for tier in tiers]
    lines = [last[key] for key in wanted if key in last]
    wrong = [line for line in lines if line["wrong"]]
    right = sum(line["reward"] == 1 and not line["wrong"] for line in lines)
    untimed = sum(line["reward"] is None and not line["wrong"] for line in lines)
    print(
        f"{len(wanted)} verdicts wanted: {right} right with reward 1, {untimed} right but not timed, {len(wrong)} wrong "
        f"({', '.join(sorted({line['name'] for line in wrong})) or 'none'}), {len(wanted) - len(lines)} not taken"
    )
    return 1 if wrong else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.kinds", description="Tasks of many kinds, judged.")
    parser.add_argument("kinds", nargs="*", choices=[*KINDS, []], help="default: all")
    parser.add_argument("--minutes", type=float, default=18.0)
    parser.add_argument("--device", default="auto", help="auto, cuda:N or cpu")
    parser.add_argument("--tiers", nargs="+", choices=["quick", "full"], default=["quick", "full"])
    parser.add_argument("--compile-seconds", type=float, default=JudgeLimits.compile_seconds, help="for each baseline")
    parser.add_argument("--results", type=Path, help="file of the lines; default: results.jsonl of this package")
    parser.add_argument("--again", action="store_true", help="also judge what this judge judged before")
    return parser


if __name__ == "__main__":
    sys.exit(main())

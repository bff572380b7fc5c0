"""Judge a candidate against its reference: build, guard, verify, profile.

CANDIDATE is a workspace folder, or a Python file with a kernels/ folder beside it; with --capture, TARGET may be left out.
Exit code 0: the candidate is correct, and --sanitize, if asked for, found nothing.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path

from app.commands.looking import (
    add_looking_options,
    look_closer,
    looks_as_json,
    looks_as_text,
    measures_variants,
    variants_of,
)
from app.commands.options import add_machine_options, add_task_options, settings_from, task_from
from app.report import report
from sandbox.errors import ExitCode, UsageError
from sandbox.isolation import best_isolation
from sandbox.judge import Judge
from sandbox.machine.scratch import scratch_folder
from sandbox.progress import Stage
from sandbox.snapshot import read_candidate
from sandbox.task import TaskSpec
from sandbox.verdict import Verdict


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("target", metavar="TARGET", help="path.py, path.py:Class, or package.module:Class")
    candidate = parser.add_argument("candidate", metavar="CANDIDATE", type=Path, help="a file or a workspace folder")
    tier = parser.add_mutually_exclusive_group()
    tier.add_argument(
        "--quick", dest="tier", action="store_const", const="quick", help="two placements, seconds (default)"
    )
    tier.add_argument(
        "--full", dest="tier", action="store_const", const="full", help="everything, for a reward or a landing"
    )
    parser.set_defaults(tier="quick")
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON")
    add_looking_options(parser)
    add_task_options(parser, second=candidate)
    add_machine_options(parser)


def main(options: argparse.Namespace) -> ExitCode:
    """Judge once and print the verdict, or measure variants and print those."""
    target, named = places(options)
    instead = measures_variants(options)
    settings = settings_from(options)
    spec = task_from(options, target, settings)
    with scratch_folder("warpsmith-check-") as scratch:
        candidate = candidate_folder(named, spec, scratch / "candidate")
        measure = variants_of(options, read_candidate(candidate, spec)) if instead else None
        judge = Judge(
            spec,
            isolation=best_isolation(settings.isolation or None),
            cache=settings.cache,
            scratch=scratch,
            progress=narrate,
        )
        with judge:
            if measure is not None:
                return measure(judge, candidate)
            verdict = judge.check(candidate, options.tier, progress=narrate)
            profile, found = look_closer(judge, candidate, verdict, options, settings.cache)
    told = looks_as_text(profile, found)
    whole = {**verdict.to_json(), **looks_as_json(profile, found)}
    print(json.dumps(whole) if options.json else "\n".join(filter(None, (report(verdict), told))))
    return ExitCode.FAILED if found is not None and found.findings else exit_code(verdict)


def places(options: argparse.Namespace) -> tuple[str | None, Path]:
    """Return target and candidate: where only one is named, which takes ``--capture``, that is the candidate."""
    return (None, Path(options.target)) if options.candidate is None else (options.target, options.candidate)


def exit_code(verdict: Verdict) -> ExitCode:
    """Return 0 for a correct candidate, 1 for a judged and failed one, 3 when nothing could be judged."""
    if verdict.correct:
        return ExitCode.OK
    return ExitCode.ENVIRONMENT if verdict.reward is None else ExitCode.FAILED


def candidate_folder(candidate: Path, spec: TaskSpec, scratch: Path) -> Path:
    """Return the folder to judge: the given one, or a copy of the given file and its kernels under the expected names.

    Raises:
        UsageError: There is nothing there, or the folder lacks the file that holds the candidate.
    """
    if candidate.is_dir():
        if not (candidate / spec.candidate_file).is_file():
            raise UsageError(
                f"The candidate's folder has no {spec.candidate_file}.",
                where=str(candidate),
                next_step=f"It must hold {spec.candidate_file} with class {spec.candidate_class}, and kernels/.",
            )
        return candidate
    if not candidate.is_file():
        raise UsageError(
            "There is no such candidate.", where=str(candidate), next_step="Name a file or a workspace folder."
        )
    scratch.mkdir(parents=True)
    shutil.copyfile(candidate, scratch / spec.candidate_file)
    kernels = candidate.parent / "kernels"
    if kernels.is_dir():
        shutil.copytree(kernels, scratch / "kernels")
    return scratch


def narrate(stage: Stage) -> None:
    """Say on stderr what the judge is doing."""
    print(f"{stage.part:8} {stage.text}", file=sys.stderr, flush=True)

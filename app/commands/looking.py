"""The parts of ``check`` that look at a candidate in ways that are no verdict: options, what is done, what is printed."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agent.study_text import ablation_text, sanitizer_text, sweep_text
from sandbox.errors import ExitCode, UsageError
from sandbox.judge import Judge
from sandbox.looking.ablation import AblationReport, ablate
from sandbox.looking.defines import ALL, chosen_phases, combinations, present_values, read_option
from sandbox.looking.nsight import KernelProfile, profile_kernels
from sandbox.looking.sanitizer import SanitizerReport, sanitize
from sandbox.looking.sweep import SweepReport, sweep
from sandbox.verdict import Verdict


def add_looking_options(parser: argparse.ArgumentParser) -> None:
    """Add what looks at a candidate beside a verdict, or instead of one."""
    beside = parser.add_argument_group("looking closer, beside the verdict")
    beside.add_argument(
        "--ncu", action="store_true", help="profile one call with Nsight Compute: what limits each kernel"
    )
    beside.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="where --ncu keeps its .ncu-rep (default: in the cache folder, the last one of each class)",
    )
    beside.add_argument(
        "--sanitize",
        action="store_true",
        help="run under compute-sanitizer (on the CPU: g++'s sanitizers); a finding fails the check",
    )
    instead = parser.add_argument_group("measuring variants, instead of a verdict")
    instead.add_argument(
        "--sweep",
        action="append",
        default=[],
        metavar="NAME=V1,V2",
        help="time every combination of these macros' values; repeat for more macros",
    )
    instead.add_argument(
        "--ablate",
        action="append",
        default=[],
        metavar="PHASE",
        help=f"time without a phase (#ifndef ABLATE_PHASE); '{ALL}' for each there is",
    )


def measures_variants(options: argparse.Namespace) -> bool:
    """Whether variants are measured instead of judging; raises ``UsageError`` for what does not go together."""
    variants = [name for name in ("sweep", "ablate") if getattr(options, name)]
    others = [name for name in ("ncu", "sanitize") if getattr(options, name)]
    others += ["full"] if options.tier == "full" else []
    if variants and len(variants + others) > 1:
        together = ", ".join(f"--{name}" for name in variants + others)
        raise UsageError(f"These do not go together: {together}.", next_step="Run them one after the other.")
    if options.output and not options.ncu:
        raise UsageError("--output is where --ncu keeps its report.", next_step="Add --ncu.")
    return bool(variants)


def variants_of(options: argparse.Namespace, files: Mapping[str, bytes]) -> Callable[[Judge, Path], ExitCode]:
    """Return what measures the variants of these files that are asked for, and prints what it found.

    Raises:
        UsageError: They cannot be had of these files; so that is told before anything starts.
    """
    if options.ablate:
        chosen_phases(files, options.ablate)
        return lambda judge, candidate: _ablate(judge, candidate, options)
    values: dict[str, list[str]] = {}
    for text in options.sweep:
        name, found = read_option(text)
        values[name] = list(dict.fromkeys([*values.get(name, []), *found]))
    combinations(values)
    present_values(files, list(values))
    return lambda judge, candidate: _sweep(judge, candidate, values, options)


def look_closer(
    judge: Judge, candidate: Path, verdict: Verdict, options: argparse.Namespace, cache: Path
) -> tuple[KernelProfile | None, SanitizerReport | None]:
    """Profile and sanitize as asked for; a candidate that is not correct is not profiled, one that does not build neither."""
    profile = report = None
    if options.sanitize and verdict.build is not None and verdict.build.ok:
        report = judge.study(candidate, sanitize)
    if options.ncu and verdict.correct:
        keep = options.output or cache / "ncu" / verdict.task.id.replace(":", ".")
        profile = judge.study(candidate, lambda study: profile_kernels(study, keep))
    elif options.ncu:
        profile = KernelProfile(problem="Only a correct candidate is profiled.")
    return profile, report


def looks_as_json(profile: KernelProfile | None, report: SanitizerReport | None) -> dict[str, Any]:
    """Return what is added to a verdict's JSON: null for what was not asked for."""
    return {"ncu": profile.to_json() if profile else None, "sanitizer": report.to_json() if report else None}


def looks_as_text(profile: KernelProfile | None, report: SanitizerReport | None) -> str:
    """Return what is printed below a verdict."""
    return "\n".join([*([sanitizer_text(report)] if report else []), *(profile.digest if profile else [])])


def _sweep(judge: Judge, candidate: Path, values: dict[str, list[str]], options: argparse.Namespace) -> ExitCode:
    report: SweepReport = judge.study(candidate, lambda study: sweep(study, values))
    print(json.dumps(report.to_json()) if options.json else sweep_text(report))
    return _ending(report.best is not None, report.disturbed)


def _ablate(judge: Judge, candidate: Path, options: argparse.Namespace) -> ExitCode:
    report: AblationReport = judge.study(candidate, lambda study: ablate(study, options.ablate))
    print(json.dumps(report.to_json()) if options.json else ablation_text(report))
    return _ending(report.us is not None, report.disturbed)


def _ending(measured: bool, disturbed: str) -> ExitCode:
    """Return 0 where something was measured, 3 where the machine stood in the way, 1 where the candidate did."""
    if measured:
        return ExitCode.OK
    return ExitCode.ENVIRONMENT if disturbed else ExitCode.FAILED

"""Verification: case by case, the bench draws, the worker runs, the bench compares."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sandbox.bench_client import Bench
from sandbox.judge_limits import JudgeLimits
from sandbox.verdict import Finding, VerifyCase, VerifyReport
from sandbox.wire import Message
from sandbox.workers import CandidateFailed, Death, Worker, WorkerDied

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+) in (?P<function>\S+)')
_SENT = ("structure", "inputs", "state", "touched_inputs", "touched_state", "regions")


@dataclass(frozen=True)
class Verification:
    """The report, with what the dynamic guard found on the way."""

    report: VerifyReport
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class CasePlan:
    """One case to draw: its name, and what floating inputs are multiplied by."""

    name: str
    scale: float = 1.0


def verify(
    bench: Bench, worker: Worker, plans: Sequence[CasePlan], files: Mapping[str, bytes], limits: JudgeLimits
) -> Verification:
    """Run the cases in order, up to the first that fails.

    Args:
        bench: Keeps the reference.
        worker: Has loaded the candidate.
        plans: The cases.
        files: The candidate's files, to name the place where it failed.
        limits: Time limits.
    """
    cases: list[VerifyCase] = []
    findings: list[Finding] = []
    notes: list[str] = []
    for plan in plans:
        try:
            case, found, said = _one(bench, worker, plan, limits)
        except WorkerDied as died:
            reason = f"The candidate {describe_death(died.death, files)} while verifying."
            case, found, said = failed_case(plan.name, reason), [], []
        except CandidateFailed as failure:
            case, found, said = failed_case(plan.name, describe_failure(failure)), [], []
        cases.append(case)
        findings += found
        notes += [note for note in said if note not in notes]
        if not case.ok:
            break
    return Verification(VerifyReport(all(case.ok for case in cases), tuple(cases), tuple(notes)), _distinct(findings))


def failed_case(name: str, reason: str) -> VerifyCase:
    """Return a case in which nothing could be compared."""
    return VerifyCase(name, ok=False, max_abs_error=None, max_rel_error=None, reason=reason)


def describe_failure(failure: CandidateFailed) -> str:
    """Say what the candidate raised, and where."""
    return f"The candidate raised {failure.what}" + (f" ({failure.where})" if failure.where else "")


def describe_death(death: Death, files: Mapping[str, bytes]) -> str:
    """Say how the candidate ended: ``crashed with SIGSEGV in fused_norm (model_new.py:12)``."""
    for frame in _FRAME.finditer(death.log):
        name = next((name for name in files if frame["file"].endswith("/" + name)), None)
        if name is None:
            continue
        kernel = _kernel_on_line(files, name, int(frame["line"]))
        return f"{death.what} in {kernel or frame['function']} ({name}:{frame['line']})"
    return death.what


def _one(
    bench: Bench, worker: Worker, plan: CasePlan, limits: JudgeLimits
) -> tuple[VerifyCase, list[Finding], list[str]]:
    drawn, descriptors = bench.ask({"op": "case", "name": plan.name, "scale": plan.scale}, limits.bench_seconds)
    try:
        request: Message = {"op": "verify", **{key: drawn[key] for key in _SENT}}
        answer = worker.ask(request, limits.call_seconds, descriptors)
    finally:
        _close(descriptors)
    comparison = {"op": "compare", **{key: answer[key] for key in ("structure", "outputs", "touched")}}
    result, _ = bench.ask(comparison, limits.bench_seconds)
    case = VerifyCase(**{key: result[key] for key in ("name", "ok", "max_abs_error", "max_rel_error", "reason")})
    findings = [Finding(item["rule"], item["severity"], item["evidence"]) for item in answer.get("findings", [])]
    return case, findings, result.get("notes", [])


def _kernel_on_line(files: Mapping[str, bytes], name: str, line: int) -> str:
    """Return the launcher that a line of the candidate calls, if it calls one."""
    lines = files[name].decode(errors="replace").splitlines()
    text = lines[line - 1] if 0 < line <= len(lines) else ""
    sources = b"\n".join(content for path, content in files.items() if path.startswith("kernels/")).decode(
        errors="replace"
    )
    called = re.findall(r"(\w+)\s*\(", text)
    return next((word for word in called if re.search(rf'extern\s+"C"[^;{{]*\b{word}\s*\(', sources)), "")


def _distinct(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(dict.fromkeys(findings))


def _close(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)

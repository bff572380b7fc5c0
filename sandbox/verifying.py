"""Verification: question by question, the bench draws, the worker answers, the bench compares."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sandbox.bench_client import Bench
from sandbox.judge_limits import JudgeLimits
from sandbox.processes import close_all
from sandbox.verdict import Finding, VerifyCase, VerifyReport
from sandbox.wire import Message
from sandbox.workers import CandidateFailed, Death, Worker, WorkerDied

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+) in (?P<function>\S+)')
_BINDING = re.compile(r'File "<binding of (?P<name>\w+)>", line')
_LONGEST_EVIDENCE = 2000
_SENT = ("structure", "inputs", "state", "touched_inputs", "touched_state", "regions", "sizes")


@dataclass(frozen=True)
class Verification:
    """The report, with what the dynamic guard found on the way."""

    report: VerifyReport
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class CasePlan:
    """One case: its name, what floating inputs are multiplied by, and what is watched (``operators``, ``device``)."""

    name: str
    scale: float = 1.0
    watch: str = ""


class Verifier:
    """Asks a worker the bench's questions.

    Args:
        bench: Keeps the reference.
        worker: Has loaded the candidate.
        transport: How tensors cross: ``host`` or ``cuda``.
        files: The candidate's files, to name the place where it failed.
        limits: Time limits.
        call_seconds: How long the worker may take for an answer.

    Attributes:
        died: How the worker ended, where it did.
    """

    def __init__(
        self,
        bench: Bench,
        worker: Worker,
        transport: str,
        files: Mapping[str, bytes],
        limits: JudgeLimits,
        call_seconds: float,
    ) -> None:
        self._bench = bench
        self._worker = worker
        self._transport = transport
        self._files = files
        self._limits = limits
        self._call_seconds = call_seconds
        self.died: WorkerDied | None = None

    def verify(self, plans: Sequence[CasePlan]) -> Verification:
        """Run the cases in order, up to the first that fails."""
        cases: list[VerifyCase] = []
        findings: list[Finding] = []
        notes: list[str] = []
        for plan in plans:
            try:
                case, found, said = self._one(plan)
            except WorkerDied as died:
                self.died = died
                reason = f"the candidate {describe_death(died.death, self._files)} while verifying"
                case, found, said = failed_case(plan.name, reason), [], []
            except CandidateFailed as failure:
                case, found, said = failed_case(plan.name, describe_failure(failure)), [], []
            cases.append(case)
            findings += found
            notes += [note for note in said if note not in notes]
            if not case.ok:
                break
        report = VerifyReport(all(case.ok for case in cases), tuple(cases), tuple(notes))
        return Verification(report, tuple(dict.fromkeys(findings)))

    def _one(self, plan: CasePlan) -> tuple[VerifyCase, list[Finding], list[str]]:
        draw = {"op": "draw", "scale": plan.scale, "worker": self._worker.number, "transport": self._transport}
        question, descriptors = self._bench.ask(draw, self._limits.bench_seconds)
        try:
            request: Message = {"op": "answer", "watch": plan.watch, **{key: question[key] for key in _SENT}}
            answer = checked_answer(self._worker.ask(request, self._call_seconds, descriptors))
        finally:
            close_all(descriptors)
        compared, _ = self._bench.ask({"op": "compare", **sent_outputs(answer)}, self._limits.bench_seconds)
        notes = [*compared["notes"], *(str(note) for note in answer["notes"])]
        return case_of(plan.name, compared), read_findings(answer["findings"]), notes


def sent_outputs(answer: Message) -> Message:
    """Return the part of a worker's answer that describes its outputs, for the bench to read."""
    return {key: answer.get(key) for key in ("structure", "outputs", "touched")}


def case_of(name: str, compared: Message) -> VerifyCase:
    """Return the bench's comparison as a case."""
    return VerifyCase(
        name, bool(compared["ok"]), compared["max_abs_error"], compared["max_rel_error"], compared["reason"]
    )


def failed_case(name: str, reason: str) -> VerifyCase:
    """Return a case in which nothing could be compared."""
    return VerifyCase(name, ok=False, max_abs_error=None, max_rel_error=None, reason=reason)


def checked_answer(answer: Message) -> Message:
    """Return a worker's answer if it has the form of one; raises ``WorkerDied``: nothing it sends may hurt the parent."""
    findings, notes = answer.get("findings"), answer.get("notes")
    if not (
        isinstance(findings, list) and isinstance(notes, list) and all(isinstance(item, dict) for item in findings)
    ):
        raise WorkerDied(Death("sent an answer that makes no sense", ""))
    return answer


def read_findings(found: Iterable[Mapping[str, str]]) -> list[Finding]:
    """Return what a worker reports of its own guard."""
    return [
        Finding(
            str(item.get("rule")),
            "label" if item.get("severity") == "label" else "reject",
            str(item.get("evidence"))[:_LONGEST_EVIDENCE],
        )
        for item in found
    ]


def describe_failure(failure: CandidateFailed) -> str:
    """Say what the candidate raised, and where."""
    return f"the candidate raised {failure.what}" + (f" ({failure.where})" if failure.where else "")


def describe_death(death: Death, files: Mapping[str, bytes]) -> str:
    """Say how the candidate ended: ``crashed with SIGSEGV in fused_norm (model_new.py:12)``."""
    kernel = _BINDING.search(death.log)
    for frame in _FRAME.finditer(death.log):
        name = next((name for name in files if frame["file"].endswith("/" + name)), None)
        if name is not None:
            return f"{death.what} in {kernel['name'] if kernel else frame['function']} ({name}:{frame['line']})"
    return death.what

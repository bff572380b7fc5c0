"""Verification: question by question, the bench draws, the worker answers, the bench compares."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from sandbox.bench_client import Bench
from sandbox.judge_limits import JudgeLimits
from sandbox.plans import CasePlan
from sandbox.processes import close_all
from sandbox.task import DynamicSize
from sandbox.verdict import Finding, VerifiedRange, VerifyCase, VerifyReport
from sandbox.wire import Message
from sandbox.workers import FORGED, CandidateFailed, Death, Worker, WorkerDied

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+) in (?P<function>\S+)')
_BINDING = re.compile(r'File "<binding of (?P<name>\w+)>", line')
_LONGEST_EVIDENCE = 2000
_LONGEST_RULE = 60
_SENT = (
    "structure",
    "inputs",
    "state",
    "touched_inputs",
    "touched_state",
    "regions",
    "sizes",
    "directions",
    "gradients",
    "training",
    "misaligned",
    "lent",
)
_MORE_CALLS = 40.0
_CARELESS = 3.0
"""Times the original's own error, by RMS: another order of a sum has up to about twice as much."""
_MOST_TOLD = 100
"""Findings and notes that one answer is believed to hold."""
_LONGEST_REFUSAL = 160


@dataclass(frozen=True)
class Verification:
    """The report, with what the dynamic guard found on the way, and the plan that failed."""

    report: VerifyReport
    findings: tuple[Finding, ...] = ()
    failed: CasePlan | None = None


class _Skipped(Exception):
    """The bench cannot ask this; carries why."""


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
        self._drawing_seconds = 0.0
        self._findings: list[Finding] = []
        self._notes: list[str] = []
        self._refused: dict[str, str] = {}
        self._own_errors: list[float] = []
        self.died: WorkerDied | None = None

    def verify(
        self,
        plans: Sequence[CasePlan],
        dynamic: Sequence[tuple[DynamicSize, int]] = (),
        hopeful: Callable[[], None] | None = None,
    ) -> Verification:
        """Run the cases in order, up to the first that fails.

        Args:
            plans: The cases.
            dynamic: The dimensions that the cases' sizes mean, each with the size of the task's own inputs.
            hopeful: Called after the first case where it is right: most that are wrong are wrong there.
        """
        cases: list[VerifyCase] = []
        sizes: list[list[int]] = []
        left_out: dict[str, list[str]] = {}
        failed = None
        for plan in plans:
            if plan.optional and self._drawing_seconds > self._limits.optional_seconds:
                left_out.setdefault("making the oracle's answers takes long", []).append(plan.name)
                continue
            try:
                case = self._outcome(plan)
            except _Skipped as skipped:
                left_out.setdefault(str(skipped), []).append(plan.name)
                continue
            cases += [case] if case else []
            sizes += [plan.variant["sizes"]] if "sizes" in plan.variant else []
            if case and not case.ok:
                failed = plan
                break
            if plan is plans[0] and hopeful is not None:
                hopeful()
        last = self._finish() if self.died is None else []
        cases += [] if failed else last
        if self._refused:
            first = next(iter(self._refused.values())).removeprefix("Refused: ").partition(";")[0][:_LONGEST_REFUSAL]
            self._notes.append(f"it refuses {', '.join(self._refused)}; what lands runs the original there ({first})")
        self._notes += [f"left out: {', '.join(names)} ({why})" for why, names in left_out.items() if why]
        self._findings += [] if failed else less_careful(self._own_errors)
        report = VerifyReport(
            all(case.ok for case in cases),
            tuple(cases),
            tuple(dict.fromkeys(self._notes)),
            () if failed else _ranges(dynamic, sizes),
        )
        return Verification(report, tuple(dict.fromkeys(self._findings)), failed)

    def _outcome(self, plan: CasePlan) -> VerifyCase | None:
        """Return how a case ended, or None where it counts neither way and a note says why."""
        before = len(self._findings)
        try:
            case = self._row(plan) if plan.calls * plan.repeats > 1 else self._one(plan)
        except WorkerDied as died:
            return self._death(plan.name, died)
        except CandidateFailed as failure:
            if failure.refused and plan.refusable:
                self._refused[plan.name] = failure.what
                return None
            case = failed_case(plan.name, describe_failure(failure))
        if not case.ok and plan.forgiven:
            self._notes.append(f"{plan.forgiven} ({case.reason})")
            del self._findings[before:]
            return None
        return case

    def _finish(self) -> list[VerifyCase]:
        """Let the worker say that it has nothing to add; return a failed case where it has, or where it is gone."""
        try:
            self._worker.finish()
        except WorkerDied as died:
            return [self._death("the end", died)]
        except CandidateFailed as failure:
            return [failed_case("the end", describe_failure(failure))]
        return []

    def _death(self, name: str, died: WorkerDied) -> VerifyCase:
        self.died = died
        self._findings += death_findings(died.death)
        return failed_case(name, f"the candidate {describe_death(died.death, self._files)} while verifying")

    def _one(self, plan: CasePlan) -> VerifyCase:
        """Ask one question."""
        question, descriptors = self._draw(plan)
        extra = {"watch": plan.watch, "refusable": plan.refusable}
        answer = self._ask("answer", question, extra, descriptors)
        compared = self._compared(answer, 0)
        if not plan.variant and compared.get("own_errors") is not None:
            self._own_errors.append(float(compared["own_errors"]))
        return case_of(plan.name, compared)

    def _row(self, plan: CasePlan) -> VerifyCase:
        """Ask several questions, or one several times, and look at no answer before the last is there."""
        sizes: list[int] = []
        for number in range(plan.calls):
            question, descriptors = self._draw(plan, more=number > 0)
            self._ask("stage", question, {"first": number == 0}, descriptors)
            sizes += question["sizes"]
        self._ask("row", {}, {"times": plan.repeats, "sizes": sizes * plan.repeats}, [])
        count = plan.calls * plan.repeats
        digests, worst = (
            [],
            case_of(plan.name, {"ok": True, "max_abs_error": None, "max_rel_error": None, "reason": ""}),
        )
        for number in range(count):
            answer = self._ask("collect", {}, {"number": number}, [])
            compared = self._compared(answer, number // plan.repeats, digest=True)
            digests.append(compared["digest"])
            case = case_of(plan.name, compared)
            if not case.ok:
                return replace(case, reason=f"of {count} calls in a row, number {number + 1}: {case.reason}")
            worst = max(worst, case, key=lambda each: each.max_abs_error or 0.0)
        if plan.calls == 1 and digests != digests[:1] * count:
            self._notes.append(
                "calls on the same inputs do not agree bit for bit; each is within the budget, as atomic sums are"
            )
        return worst

    def _draw(self, plan: CasePlan, more: bool = False) -> tuple[Message, list[int]]:
        """Let the bench draw a question; raises ``_Skipped``."""
        variant = {**plan.variant, "same_state": True} if more else dict(plan.variant)
        draw = {
            "op": "draw",
            "variant": variant,
            "more": more,
            "calls": plan.calls * plan.repeats if plan.calls * plan.repeats > 1 else 0,
            "worker": self._worker.number,
            "transport": self._transport,
        }
        question, descriptors = self._bench.ask(draw, self._limits.bench_seconds)
        if plan.optional:
            self._drawing_seconds += float(question["took"])
        if "skipped" in question:
            close_all(descriptors)
            raise _Skipped(question["skipped"])
        return question, descriptors

    def _ask(self, operation: str, question: Message, extra: Message, descriptors: list[int]) -> Message:
        """Ask the worker, and take in what it says beside its answer."""
        request = {"op": operation, **{key: question[key] for key in _SENT if key in question}, **extra}
        patience = self._call_seconds + _MORE_CALLS * float(question.get("reference_seconds", 0.0))
        try:
            answer = checked_answer(self._worker.ask(request, patience, descriptors))
        finally:
            close_all(descriptors)
        self._findings += read_findings(answer["findings"])
        self._notes += [str(note)[:_LONGEST_EVIDENCE] for note in answer["notes"][:_MOST_TOLD]]
        return answer

    def _compared(self, answer: Message, number: int, digest: bool = False) -> Message:
        """Let the bench compare an answer with the question of a number among those drawn last."""
        request = {"op": "compare", "number": number, "digest": digest, **sent_outputs(answer)}
        compared, _ = self._bench.ask(request, self._limits.bench_seconds)
        self._notes += compared["notes"]
        return compared


def _ranges(dynamic: Sequence[tuple[DynamicSize, int]], sizes: Sequence[Sequence[int]]) -> tuple[VerifiedRange, ...]:
    """Return, for each declared dimension, the sizes at which the candidate was right; none if there was no other size."""
    found = []
    for number, (each, drawn) in enumerate(dynamic if sizes else ()):
        seen = sorted({drawn, *(some[number] for some in sizes)})
        found.append(VerifiedRange(each.dims, seen[0], seen[-1], tuple(seen)))
    return tuple(found)


def sent_outputs(answer: Message) -> Message:
    """Return the part of a worker's answer that describes its outputs, for the bench to read."""
    return {key: answer.get(key) for key in ("structure", "outputs", "touched", "absent")}


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
        raise WorkerDied(Death("sent an answer that makes no sense", "", rule=FORGED))
    return answer


def read_findings(found: Sequence[Mapping[str, str]]) -> list[Finding]:
    """Return what a worker reports of its own guard."""
    return [
        Finding(
            str(item.get("rule"))[:_LONGEST_RULE],
            "label" if item.get("severity") == "label" else "reject",
            str(item.get("evidence"))[:_LONGEST_EVIDENCE],
        )
        for item in found[:_MOST_TOLD]
    ]


def less_careful(own_errors: Sequence[float]) -> list[Finding]:
    """Return a label where a candidate was much less exact than the original on all fresh inputs, within the budget."""
    if not own_errors or min(own_errors) < _CARELESS:
        return []
    evidence = f"on fresh inputs its error is {min(own_errors):.1f} times the original's own or more, within the budget"
    return [Finding("less-careful", "label", evidence)]


def death_findings(death: Death) -> list[Finding]:
    """Return the finding for a worker whose end broke a rule of the guard."""
    return [Finding(death.rule, "reject", f"the candidate's process {death.what}")] if death.rule else []


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

"""A candidate in the other forms of its task's class: verified in each, and in a full verdict timed beside eager."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from sandbox.crew import Crew
from sandbox.errors import TaskError
from sandbox.forms import TaskForm
from sandbox.judge_limits import TierLimits
from sandbox.loading import LoadFailed
from sandbox.plans import drawn_size, plan_form_cases
from sandbox.progress import Progress, Stage
from sandbox.timing.profiling import CANDIDATE, EAGER, medians
from sandbox.timing.timekeeper import Timekeeper
from sandbox.verdict import Finding, Tier
from sandbox.verify_report import FormReport, VerifyReport
from sandbox.verifying import Verifier, describe_failure, failed_case
from sandbox.workers import CandidateFailed, Worker, WorkerDied

_TIMING = TierLimits(cases=0, placements=1, profile_seconds=0.6, pairs=60, least_pairs=6)
_TIMING_SECONDS = 20.0
_NO_TIME = "no time was left to look at it in this verdict"


class FormsTrial:
    """Takes one candidate through the forms, in their order.

    A form that fails leaves the worker behind: the next one begins with a new one.

    Args:
        crew: The judge's processes.
        forms: The forms.
        tier: ``quick`` or ``full``.
        progress: Told what is being done.
        start_worker: Starts a worker and loads the candidate in it.
        make_verifier: Makes what asks a worker.
        last_look: Returns what a worker's process is found to have done in the end.
        forgive: Told how a worker ended; raises where that may have been an accident.

    Attributes:
        findings: What the guard found in any of them.
    """

    def __init__(
        self,
        crew: Crew,
        forms: Sequence[TaskForm],
        tier: Tier,
        progress: Progress,
        *,
        start_worker: Callable[[], Worker],
        make_verifier: Callable[[Worker], Verifier],
        last_look: Callable[[Worker], list[Finding]],
        forgive: Callable[[WorkerDied], None],
    ) -> None:
        self._crew = crew
        self._forms = forms
        self._tier = tier
        self._progress = progress
        self._start_worker = start_worker
        self._make_verifier = make_verifier
        self._last_look = last_look
        self._forgive = forgive
        self._worker: Worker | None = None
        self._moved: dict[int, int] = {}
        self.findings: list[Finding] = []

    def verify(self) -> tuple[FormReport, ...]:
        """Verify the candidate in each form that there is time for."""
        amount = self._crew.limits.of(self._tier)
        until = time.monotonic() + amount.forms_seconds
        reports = []
        try:
            for number, form in enumerate(self._forms, 1):
                self._progress(Stage("verify", f"verifying form {number + 1} of {len(self._forms) + 1}"))
                report = FormReport(form.name, number, form.calls, _failed(_NO_TIME))
                reports.append(self._verify(form, report) if time.monotonic() < until else report)
        finally:
            self._leave()
        return tuple(reports)

    def time(self, reports: Sequence[FormReport]) -> tuple[FormReport, ...]:
        """Time the candidate in each form in which it is right, as long as there is time for it."""
        until = time.monotonic() + _TIMING_SECONDS
        pairs = zip(self._forms, reports, strict=True)
        return tuple(self._timed(form, each) if time.monotonic() < until else each for form, each in pairs)

    def _verify(self, form: TaskForm, report: FormReport) -> FormReport:
        bench = self._crew.bench
        with bench.form(form.spec):
            try:
                met, _ = bench.ask({"op": "meet"}, self._crew.limits.open_seconds)
            except TaskError as error:
                return replace(report, verify=_failed(f"the original cannot be judged so: {error.what}"))
            if met["accepted"].get("crowded"):
                return replace(report, verify=_failed("its tensors fill too much of the device"))
            try:
                verifier = self._make_verifier(self._turned(form))
            except CandidateFailed as failure:
                return replace(report, verify=self._lost(describe_failure(failure)))
            except LoadFailed as failure:
                return replace(report, verify=self._lost(str(failure)))
            except WorkerDied as died:
                self._forgive(died)
                return replace(report, verify=self._lost(f"the candidate {died.death.what}"))
            dynamic = [(each, drawn_size(each, met["inputs"])) for each in form.spec.dynamic]
            verification = verifier.verify(plan_form_cases(form.spec, self._tier, met["inputs"]), dynamic)
        self._moved[report.number] = met["accepted"]["bytes_moved"]
        self.findings += verification.findings
        if verifier.died is not None:
            self._forgive(verifier.died)
        if not verification.report.ok:
            self._leave(lost=verifier.died is not None)
        told = met["accepted"]
        return replace(report, verify=verification.report, signature=tuple(told["signature"]), reads=told.get("reads"))

    def _timed(self, form: TaskForm, report: FormReport) -> FormReport:
        if not report.verify.ok:
            return report
        self._progress(Stage("profile", f"timing form {report.number + 1} of {len(self._forms) + 1}"))
        keeper = Timekeeper(self._crew, form.spec, "full", replace(self._crew.limits, full=_TIMING), self._progress)
        try:
            with self._crew.bench.form(form.spec):
                times = keeper.time_form(lambda: self._new_worker(form), self._moved[report.number])
        except (CandidateFailed, LoadFailed, WorkerDied) as failure:
            if isinstance(failure, WorkerDied):
                self._forgive(failure)
            return replace(report, verify=_failed(f"while being timed, the candidate failed: {failure}"))
        self.findings += times.findings
        wrong = [case for case in times.cases if not case.ok]
        if wrong:
            return replace(report, verify=replace(report.verify, ok=False, cases=(*report.verify.cases, *wrong)))
        if times.disturbed:
            return report
        found = [times.judged(form.spec.judged_by)]
        return replace(report, eager_us=medians(found, EAGER), us=medians(found, CANDIDATE))

    def _turned(self, form: TaskForm) -> Worker:
        """Return a worker in which the candidate was built for a form."""
        self._worker = self._worker or self._start_worker()
        self._turn(self._worker, form)
        return self._worker

    def _new_worker(self, form: TaskForm) -> Worker:
        worker = self._start_worker()
        try:
            self._turn(worker, form)
        except BaseException:
            worker.stop()
            raise
        return worker

    def _turn(self, worker: Worker, form: TaskForm) -> None:
        worker.ask({"op": "turn", "spec": form.spec.to_json()}, self._crew.limits.load_seconds)

    def _lost(self, reason: str) -> VerifyReport:
        self._leave(lost=True)
        return _failed(reason)

    def _leave(self, *, lost: bool = False) -> None:
        """Let the worker go, after a last look at it unless it is lost."""
        worker, self._worker = self._worker, None
        if worker is None:
            return
        try:
            if not lost:
                self.findings += self._last_look(worker)
        finally:
            worker.stop()


def _failed(reason: str) -> VerifyReport:
    return VerifyReport(ok=False, cases=(failed_case("this form", reason),))

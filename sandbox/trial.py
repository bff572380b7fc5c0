"""One run of a candidate through build, guard, verify and profile."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from sandbox.build import Built, ExtraFlags, has_sources
from sandbox.build.inspection import Inspection
from sandbox.crew import Crew
from sandbox.forms import forms_of, own_calls
from sandbox.forms_trial import FormsTrial
from sandbox.guard import check_source
from sandbox.guard.findings import contradicted
from sandbox.guard.products import borrowed_products
from sandbox.guard.triton_source import jitted_names
from sandbox.loading import Loader, LoadFailed
from sandbox.plans import CasePlan, drawn_size, plan_cases, plan_crowded_cases
from sandbox.processes import ProcessLost
from sandbox.progress import Progress, Stage
from sandbox.reward import reward
from sandbox.snapshot import Snapshot
from sandbox.task_check import task_check
from sandbox.timing.kernel_runs import with_spills
from sandbox.timing.timekeeper import Timekeeper
from sandbox.verdict import (
    BuildReport,
    Finding,
    GuardReport,
    ProfileReport,
    Seconds,
    TaskIdentity,
    Tier,
    Verdict,
    VerifyCase,
    VerifyReport,
)
from sandbox.verifying import (
    Verification,
    Verifier,
    death_findings,
    describe_death,
    describe_failure,
    failed_case,
)
from sandbox.workers import CandidateFailed, TransportFailed, Worker, WorkerDied

_CALLS_AN_ANSWER = 4
_LOST_DEVICE = "CUDA error"


class Trial:
    """Runs the parts in order and remembers what each left; a part that did not run stays None.

    Args:
        crew: The judge's processes.
        candidate: What is judged.
        tier: ``quick`` or ``full``.
        progress: Told what is being done.
        cancel: Stops the compilers.
        forgiving: Whether a killed worker is taken for an accident, which ``ProcessLost`` tells.
        flags: Flags of the compilers beside the usual ones, for what is no verdict.
        plans: Verification cases instead of the tier's, for what is no verdict.
        ahead: What came of building these very kernels, where that was done before.

    Attributes:
        cancelled: Whether the check was given up.
    """

    def __init__(
        self,
        crew: Crew,
        candidate: Snapshot,
        tier: Tier,
        progress: Progress,
        *,
        forgiving: bool,
        cancel: threading.Event | None,
        flags: ExtraFlags | None = None,
        plans: Sequence[CasePlan] | None = None,
        ahead: Built | None = None,
    ) -> None:
        self._crew = crew
        self._candidate = candidate
        self._tier = tier
        self._progress = progress
        self._forgiving = forgiving
        self._cancel = cancel
        self._flags = flags
        self._given_plans = plans
        self._ahead = ahead
        self._loader = Loader(crew, candidate, found=self._add_findings, forgive=self._forgive)
        self._inspection: Inspection | None = None
        self._build: BuildReport | None = None
        self._guard: GuardReport | None = None
        self._verify: VerifyReport | None = None
        self._profile: ProfileReport | None = None
        self._forms: FormsTrial | None = None
        self._seconds: dict[str, float] = {}
        self._started = time.monotonic()
        self._waited = crew.pool.waited
        self._times = False
        self.cancelled = False

    def run(self, *, timed: bool = True) -> None:
        """Run part after part, until one fails; the last is timing, where that is asked for.

        Raises:
            ProcessLost: A process of the judge's ended, or the worker was killed and may be forgiven.
            TransportFailed: The worker says that it cannot use shared memory, and may be right.
        """
        self._times = timed
        timing = [self._run_profile] if timed else []
        try:
            for part in (self._run_build, self._run_guard, self._run_verify, self._run_forms, *timing):
                if not part():
                    return
            self._time_forms()
        except TransportFailed as failed:
            if self._forgiving or not self._crew.can_share():
                raise
            self._refute(failed)
        finally:
            self._loader.let_go()

    def ready(self, *, verify: bool = True) -> str:
        """Run what comes before timing, for what is no verdict; return what the candidate did wrong, or an empty text."""
        parts = (self._run_build, self._run_guard, *([self._run_verify] if verify else []))
        if all(part() for part in parts):
            return ""
        return reward(self._build, self._guard, self._verify, None)[1]

    def verdict(self, task: TaskIdentity, sha256: str, environment: Mapping[str, Any]) -> Verdict:
        """Return what was found, with its reward."""
        earned, reason = reward(self._build, self._guard, self._verify, self._profile, timed=self._times)
        waited = self._crew.pool.waited - self._waited
        if self.cancelled:
            earned, reason = None, "The check was interrupted before it was finished."
        return Verdict(
            tier=self._tier,
            task=task,
            candidate_sha256=sha256,
            environment=dict(environment),
            build=self._build,
            guard=self._guard,
            verify=self._verify,
            profile=self._profile,
            reward=earned,
            reason=reason,
            task_check=task_check(self._crew.accepted),
            seconds=Seconds(**self._seconds, total=time.monotonic() - self._started - waited, waiting=waited),
        )

    def _run_build(self) -> bool:
        if not has_sources(self._candidate.folder / "kernels"):
            self._build = BuildReport(ok=True, seconds=0.0)
            return True
        with self._part("build", "building the kernels"):
            built = self._ahead or self._crew.build(
                self._candidate.folder / "kernels", self._progress, self._cancel, self._flags
            )
        if built.killed and self._forgiving:
            raise ProcessLost("A compiler was killed.")
        self._build = built.report
        self._loader.expect_kernels(None if built.manifest is None else built.manifest.to_json())
        self._inspection = built.inspection
        return self._build.ok

    def _run_guard(self) -> bool:
        with self._part("guard", "reading the candidate's source"):
            self._guard = check_source(self._candidate.folder, self._crew.spec, self._inspection)
        if self._guard.ok:  # a file that cannot be read has been refused
            self._loader.expect_triton(
                jitted_names(self._candidate.files[self._crew.spec.candidate_file], self._crew.spec)
            )
        return self._guard.ok

    def _run_verify(self) -> bool:
        with self._part("verify", "verifying"), self._crew.pool.shared("verify", "verifying", self._progress):
            verification = self._verification()
            if verification.report.ok:
                self._loader.await_begun()
            else:
                self._loader.let_go()  # nobody is on the way to the device once others may have it alone
        self._verify = verification.report
        self._add_findings(verification.findings)
        return self._passed()

    def _run_forms(self) -> bool:
        """Verify the other forms of the task's class; one in which the candidate is not right is told, and fails nothing."""
        forms = () if self._crew.crowded or self._given_plans else forms_of(self._crew.spec)
        if not forms:
            return True
        self._forms = FormsTrial(
            self._crew,
            forms,
            self._tier,
            self._progress,
            start_worker=self._loader.start_worker,
            make_verifier=self._verifier,
            last_look=self._loader.foreign_code,
            forgive=self._forgive,
        )
        with (
            self._part("verify", "verifying other forms"),
            self._crew.pool.shared("verify", "verifying", self._progress),
        ):
            reports = self._forms.verify()
        assert self._verify is not None  # the task's own form came before
        self._verify = replace(self._verify, forms=reports, calls=own_calls(self._crew.spec))
        self._add_findings(self._forms.findings)
        return self._passed()

    def _time_forms(self) -> None:
        """Time the other forms beside eager, for a full verdict whose times can be trusted."""
        disturbed = self._profile is None or bool(self._profile.disturbed)
        if self._forms is None or self._tier == "quick" or disturbed or not self._passed():
            return
        with self._part("profile", "timing other forms"):
            assert self._verify is not None  # forms are verified after it
            self._verify = replace(self._verify, forms=self._forms.time(self._verify.forms))
        self._add_findings(self._forms.findings)

    def _run_profile(self) -> bool:
        with self._part("profile", "timing"):
            keeper = Timekeeper(self._crew, self._crew.spec, self._tier, self._crew.limits, self._progress)
            try:
                outcome = keeper.time_candidate(self._loader.start_worker, self._loader.make_ready)
            except WorkerDied as died:
                self._forgive(died)
                self._add_findings(death_findings(died.death))
                return self._fail(
                    f"the candidate {describe_death(died.death, self._candidate.files)} while being timed"
                )
            except CandidateFailed as failure:
                return self._fail(f"while being timed, {describe_failure(failure)}")
            except LoadFailed as failure:
                return self._fail(str(failure))
        self._add_cases(outcome.cases)
        self._add_findings(outcome.findings)
        built = () if self._build is None else self._build.kernels
        self._profile = replace(outcome.report, kernels=with_spills(outcome.report.kernels, built))
        return self._passed()

    def start_worker(self) -> Worker:
        """Load the candidate in a new worker, for what is no verdict; raises ``LoadFailed``."""
        return self._loader.start_worker()

    def _verification(self) -> Verification:
        amount = self._crew.limits.of(self._tier)
        if not amount.cases:
            return Verification(VerifyReport(ok=True, notes=("nothing but timed calls was compared",)))
        try:
            worker = self._loader.start_worker()
        except LoadFailed as failure:
            return Verification(VerifyReport(ok=False, cases=(failed_case("load", str(failure)),)))
        try:
            self._loader.look_at_extensions()
            verifier = self._verifier(worker)
            dynamic = [(each, drawn_size(each, self._crew.inputs)) for each in self._crew.spec.dynamic]
            verification = verifier.verify(self._plans(amount.cases), dynamic, self._begin_placements)
            found = self._loader.foreign_code(worker)
        finally:
            worker.stop()
        if self._crew.spec.policy == "own-kernels" and all(each.rule != "delegation" for each in verification.findings):
            found += borrowed_products(worker.printed())
        verification = replace(verification, findings=(*verification.findings, *found))
        if verifier.died is not None:
            self._forgive(verifier.died)
        if verification.failed and _LOST_DEVICE in verification.report.cases[-1].reason:
            return self._located(verification, verification.failed)
        return verification

    def _begin_placements(self) -> None:
        """Let the placements' workers get ready while verifying goes on, where there is room beside the one that verifies."""
        count = self._crew.limits.of(self._tier).placements
        if self._times and self._crew.room_for(count + 1):
            self._loader.begin_workers(count)

    def _verifier(self, worker: Worker) -> Verifier:
        patience = self._crew.patience(_CALLS_AN_ANSWER)
        return Verifier(
            self._crew.bench, worker, self._crew.transport, self._candidate.files, self._crew.limits, patience
        )

    def _located(self, verification: Verification, failed: CasePlan) -> Verification:
        """Find the kernel that lost the device by waiting for each one; without it the error shows up anywhere."""
        try:
            worker = self._loader.start_worker({"CUDA_LAUNCH_BLOCKING": "1"})
        except LoadFailed:
            return verification
        try:
            verifier = self._verifier(worker)
            again = verifier.verify([failed])
        finally:
            worker.stop()
        return verification if again.report.ok else again

    def _forgive(self, died: WorkerDied) -> None:
        """Take the first time a worker is killed for an accident: it may have been anybody."""
        if died.death.killed and self._forgiving:
            raise ProcessLost(f"The candidate's process {died.death.what}.") from died

    def _plans(self, count: int) -> Sequence[CasePlan]:
        """Return the cases of this tier, or those that were given."""
        if self._given_plans:
            return self._given_plans
        if self._crew.crowded:
            return plan_crowded_cases(self._crew.spec, self._tier, count, self._crew.inputs)
        return plan_cases(self._crew.spec, self._tier, count, self._crew.inputs, bool(self._crew.accepted["mutates"]))

    def _refute(self, failed: TransportFailed) -> None:
        """Blame the candidate for what its process says of shared memory: another can use it."""
        self._verify = self._verify or VerifyReport(ok=True)
        self._fail(f"its process says that memory cannot be shared ({failed}), and one without the candidate shares it")

    def _fail(self, reason: str) -> bool:
        self._add_cases([failed_case("timed calls", reason)])
        return False

    def _add_cases(self, cases: list[VerifyCase]) -> None:
        assert self._verify is not None  # timing comes after verifying
        everything = (*self._verify.cases, *cases)
        self._verify = replace(self._verify, ok=all(case.ok for case in everything), cases=everything)

    def _add_findings(self, findings: Sequence[Finding]) -> None:
        assert self._guard is not None  # the static guard came before
        everything = tuple(dict.fromkeys((*self._guard.findings, *findings)))
        everything = tuple(dict.fromkeys((*everything, *contradicted(everything))))
        self._guard = GuardReport(all(finding.severity != "reject" for finding in everything), everything)

    def _passed(self) -> bool:
        return all(part is not None and part.ok for part in (self._build, self._guard, self._verify))

    @contextmanager
    def _part(self, name: str, text: str) -> Iterator[None]:
        self._progress(Stage(name, text))
        started, waited = time.monotonic(), self._crew.pool.waited
        try:
            yield
        finally:
            took = time.monotonic() - started - (self._crew.pool.waited - waited)
            self._seconds[name] = self._seconds.get(name, 0.0) + took

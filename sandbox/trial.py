"""One run of a candidate through build, guard, verify and profile."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sandbox.build import build_kernels
from sandbox.crew import Crew
from sandbox.guard import check_source
from sandbox.isolation import Isolation
from sandbox.judge_limits import JudgeLimits
from sandbox.progress import Progress, Stage
from sandbox.reward import reward
from sandbox.task import TaskSpec
from sandbox.verdict import (
    BuildReport,
    Finding,
    GuardReport,
    ProfileReport,
    Seconds,
    TaskIdentity,
    Tier,
    Verdict,
    VerifyReport,
)
from sandbox.verifying import CasePlan, Verification, describe_death, describe_failure, failed_case, verify
from sandbox.workers import CandidateFailed, Worker, WorkerDied


class Trial:
    """Runs the parts in order and remembers what each left; a part that did not run stays None."""

    def __init__(
        self,
        crew: Crew,
        spec: TaskSpec,
        isolation: Isolation,
        snapshot: Path,
        files: Mapping[str, bytes],
        tier: Tier,
        limits: JudgeLimits,
        progress: Progress,
    ) -> None:
        self._crew = crew
        self._spec = spec
        self._isolation = isolation
        self._snapshot = snapshot
        self._files = files
        self._tier = tier
        self._limits = limits
        self._progress = progress
        self._manifest: dict[str, Any] | None = None
        self._build: BuildReport | None = None
        self._guard: GuardReport | None = None
        self._verify: VerifyReport | None = None
        self._profile: ProfileReport | None = None
        self._seconds: dict[str, float] = {}
        self._started = time.monotonic()
        self.cancelled = False

    def run(self) -> None:
        """Run part after part, until one fails."""
        for part in (self._run_build, self._run_guard, self._run_verify):
            if not part():
                return

    def verdict(self, task: TaskIdentity, sha256: str, environment: Mapping[str, Any]) -> Verdict:
        """Return what was found, with its reward."""
        earned, reason = reward(self._build, self._guard, self._verify, self._profile)
        if self.cancelled:
            earned, reason = None, "The check was interrupted before it was finished."
        seconds = Seconds(**self._seconds, total=time.monotonic() - self._started)
        return Verdict(
            self._tier,
            task,
            sha256,
            dict(environment),
            self._build,
            self._guard,
            self._verify,
            self._profile,
            earned,
            reason,
            seconds,
        )

    def _run_build(self) -> bool:
        with self._part("build", "building the kernels"):
            built = build_kernels(
                self._snapshot / "kernels",
                arch=self._crew.environment.get("sm") or "cpu",
                cache=self._crew.kernels_cache,
                isolation=self._isolation,
                progress=self._progress,
            )
        self._build = built.report
        self._manifest = None if built.manifest is None else built.manifest.to_json()
        return built.report.ok

    def _run_guard(self) -> bool:
        with self._part("guard", "reading the candidate's source"):
            self._guard = check_source(self._snapshot, self._spec)
        return self._guard.ok

    def _run_verify(self) -> bool:
        with self._part("verify", "verifying"):
            verification = self._verification()
        self._verify = verification.report
        self._add_findings(verification.findings)
        return self._verify.ok and self._guard is not None and self._guard.ok

    def _verification(self) -> Verification:
        worker = self._crew.start_worker(self._snapshot)
        try:
            problem = self._load(worker)
            if problem:
                return Verification(VerifyReport(ok=False, cases=(failed_case("load", problem),)))
            plans = [CasePlan(f"fresh inputs {number}") for number in range(1, self._limits.quick.cases + 1)]
            return verify(self._crew.bench, worker, plans, self._files, self._limits)
        finally:
            worker.stop()

    def _load(self, worker: Worker) -> str:
        """Load the candidate in a worker; return what is wrong with it, or an empty string."""
        request = {
            "op": "load",
            "folder": str(self._snapshot),
            "manifest": self._manifest,
            "threads": self._crew.threads,
        }
        try:
            worker.ask(request, self._limits.load_seconds)
        except WorkerDied as died:
            return f"The candidate {describe_death(died.death, self._files)} while loading."
        except CandidateFailed as failure:
            return describe_failure(failure)
        return ""

    def _add_findings(self, findings: tuple[Finding, ...]) -> None:
        if self._guard is not None and findings:
            everything = (*self._guard.findings, *findings)
            self._guard = GuardReport(all(f.severity != "reject" for f in everything), everything)

    @contextmanager
    def _part(self, name: str, text: str) -> Iterator[None]:
        self._progress(Stage(name, text))
        started = time.monotonic()
        try:
            yield
        finally:
            self._seconds[name] = time.monotonic() - started

"""The verdict: the one immutable record that judging a candidate leaves, and its JSON form.

The JSON form (schema ``warpsmith.verdict/1``) is a contract: keys may be added, never renamed. A part that did not run
is null; the reward is null when nothing could be judged.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from sandbox.task import JudgedBy
from sandbox.verify_report import OTHER_MODE as OTHER_MODE
from sandbox.verify_report import VerifiedRange as VerifiedRange
from sandbox.verify_report import VerifyCase as VerifyCase
from sandbox.verify_report import VerifyReport as VerifyReport
from sandbox.verify_report import known

SCHEMA = "warpsmith.verdict/1"

Tier = Literal["quick", "full"]
Reward = Literal[-1, 1, 2, 3]
Severity = Literal["reject", "label"]


@dataclass(frozen=True)
class TaskIdentity:
    """Which task was judged: its name, the hash of the reference's source, its precision class and its policy."""

    id: str
    source_sha256: str
    precision: str
    policy: str


@dataclass(frozen=True)
class Diagnostic:
    """One compiler or binding message, reduced to file, line and text. Line 0 means the whole file."""

    file: str
    line: int
    message: str


@dataclass(frozen=True)
class KernelResources:
    """What one device kernel uses, from the assembler: registers a thread, static shared and spilled bytes."""

    name: str
    registers: int
    shared_bytes: int
    spill_bytes: int


@dataclass(frozen=True)
class BuildReport:
    """Outcome of compiling and binding every kernel file. ``seconds`` is wall time."""

    ok: bool
    seconds: float
    kernels: tuple[KernelResources, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True)
class Finding:
    """One thing a guard found: which rule, whether it rejects or only labels, and the evidence a person can check."""

    rule: str
    severity: Severity
    evidence: str


@dataclass(frozen=True)
class GuardReport:
    """Findings of the static and the dynamic guard. ``ok`` is false when any finding rejects."""

    ok: bool
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Speedup:
    """How much faster the candidate is: baseline time over candidate time, with a two-sided 95 % interval."""

    ratio: float
    low: float
    high: float


@dataclass(frozen=True)
class Baseline:
    """One way of running the reference. Times in microseconds; ``error`` says why it could not be timed.

    Attributes:
        warm_us: As ``device_us``, with warm caches.
        graphs: Whether it replays CUDA graphs, which take the host's share of launching away; see ``graph_us``.
        prepare_seconds: How long torch.compile took to get it ready; null where there was nothing to do.
    """

    mode: str
    device_us: float | None
    latency_us: float | None = None
    error: str = ""
    warm_us: float | None = None
    graphs: bool = False
    prepare_seconds: float | None = None

    def us(self, judged_by: JudgedBy) -> float | None:
        """Return the time that the task is judged by."""
        return self.latency_us if judged_by == "latency" else self.device_us


@dataclass(frozen=True)
class KernelRun:
    """What one device kernel did in one call of the candidate, as the device's tracer saw it.

    Attributes:
        name: The function's name, without parameters.
        calls: Launches in one call of the candidate.
        us: Microseconds of all of them; ``share`` of the call's whole device time.
        registers: A thread's.
        shared_bytes: A block's, static and dynamic.
        spill_bytes: From the build; null for a kernel that was not built here.
        blocks: Of one launch.
        threads: Of a block.
        occupancy: Warps that fit on a multiprocessor over the most it holds; null where the tracer gave no geometry.
    """

    name: str
    calls: int
    us: float
    share: float
    registers: int | None = None
    shared_bytes: int | None = None
    spill_bytes: int | None = None
    blocks: int | None = None
    threads: int | None = None
    occupancy: float | None = None


@dataclass(frozen=True)
class ProfileReport:
    """Times of candidate and baselines, all measured interleaved in the same seconds.

    Attributes:
        device_us: Candidate, first to last device work of one call, median over placements (on the CPU: wall time of a call).
            By events, without what two of them cost.
        latency_us: Candidate, from an idle device to a synchronised end of one call.
        baselines: By name: ``eager``, ``compile`` (torch.compile's default mode), every other mode, ``best`` (the fastest
            measured) and, where that one replays CUDA graphs, ``best-no-graphs`` (the fastest that does not).
        speedup: By the same names; absent for a baseline that could not be timed.
        copy_us: A plain copy of as many bytes as the task must read and write.
        samples: Raw microseconds of what the task is judged by, ``samples[side][placement]``, side being ``candidate`` or
            a baseline's mode.
        disturbed: Why the times cannot be trusted, or empty.
        notes: What a reader should know ("too short to call", how wide the interval is).
        judged_by: Which time speedups and reward are about.
        warm_us: Candidate, as ``device_us`` with warm caches; full verdicts only.
        graph_us: Candidate, replayed as a CUDA graph, as ``device_us``; null where that was not done.
        graph_error: Why it cannot be captured into one, or empty.
        event_us: What two events around nothing read, which every time on the device, also of the baselines, is without; 0
            on the CPU.
        kernels: What ran on the device in one call, by time; empty on the CPU and in quick verdicts.
        remarkable: Set where the gain is so large that the developer's eyes are needed: what to look for.
    """

    device_us: float
    latency_us: float
    baselines: dict[str, Baseline]
    speedup: dict[str, Speedup]
    copy_us: float
    samples: dict[str, list[list[float]]]
    disturbed: str = ""
    notes: tuple[str, ...] = ()
    judged_by: JudgedBy = "device"
    warm_us: float | None = None
    graph_us: float | None = None
    graph_error: str = ""
    event_us: float = 0.0
    kernels: tuple[KernelRun, ...] = ()
    remarkable: str = ""

    @property
    def us(self) -> float:
        """The candidate's time that the task is judged by."""
        return self.latency_us if self.judged_by == "latency" else self.device_us

    @property
    def placements(self) -> int:
        """How many placements the candidate was timed in."""
        return len(self.samples.get("candidate", ()))


@dataclass(frozen=True)
class Seconds:
    """Wall seconds spent on each part; a part that did not run is 0.

    ``waiting`` is what was waited for other judges to leave the device. It comes on top: no part and no total holds it.
    """

    build: float = 0.0
    guard: float = 0.0
    verify: float = 0.0
    profile: float = 0.0
    total: float = 0.0
    waiting: float = 0.0


@dataclass(frozen=True)
class TaskCheck:
    """What was found out when the task was accepted: it is deterministic, and no trivial answer passes.

    Attributes:
        precision: The class it really runs in; whether it uses TF32 is measured.
        depends_on: Inputs, parameters and buffers that its output depends on.
        ignores: Those that it does not depend on.
        notes: Anything else that was noticed.
    """

    precision: str
    depends_on: tuple[str, ...]
    ignores: tuple[str, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """The result of judging one candidate.

    Attributes:
        candidate_sha256: Hash over the judged files (paths and contents).
        environment: Device, sm, driver, torch, cuda, isolation and whatever else the times depend on.
        reason: One sentence a person can act on, naming whose fault it is.
        source_sha256: Hash over what those files say, the same where comments and layout alone differ; empty where it is
            not known.
    """

    tier: Tier
    task: TaskIdentity
    candidate_sha256: str
    environment: dict[str, Any]
    build: BuildReport | None
    guard: GuardReport | None
    verify: VerifyReport | None
    profile: ProfileReport | None
    reward: Reward | None
    reason: str
    seconds: Seconds = field(default_factory=Seconds)
    task_check: TaskCheck | None = None
    source_sha256: str = ""

    @property
    def correct(self) -> bool:
        """Whether the candidate was built, passed the guard and agreed with the oracle."""
        parts = (self.build, self.guard, self.verify)
        return all(part is not None and part.ok for part in parts)

    @property
    def over_eager(self) -> Speedup | None:
        """How much faster than eager the candidate is; null where it was not timed."""
        return self.profile.speedup.get("eager") if self.profile else None

    @property
    def coverage(self) -> str:
        """Say what of the developer's run is covered, and how fast its calls are together; empty with a single form."""
        if self.verify is None or not self.verify.coverage:
            return ""
        together = self.over_all_calls
        return self.verify.coverage + (f"; all of them together {together:.2f} times as fast" if together else "")

    @property
    def over_all_calls(self) -> float | None:
        """How much faster than eager the run's calls of all forms are together; null where one of them was not timed.

        A form that is not covered takes as long as before. From single placements, so a figure without an interval.
        """
        if self.verify is None or self.profile is None or not (self.verify.forms and self.verify.calls):
            return None
        eager = (
            self.profile.baselines["eager"].us(self.profile.judged_by) if "eager" in self.profile.baselines else None
        )
        if eager is None or any(form.eager_us is None for form in self.verify.forms):
            return None
        before, now = self.verify.calls * eager, self.verify.calls * self.profile.us
        for form in self.verify.forms:
            before += form.calls * (form.eager_us or 0.0)
            now += form.calls * ((form.us if form.covered else form.eager_us) or 0.0)
        return before / now if now else None

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form, schema ``warpsmith.verdict/1``."""
        data = asdict(self)
        candidate = {"sha256": data.pop("candidate_sha256"), "source_sha256": data.pop("source_sha256")}
        return {"schema": SCHEMA, **data, "candidate": candidate}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Verdict:
        """Rebuild a verdict from its JSON form; unknown keys, which newer versions may add, are ignored."""
        build, guard, verify, profile = (data.get(part) for part in ("build", "guard", "verify", "profile"))
        return cls(
            tier=data["tier"],
            task=known(TaskIdentity, data["task"]),
            candidate_sha256=data["candidate"]["sha256"],
            environment=data["environment"],
            build=None
            if build is None
            else BuildReport(
                ok=build["ok"],
                seconds=build["seconds"],
                kernels=tuple(known(KernelResources, k) for k in build["kernels"]),
                diagnostics=tuple(known(Diagnostic, d) for d in build["diagnostics"]),
            ),
            guard=None
            if guard is None
            else GuardReport(guard["ok"], tuple(known(Finding, f) for f in guard["findings"])),
            verify=None if verify is None else VerifyReport.from_json(verify),
            profile=None if profile is None else _profile(profile),
            reward=data["reward"],
            reason=data["reason"],
            seconds=known(Seconds, data["seconds"]),
            task_check=_task_check(data["task_check"]) if data.get("task_check") else None,
            source_sha256=data["candidate"].get("source_sha256", ""),
        )


def _profile(data: dict[str, Any]) -> ProfileReport:
    return replace(
        known(ProfileReport, data),
        baselines={name: known(Baseline, baseline) for name, baseline in data["baselines"].items()},
        speedup={name: known(Speedup, gain) for name, gain in data["speedup"].items()},
        notes=tuple(data.get("notes", ())),
        kernels=tuple(known(KernelRun, kernel) for kernel in data.get("kernels", ())),
    )


def _task_check(data: dict[str, Any]) -> TaskCheck:
    lists = {key: tuple(data[key]) for key in ("depends_on", "ignores", "notes")}
    return known(TaskCheck, {**data, **lists})

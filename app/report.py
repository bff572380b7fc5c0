"""A verdict as text for people: the reason first, then the parts in the order they ran."""

from __future__ import annotations

from app.badge import isolation_badge
from sandbox.guard.policy import policy_text
from sandbox.task_check import PASSED
from sandbox.timing.floor import share_of_copy
from sandbox.verdict import (
    Baseline,
    BuildReport,
    GuardReport,
    KernelRun,
    ProfileReport,
    TaskCheck,
    Verdict,
    VerifyCase,
    VerifyReport,
)

MOST_ROWS = 20


def report(verdict: Verdict) -> str:
    """Return the verdict as plain lines, at most a screen."""
    reward = "none" if verdict.reward is None else str(verdict.reward)
    where = verdict.environment
    lines = [
        f"{verdict.task.id}  {verdict.tier} verdict  {verdict.task.precision}  {verdict.task.policy}",
        f"reward   {reward}",
        f"reason   {verdict.reason}",
        *_remarkable(verdict.profile),
        *_task(verdict.task_check),
        *_build(verdict.build),
        *_guard(verdict.guard, policy_text(verdict)),
        *_verify(verdict.verify),
        *([f"           {verdict.coverage}"] if verdict.coverage else []),
        *_profile(verdict.profile),
        f"on       {where.get('device', '?')}, torch {where.get('torch', '?')}, isolation {isolation_badge(where) or '?'}",
        "seconds  "
        + "  ".join(
            f"{part} {getattr(verdict.seconds, part):.2f}" for part in ("build", "guard", "verify", "profile", "total")
        )
        + (f", and {verdict.seconds.waiting:.2f} waiting for the device" if verdict.seconds.waiting else ""),
    ]
    return "\n".join(lines)


def mark(ok: bool) -> str:
    """Return a sign that needs no colour."""
    return "✓" if ok else "✗"


def _build(build: BuildReport | None) -> list[str]:
    if build is None:
        return []
    lines = [f"build    {mark(build.ok)}"]
    lines += [f"           {d.file}:{d.line}: {d.message}" for d in build.diagnostics[:MOST_ROWS]]
    lines += [
        f"           {k.name}: {k.registers} registers, {k.shared_bytes} B shared, {k.spill_bytes} B spilled"
        for k in build.kernels[:MOST_ROWS]
    ]
    return lines


def _guard(guard: GuardReport | None, policy: str) -> list[str]:
    if guard is None:
        return []
    return [f"guard    {mark(guard.ok)}  {policy}".rstrip()] + [
        f"           {f.severity}: {f.rule}: {f.evidence}" for f in guard.findings[:MOST_ROWS]
    ]


def _verify(verify: VerifyReport | None) -> list[str]:
    if verify is None:
        return []
    lines = [f"verify   {mark(verify.ok)} {verify.agreement}"]
    lines += [f"           {case.name}: {case.reason}{_error(case)}" for case in verify.cases if not case.ok][
        :MOST_ROWS
    ]
    lines += [f"           sizes: {each}" for each in verify.ranges]
    lines += [f"           form: {each}" for each in verify.forms]
    return lines + [f"           note: {note}" for note in verify.notes]


def _error(case: VerifyCase) -> str:
    if case.max_abs_error is None:
        return ""
    return f" (largest error {case.max_abs_error:.3g})"


def _remarkable(profile: ProfileReport | None) -> list[str]:
    return [f"LOOK     {profile.remarkable}"] if profile is not None and profile.remarkable else []


def _task(check: TaskCheck | None) -> list[str]:
    if check is None:
        return []
    lines = [f"task     ✓ {PASSED}"]
    lines += [f"           its output ignores {', '.join(check.ignores)}"] if check.ignores else []
    return lines + [f"           note: {note}" for note in check.notes[:MOST_ROWS]]


def _profile(profile: ProfileReport | None) -> list[str]:
    if profile is None:
        return []
    lines = [f"profile  {mark(not profile.disturbed)} {_times(profile) if profile.device_us else 'not timed'}"]
    lines += ["           judged by latency"] if profile.judged_by == "latency" else []
    lines += [_against(name, baseline, profile) for name, baseline in profile.baselines.items()]
    lines += [f"           {text}" for text in (floor_line(profile), graph_line(profile)) if text]
    lines += [f"           ran {kernel_line(kernel)}" for kernel in profile.kernels[:MOST_ROWS]]
    disturbed = [f"           disturbed: {profile.disturbed}"] if profile.disturbed else []
    return lines + disturbed + [f"           note: {note}" for note in profile.notes]


def _times(profile: ProfileReport) -> str:
    warm = f", {profile.warm_us:.1f} µs with warm caches" if profile.warm_us else ""
    return f"{profile.device_us:.1f} µs device{warm}, {profile.latency_us:.1f} µs latency"


def floor_line(profile: ProfileReport) -> str:
    """Say how near the candidate is to a plain copy."""
    share = share_of_copy(profile.device_us, profile.copy_us)
    return f"a plain copy takes {profile.copy_us:.1f} µs: the candidate reaches {share}" if share else ""


def graph_line(profile: ProfileReport) -> str:
    """Say what the candidate takes as a CUDA graph, beside the original as one; or why it cannot be one."""
    if profile.graph_error:
        return f"as a CUDA graph: {profile.graph_error}"
    if profile.graph_us is None:
        return ""
    eager = profile.baselines.get("eager-cudagraph")
    beside = f", the original {eager.device_us:.1f} µs" if eager is not None and eager.device_us else ""
    return f"as a CUDA graph the candidate takes {profile.graph_us:.1f} µs{beside}"


def kernel_line(kernel: KernelRun) -> str:
    """Return one kernel of a call: calls, time, share, and what a block of it takes, as far as that is known."""
    facts = [f"{kernel.us:.1f} µs", f"{kernel.share:.0%}"]
    facts += [f"{kernel.registers} registers"] if kernel.registers is not None else []
    facts += [f"{kernel.shared_bytes} B shared"] if kernel.shared_bytes is not None else []
    facts += [f"{kernel.spill_bytes} B spilled"] if kernel.spill_bytes else []
    facts += [f"{kernel.blocks} × {kernel.threads} threads"] if kernel.blocks and kernel.threads else []
    facts += [f"occupancy {kernel.occupancy:.0%}"] if kernel.occupancy is not None else []
    return f"{kernel.calls} × {kernel.name}: {', '.join(facts)}"


def _against(name: str, baseline: Baseline, profile: ProfileReport) -> str:
    us, speedup = baseline.us(profile.judged_by), profile.speedup.get(name)
    if us is None or speedup is None:
        return f"           against {name}: not timed{f' ({baseline.error})' if baseline.error else ''}"
    mode = f" ({baseline.mode})" if baseline.mode != name else ""
    interval = f"[{speedup.low:.2f}, {speedup.high:.2f}]"
    facts = [f"warm {baseline.warm_us:.1f} µs"] if baseline.warm_us else []
    facts += ["CUDA graphs"] if baseline.graphs else []
    facts += [f"ready after {baseline.prepare_seconds:.1f} s"] if baseline.prepare_seconds and not mode else []
    told = f"  ({', '.join(facts)})" if facts else ""
    return f"           {speedup.ratio:.2f}× against {name}{mode} at {us:.1f} µs  {interval}{told}"

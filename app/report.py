"""A verdict as text for people: the reason first, then the parts in the order they ran."""

from __future__ import annotations

from sandbox.verdict import Baseline, BuildReport, GuardReport, ProfileReport, Speedup, Verdict, VerifyReport

MOST_ROWS = 20


def report(verdict: Verdict) -> str:
    """Return the verdict as plain lines, at most a screen."""
    reward = "none" if verdict.reward is None else str(verdict.reward)
    where = verdict.environment
    lines = [
        f"{verdict.task.id}  {verdict.tier} verdict  {verdict.task.precision}  {verdict.task.policy}",
        f"reward   {reward}",
        f"reason   {verdict.reason}",
        *_build(verdict.build),
        *_guard(verdict.guard),
        *_verify(verdict.verify),
        *_profile(verdict.profile),
        f"on       {where.get('device', '?')}, torch {where.get('torch', '?')}, isolation {where.get('isolation', '?')}",
        "seconds  "
        + "  ".join(
            f"{part} {getattr(verdict.seconds, part):.2f}" for part in ("build", "guard", "verify", "profile", "total")
        ),
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


def _guard(guard: GuardReport | None) -> list[str]:
    if guard is None:
        return []
    return [f"guard    {mark(guard.ok)}"] + [
        f"           {f.severity}: {f.rule}: {f.evidence}" for f in guard.findings[:MOST_ROWS]
    ]


def _verify(verify: VerifyReport | None) -> list[str]:
    if verify is None:
        return []
    good = sum(case.ok for case in verify.cases)
    lines = [f"verify   {mark(verify.ok)} {good} of {len(verify.cases)} cases"]
    lines += [f"           {case.name}: {case.reason}" for case in verify.cases if not case.ok][:MOST_ROWS]
    return lines + [f"           note: {note}" for note in verify.notes]


def _profile(profile: ProfileReport | None) -> list[str]:
    if profile is None:
        return []
    times = f"{profile.device_us:.1f} µs device, {profile.latency_us:.1f} µs latency, "
    times += f"a plain copy takes {profile.copy_us:.1f} µs"
    lines = [f"profile  {mark(not profile.disturbed)} {times if profile.device_us else 'not timed'}"]
    lines += [_against(name, baseline, profile.speedup.get(name)) for name, baseline in profile.baselines.items()]
    disturbed = [f"           disturbed: {profile.disturbed}"] if profile.disturbed else []
    return lines + disturbed + [f"           note: {note}" for note in profile.notes]


def _against(name: str, baseline: Baseline, speedup: Speedup | None) -> str:
    if baseline.device_us is None or speedup is None:
        return f"           against {name}: not timed{f' ({baseline.error})' if baseline.error else ''}"
    mode = f" ({baseline.mode})" if baseline.mode != name else ""
    interval = f"[{speedup.low:.2f}, {speedup.high:.2f}]"
    return f"           {speedup.ratio:.2f}× against {name}{mode} at {baseline.device_us:.1f} µs  {interval}"

"""What the judge measured, in words sized for a model: the whole of what matters, in under sixty lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sandbox.reward import undecided
from sandbox.verdict import BuildReport, GuardReport, ProfileReport, Verdict, VerifyReport

_DIAGNOSTICS = 15
_FINDINGS = 8
_CASES = 8
_KERNELS = 8
_OPERATORS = 12
_LINES = 12
_WIDTH = 600
_NO_TRUST = "times are not to be trusted"
"""How the judge begins the note that says why."""


def verdict_text(verdict: Verdict, attempt: int) -> str:
    """Return a verdict as text: outcome first, then what each part found, then what the next reward takes."""
    reward = "none" if verdict.reward is None else str(verdict.reward)
    lines = [f"Attempt {attempt} ({verdict.tier}): reward {reward}. {verdict.reason}"]
    if verdict.build:
        lines += _build(verdict.build)
    if verdict.guard:
        lines += _guard(verdict.guard)
    if verdict.verify:
        lines += _verify(verdict.verify)
    if verdict.profile:
        lines += _profile(verdict.profile, verdict.environment.get("device") == "cpu")
    if next_step := _remeasure(verdict) or _next_reward(verdict):
        lines.append(next_step)
    return "\n".join(_clipped(line) for line in lines)


def _build(build: BuildReport) -> Iterator[str]:
    yield f"build: {'ok' if build.ok else 'FAILED'} in {build.seconds:.1f} s"
    yield from _first(
        _DIAGNOSTICS,
        [f"  {d.file}:{d.line}: {d.message}" if d.line else f"  {d.file}: {d.message}" for d in build.diagnostics],
    )
    yield from _first(_KERNELS, [_kernel(k.name, k.registers, k.shared_bytes, k.spill_bytes) for k in build.kernels])


def _kernel(name: str, registers: int, shared: int, spilled: int) -> str:
    spills = f", SPILLS {spilled} bytes" if spilled else ", no spills"
    return f"  {name}: {registers} registers, {shared} bytes shared{spills}"


def _guard(guard: GuardReport) -> Iterator[str]:
    yield f"guard: {'ok' if guard.ok else 'REJECTED'}"
    yield from _first(_FINDINGS, [f"  {f.severity} {f.rule}: {f.evidence}" for f in guard.findings])


def _verify(verify: VerifyReport) -> Iterator[str]:
    failed = [case for case in verify.cases if not case.ok]
    yield f"verify: {'ok' if verify.ok else 'FAILED'}, {len(verify.cases) - len(failed)} of {len(verify.cases)} cases agree"
    yield from _first(_CASES, [f"  {c.name}: {c.reason}{_errors(c.max_abs_error, c.max_rel_error)}" for c in failed])
    yield from (f"  note: {note}" for note in verify.notes[:4])


def _errors(absolute: float | None, relative: float | None) -> str:
    if absolute is None or relative is None:
        return ""
    return f" (max error {absolute:.3g} absolute, {relative:.3g} relative)"


def _profile(profile: ProfileReport, on_cpu: bool) -> Iterator[str]:
    device, latency = microseconds(profile.device_us), microseconds(profile.latency_us)
    times = f"{device} a call" if on_cpu else f"{device} on the device, {latency} latency"
    yield f"profile: {times if profile.device_us > 0 else 'no time could be taken'}"
    if profile.disturbed:
        yield f"  DISTURBED, which is not the kernel's fault; the times below cannot be trusted: {profile.disturbed}"
    for name, baseline in profile.baselines.items():
        mode = f" ({baseline.mode})" if baseline.mode != name else ""
        if baseline.device_us is None:
            yield f"  {name}{mode}: could not be timed: {baseline.error or profile.disturbed or 'no reason was given'}"
        elif name in profile.speedup:
            gain = profile.speedup[name]
            interval = f"{gain.ratio:.3f}x [{gain.low:.3f}, {gain.high:.3f}]"
            yield f"  against {name}{mode} at {microseconds(baseline.device_us)}: {interval}"
    if profile.copy_us > 0:
        distance = profile.device_us / profile.copy_us
        yield f"  a copy of the same bytes takes {microseconds(profile.copy_us)}: you are at {distance:.2f} times that"
    if profile.speedup:
        yield "  intervals are 95 %, over placements; a placement is a new process with new buffers"
    yield from (f"  note: {note}" for note in profile.notes[:6])


def _remeasure(verdict: Verdict) -> str:
    """Say how to measure again where this measurement, and not the candidate, is what stands in the way."""
    if verdict.profile is None:
        return ""
    if verdict.profile.disturbed:
        return "The times were disturbed from outside, so there is no reward; change nothing for it. Check again."
    if verdict.correct and (name := undecided(verdict.profile)):
        more = (
            "Check again" if verdict.tier == "full" else "Check again, or with tier full, which draws more placements"
        )
        return f"The interval against {name} is too wide, not the kernel too slow: {more}."
    return ""


def _next_reward(verdict: Verdict) -> str:
    """Say which times the next reward takes; the whole interval has to be under 0.95 of the baseline's time."""
    if verdict.profile is None or verdict.reward not in (1, 2):
        return ""
    name = "eager" if verdict.reward == 1 else "compile"
    gain, baseline = verdict.profile.speedup.get(name), verdict.profile.baselines.get(name)
    if gain is None or baseline is None or baseline.device_us is None:
        return ""
    aim = min(baseline.device_us * 0.95 * 0.97, verdict.profile.device_us)
    return (
        f"For reward {verdict.reward + 1} the interval against {name} must lie above {1 / 0.95:.3f}x as a whole; "
        f"it begins at {gain.low:.3f}x. Aim below {microseconds(aim)}."
    )


def original_text(profile: Mapping[str, Any]) -> str:
    """Return an ``OriginalProfile`` (its JSON) as text: signature, operators by time, baselines, floor, dependencies."""
    lines = [_device(profile["environment"])]
    lines += ["signature:", *_first(2 * _LINES, [f"  {line}" for line in profile["signature"]])]
    lines.append(f"precision class: {profile['precision']}")
    if unsure := [note for note in profile["notes"] if _NO_TRUST in note]:
        lines.append(
            f"THE TIMES BELOW ARE UNRELIABLE; Check times the baselines anew beside the candidate: {unsure[0]}"
        )
    lines.append("operators by time in one forward:")
    operators = [f"  {o['us']:9.1f} us {o['share']:6.1%} {o['calls']:4d} x {o['name']}" for o in profile["operators"]]
    lines += _first(_OPERATORS, operators)
    lines.append("baselines:")
    for name, baseline in profile["baselines"].items():
        mode = f" ({baseline['mode']})" if baseline["mode"] != name else ""
        time = baseline["device_us"]
        lines.append(f"  {name}{mode}: " + (baseline["error"] if time is None else microseconds(time)))
    copy = f"a copy of the {profile['bytes_moved']:,} bytes it must move takes {microseconds(profile['copy_us'])}"
    lines.append(f"floor of memory-bound work: {copy}")
    lines.append(f"its output depends on: {', '.join(profile['depends_on'])}")
    if profile["ignores"]:
        lines.append(f"it ignores: {', '.join(profile['ignores'])}")
    lines += [f"note: {note}" for note in profile["notes"][:_LINES]]
    return "\n".join(_clipped(line) for line in lines)


def _device(environment: Mapping[str, Any]) -> str:
    facts = (environment.get("cpu"), environment.get("sm"), f"torch {environment.get('torch', 'unknown')}")
    device = environment.get("device", "unknown")
    threads = environment.get("threads") if device == "cpu" else None
    judged = f"; the judge calls candidate and baselines with {threads} threads" if threads else ""
    return f"device: {device} ({', '.join(filter(None, facts))}){judged}"


def microseconds(value: float) -> str:
    """Return a time with three digits and its unit."""
    return f"{value:.3g} us" if value < 1000 else f"{value / 1000:.3g} ms"


def _first(count: int, lines: Sequence[str]) -> Iterable[str]:
    rest = len(lines) - count
    return [*lines[:count], f"  ... and {rest} more"] if rest > 0 else lines


def _clipped(line: str) -> str:
    return line if len(line) <= _WIDTH else f"{line[:_WIDTH]}..."

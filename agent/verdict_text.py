"""What the judge measured, in words sized for a model: the whole of what matters, in under sixty lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sandbox.guard.policy import policy_text
from sandbox.reward import undecided
from sandbox.task import JudgedBy
from sandbox.task_check import PASSED
from sandbox.timing.floor import share_of_copy
from sandbox.timing.statistics import FASTER, SHORT_GAIN, SHORT_US
from sandbox.verdict import Baseline, BuildReport, GuardReport, KernelRun, ProfileReport, Verdict, VerifyReport

_DIAGNOSTICS = 10
_SAME_LINES = 6
_FINDINGS = 8
_CASES = 8
_NOTES = 6
_KERNELS = 8
_OPERATORS = 12
_LINES = 12
_WIDTH = 600
_MARGIN = 0.97
"""An aim leaves room for the interval."""
_NO_TRUST = "times are not to be trusted"
"""How the judge begins the note that says why."""


def verdict_text(verdict: Verdict, attempt: int) -> str:
    """Return a verdict as text: outcome first, then what each part found, then what the next reward takes."""
    reward = "none" if verdict.reward is None else str(verdict.reward)
    lines = [f"Attempt {attempt} ({verdict.tier}): reward {reward}. {verdict.reason}"]
    if verdict.build:
        lines += _build(verdict.build)
    if verdict.guard:
        lines += _guard(verdict.guard, policy_text(verdict))
    if verdict.verify:
        lines += _verify(verdict.verify)
    if verdict.profile:
        lines += _profile(verdict.profile, verdict.environment.get("device") == "cpu")
    if next_step := _remeasure(verdict) or _next_reward(verdict):
        lines.append(next_step)
    return "\n".join(_clipped(line) for line in lines)


def _build(build: BuildReport) -> Iterator[str]:
    yield f"build: {'ok' if build.ok else 'FAILED'} in {build.seconds:.1f} s"
    yield from _first(_DIAGNOSTICS, list(_diagnosed(build)))
    yield from _first(_KERNELS, [_kernel(k.name, k.registers, k.shared_bytes, k.spill_bytes) for k in build.kernels])


def _diagnosed(build: BuildReport) -> Iterator[str]:
    """Yield each message of a file once, with the lines that it is about."""
    lines: dict[tuple[str, str], list[int]] = {}
    for each in build.diagnostics:
        lines.setdefault((each.file, each.message), []).append(each.line)
    for (file, message), found in lines.items():
        places = [str(line) for line in found if line]
        more = f" and {len(places) - _SAME_LINES} more" if len(places) > _SAME_LINES else ""
        yield f"  {':'.join(filter(None, (file, ', '.join(places[:_SAME_LINES]) + more)))}: {message}"


def _kernel(name: str, registers: int, shared: int, spilled: int) -> str:
    spills = f", SPILLS {spilled} bytes" if spilled else ", no spills"
    return f"  {name}: {registers} registers, {shared} bytes shared{spills}"


def _guard(guard: GuardReport, policy: str) -> Iterator[str]:
    yield f"guard: {f'ok; {policy}' if guard.ok and policy else 'ok' if guard.ok else 'REJECTED'}"
    yield from _first(_FINDINGS, [f"  {f.severity} {f.rule}: {f.evidence}" for f in guard.findings])


def _verify(verify: VerifyReport) -> Iterator[str]:
    failed = [case for case in verify.cases if not case.ok]
    yield f"verify: {'ok' if verify.ok else 'FAILED'}, {len(verify.cases) - len(failed)} of {len(verify.cases)} cases agree"
    yield from _first(_CASES, [f"  {c.name}: {c.reason}{_errors(c.max_abs_error, c.max_rel_error)}" for c in failed])
    yield from (f"  sizes: {each}" for each in verify.ranges)
    yield from (f"  note: {note}" for note in verify.notes[:_NOTES])


def _errors(absolute: float | None, relative: float | None) -> str:
    if absolute is None or relative is None:
        return ""
    return f" (max error {absolute:.3g} absolute, {relative:.3g} relative)"


def _profile(profile: ProfileReport, on_cpu: bool) -> Iterator[str]:
    yield f"profile: {_times(profile, on_cpu) if profile.device_us > 0 else 'no time could be taken'}"
    if profile.disturbed:
        yield f"  DISTURBED, which is not the kernel's fault; the times below cannot be trusted: {profile.disturbed}"
    if profile.judged_by == "latency":
        yield "  judged by latency: baselines and speedups below are about what a caller waits"
    if profile.remarkable:
        yield f"  THE DEVELOPER HAS TO LOOK: {profile.remarkable}"
    for name, baseline in profile.baselines.items():
        yield from _against(name, baseline, profile)
    if profile.copy_us > 0 and profile.device_us > 0:
        distance, share = profile.device_us / profile.copy_us, share_of_copy(profile.device_us, profile.copy_us)
        copy = f"a copy of the same bytes takes {microseconds(profile.copy_us)}"
        yield f"  {copy}: you are at {distance:.2f} times that, {share}"
    yield from _graph(profile)
    yield from _first(_KERNELS, [_ran(kernel) for kernel in profile.kernels])
    if profile.speedup:
        yield "  intervals are 95 %, over placements; a placement is a new process with new buffers"
    yield from (f"  note: {note}" for note in profile.notes[:6])


def _times(profile: ProfileReport, on_cpu: bool) -> str:
    warm = f" ({microseconds(profile.warm_us)} with warm caches)" if profile.warm_us else ""
    device = microseconds(profile.device_us)
    if on_cpu:
        return f"{device} a call{warm}"
    return f"{device} on the device{warm}, {microseconds(profile.latency_us)} latency"


def _against(name: str, baseline: Baseline, profile: ProfileReport) -> Iterator[str]:
    """Say how the candidate stands against one baseline."""
    mode = f" ({baseline.mode})" if baseline.mode != name else ""
    us, gain = baseline.us(profile.judged_by), profile.speedup.get(name)
    if us is None:
        yield f"  {name}{mode}: could not be timed: {baseline.error or profile.disturbed or 'no reason was given'}"
    elif gain is not None:
        warm = f"; warm {microseconds(baseline.warm_us)}" if baseline.warm_us else ""
        graphs = "; replays CUDA graphs" if baseline.graphs else ""
        interval = f"{gain.ratio:.3f}x [{gain.low:.3f}, {gain.high:.3f}]"
        yield f"  against {name}{mode} at {microseconds(us)}: {interval}{warm}{graphs}"


def _graph(profile: ProfileReport) -> Iterator[str]:
    if profile.graph_error:
        yield f"  as a CUDA graph: {profile.graph_error}"
    elif profile.graph_us is not None:
        eager = profile.baselines.get("eager-cudagraph")
        beside = f"; the original as one takes {microseconds(eager.device_us)}" if eager and eager.device_us else ""
        yield f"  captured into a CUDA graph you take {microseconds(profile.graph_us)}{beside}"


def _ran(kernel: KernelRun) -> str:
    facts = [
        f"{kernel.blocks} blocks of {kernel.threads} threads" if kernel.blocks and kernel.threads else "",
        f"{kernel.registers} registers" if kernel.registers is not None else "",
        f"{kernel.shared_bytes} bytes shared" if kernel.shared_bytes else "",
        f"SPILLS {kernel.spill_bytes} bytes" if kernel.spill_bytes else "",
        f"occupancy {kernel.occupancy:.0%}" if kernel.occupancy is not None else "",
    ]
    told = ", ".join(filter(None, facts))
    return f"  ran {kernel.calls} x {kernel.name}: {microseconds(kernel.us)}, {kernel.share:.0%} of the time" + (
        f"; {told}" if told else ""
    )


def _remeasure(verdict: Verdict) -> str:
    """Say how to measure again where this measurement, and not the candidate, is what stands in the way."""
    if verdict.profile is None:
        return ""
    if verdict.profile.disturbed:
        return (
            "The times were disturbed from outside, so there is no reward; change nothing for it. The same tier measures "
            "these files anew, without remeasure. Check again."
        )
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
    profile = verdict.profile
    gain, baseline = profile.speedup.get(name), profile.baselines.get(name)
    us = baseline.us(profile.judged_by) if baseline is not None else None
    if gain is None or us is None:
        return ""
    short = min(us, profile.us) < SHORT_US
    aim = (us / SHORT_GAIN if short else us * FASTER) * _MARGIN
    because = f"; below {SHORT_US:.0f} us it takes {SHORT_GAIN - 1:.0%}, less is too short to call" if short else ""
    return (
        f"For reward {verdict.reward + 1} the interval against {name} must lie above {1 / FASTER:.3f}x as a whole; "
        f"it begins at {gain.low:.3f}x. Aim below {microseconds(min(aim, profile.us))}{because}."
    )


def original_text(profile: Mapping[str, Any]) -> str:
    """Return an ``OriginalProfile`` (its JSON) as text: signature, operators by time, baselines, floor, dependencies."""
    lines = [_device(profile["environment"])]
    lines += ["signature:", *_first(2 * _LINES, [f"  {line}" for line in profile["signature"]])]
    lines.append(f"precision class: {profile['precision']}")
    lines.append(f"the task was checked: {PASSED}")
    if unsure := [note for note in profile["notes"] if _NO_TRUST in note]:
        lines.append(
            f"THE TIMES BELOW ARE UNRELIABLE; Check times the baselines anew beside the candidate: {unsure[0]}"
        )
    lines.append("operators by time in one forward:")
    operators = [f"  {o['us']:9.1f} us {o['share']:6.1%} {o['calls']:4d} x {o['name']}" for o in profile["operators"]]
    lines += _first(_OPERATORS, operators)
    by = profile.get("judged_by", "device")
    lines.append(f"baselines{', judged by latency' if by == 'latency' else ''}:")
    lines += [_baseline(name, _known(baseline), by) for name, baseline in profile["baselines"].items()]
    took = f"takes {microseconds(profile['copy_us'])}" if profile["copy_us"] > 0 else "could not be timed"
    copy = f"a copy of the {profile['bytes_moved']:,} bytes it must move {took}"
    lines.append(f"floor of memory-bound work: {copy}{_near_floor(profile)}")
    lines.append(f"its output depends on: {', '.join(profile['depends_on'])}")
    if profile["ignores"]:
        lines.append(f"it ignores: {', '.join(profile['ignores'])}")
    lines += [f"note: {note}" for note in profile["notes"][:_LINES]]
    return "\n".join(_clipped(line) for line in lines)


def _known(baseline: Mapping[str, Any]) -> Baseline:
    return Baseline(**{key: value for key, value in baseline.items() if key in Baseline.__dataclass_fields__})


def _baseline(name: str, baseline: Baseline, by: JudgedBy) -> str:
    mode = f" ({baseline.mode})" if baseline.mode != name else ""
    us = baseline.us(by)
    ready = f"ready after {baseline.prepare_seconds:.1f} s" if baseline.prepare_seconds else ""
    if us is None:
        return f"  {name}{mode}: {baseline.error or 'could not be timed'}"
    other = baseline.device_us if by == "latency" else baseline.latency_us
    facts = [
        f"warm {microseconds(baseline.warm_us)}" if baseline.warm_us else "",
        f"{'device' if by == 'latency' else 'latency'} {microseconds(other)}" if other and other != us else "",
        "replays CUDA graphs" if baseline.graphs else "",
        ready if name == baseline.mode else "",
    ]
    told = ", ".join(filter(None, facts))
    return f"  {name}{mode}: {microseconds(us)}" + (f" ({told})" if told else "")


def _near_floor(profile: Mapping[str, Any]) -> str:
    best = profile["baselines"].get("best")
    share = share_of_copy(best["device_us"], profile["copy_us"]) if best else ""
    return f"; the best of the baselines reaches {share}" if share else ""


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

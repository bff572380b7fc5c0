"""What the judge measured, in words sized for a model: what matters, each thing once, in under sixty lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sandbox.guard.policy import policy_text
from sandbox.original import NOT_TRUSTED
from sandbox.reward import undecided
from sandbox.task import JudgedBy
from sandbox.timing.floor import share_of_copy
from sandbox.timing.statistics import FASTER, SHORT_GAIN, SHORT_US
from sandbox.verdict import Baseline, BuildReport, GuardReport, KernelRun, ProfileReport, Verdict, VerifyReport

_SAME_LINES = 6
_OPERATORS = 12
_LINES = 12
_SMALL_SHARE = 0.01
_MARGIN = 0.97
"""An aim leaves room for the interval."""
_KNOWN_NOTE = "the intervals are over placements"
"""How a note of every profile ends; the Check tool says it once."""
_READY_NOTE = "to get ready"
"""How a note about a baseline's preparation ends, which a model has no use for."""


@dataclass(frozen=True)
class Size:
    """How many rows of each kind a text has at most, and how many characters a line."""

    diagnostics: int
    kernels: int
    findings: int
    cases: int
    notes: int
    width: int


SIZED = Size(diagnostics=10, kernels=8, findings=8, cases=8, notes=6, width=600)
"""What a model is told of a verdict, under a screen."""
WHOLE = Size(*[1_000_000] * 6)
"""All that the verdict holds."""


def verdict_text(verdict: Verdict, attempt: int, size: Size = SIZED, *, disturbed_before: bool = False) -> str:
    """Return a verdict as text: outcome first, then what each part found beyond that, then what the next reward takes.

    ``disturbed_before`` tells that an earlier verdict of the same files was disturbed.
    """
    reward = "none" if verdict.reward is None else str(verdict.reward)
    lines = [f"Attempt {attempt} ({verdict.tier}): reward {reward}. {verdict.reason}", ", ".join(_parts(verdict))]
    if verdict.build:
        lines += _build(verdict.build, verdict.reason, size)
    if verdict.guard:
        lines += _guard(verdict.guard, policy_text(verdict), verdict.reason, size)
    if verdict.verify:
        lines += _verify(verdict.verify, verdict.reason, size)
        lines.append(f"  {verdict.coverage}" if verdict.coverage else "")
    if verdict.profile:
        lines += _profile(verdict.profile, verdict.reason, size, on_cpu=verdict.environment.get("device") == "cpu")
    lines.append(_remeasure(verdict, disturbed_before) or _next_reward(verdict))
    return "\n".join(_clipped(line, size.width) for line in lines if line)


def _parts(verdict: Verdict) -> Iterator[str]:
    """Yield how build, guard and verify went, as far as they ran."""
    if verdict.build:
        yield f"build {'ok' if verdict.build.ok else 'FAILED'} in {verdict.build.seconds:.1f} s"
    if verdict.guard:
        yield f"guard {'ok' if verdict.guard.ok else 'REJECTED'}"
    if verdict.verify:
        yield f"verify {'ok' if verdict.verify.ok else 'FAILED'}: {verdict.verify.agreement} agree"


def _build(build: BuildReport, reason: str, size: Size) -> Iterator[str]:
    told = [line for line in _diagnosed(build) if line.strip().rstrip(".") not in reason]
    yield from _first(size.diagnostics, told)
    kernels = [_kernel(k.name, k.registers, k.shared_bytes, k.spill_bytes) for k in build.kernels]
    yield from _first(size.kernels, kernels)


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


def _guard(guard: GuardReport, policy: str, reason: str, size: Size) -> Iterator[str]:
    if guard.findings and policy:
        yield f"  {policy}"
    told = (f"{f.rule}: {f.evidence}" for f in guard.findings)
    severities = (f.severity for f in guard.findings)
    rows = [f"  {severity} {text}" for severity, text in zip(severities, told, strict=True) if text not in reason]
    yield from _first(size.findings, rows)


def _verify(verify: VerifyReport, reason: str, size: Size) -> Iterator[str]:
    failed = [case for case in verify.cases if not case.ok]
    told = [f"  {c.name}: {_why(c.reason, reason)}{_errors(c.max_abs_error, c.max_rel_error)}" for c in failed]
    yield from _first(size.cases, told)
    yield from (f"  sizes: {each}" for each in verify.ranges)
    forms = [each for each in verify.forms if not each.covered or each.ratio]
    yield from _first(size.cases, [f"  form: {each}" for each in forms])
    yield from (f"  note: {note}" for note in verify.notes[: size.notes])


def _why(why: str, reason: str) -> str:
    """Return why a case failed; the first one's reason is the verdict's."""
    return "as said above" if why and why.rstrip(".") in reason else why


def _errors(absolute: float | None, relative: float | None) -> str:
    if absolute is None or relative is None:
        return ""
    return f" (max error {absolute:.3g} absolute, {relative:.3g} relative)"


def _profile(profile: ProfileReport, reason: str, size: Size, *, on_cpu: bool) -> Iterator[str]:
    times = _times(profile, on_cpu) if profile.device_us > 0 else ""
    untimed = "no time could be taken"
    if profile.disturbed:
        why = "" if profile.disturbed.rstrip(".") in reason else f": {profile.disturbed}"
        doubt = "the times below cannot be trusted" if times else untimed
        yield f"profile: DISTURBED, which is not the kernel's fault; {doubt}{why}"
        yield f"  {times}" if times else ""
    else:
        yield f"profile: {times or untimed}"
    if profile.judged_by == "latency":
        yield "  judged by latency: baselines and speedups below are about what a caller waits"
    if profile.remarkable:
        yield f"  THE DEVELOPER HAS TO LOOK: {profile.remarkable}"
    if baselines := "; ".join(_baselines(profile, reason)):
        yield f"  {baselines}"
    if profile.copy_us > 0 and profile.device_us > 0:
        share = share_of_copy(profile.device_us, profile.copy_us)
        yield f"  a copy of the same bytes takes {microseconds(profile.copy_us)}: you reach {share}"
    yield from _graph(profile)
    yield from _first(size.kernels, [_ran(kernel) for kernel in profile.kernels])
    yield from (f"  note: {note}" for note in profile.notes[: size.notes] if not note.endswith(_KNOWN_NOTE))


def _times(profile: ProfileReport, on_cpu: bool) -> str:
    warm = f" ({microseconds(profile.warm_us)} with warm caches)" if profile.warm_us else ""
    device = microseconds(profile.device_us)
    if on_cpu:
        return f"{device} a call{warm}"
    return f"{device} on the device{warm}, {microseconds(profile.latency_us)} latency"


def _baselines(profile: ProfileReport, reason: str) -> Iterator[str]:
    """Yield each baseline's time, and how the candidate stands against it where the reason does not say so."""
    best = profile.baselines.get("best")
    for name, baseline in profile.baselines.items():
        if name == "best" and baseline.mode in profile.baselines:
            continue  # it is one of the others, and marked there
        mode = f" ({baseline.mode})" if baseline.mode != name else ""
        marked = " (the best)" if best is not None and best.mode == name != "eager" else ""
        us, gain = baseline.us(profile.judged_by), profile.speedup.get(name)
        if us is None and (baseline.error or not profile.disturbed):
            yield f"{name}{mode}{marked} could not be timed: {baseline.error or 'no reason was given'}"
        elif us is not None and profile.disturbed and profile.us > 0:
            yield f"{name}{mode}{marked} {microseconds(us)}: about {us / profile.us:.2f}x"
        elif us is not None and gain is not None:
            warm = f", warm {microseconds(baseline.warm_us)}" if baseline.warm_us else ""
            graphs = ", replays CUDA graphs" if baseline.graphs else ""
            known = f"{gain.ratio:.2f} times" in reason and name in ("eager", "compile")
            ratio = "" if known else f": {gain.ratio:.3f}x [{gain.low:.3f}, {gain.high:.3f}]"
            yield f"{name}{mode}{marked} {microseconds(us)}{ratio}{warm}{graphs}"


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


def _remeasure(verdict: Verdict, disturbed_before: bool) -> str:
    """Say how to measure again where this measurement, and not the candidate, is what stands in the way."""
    if verdict.profile is None:
        return ""
    if verdict.profile.disturbed and disturbed_before:
        return (
            "These files could not be timed twice: do not Check them again now. Go on without a time, or end: what is right and "
            "has no time is measured once more then, and a landing is timed anew."
        )
    if verdict.profile.disturbed:
        full = "" if verdict.tier == "full" else ", with tier full if nothing else is left to do"
        return f"Change nothing for it, and Check again once{full}: these files are measured anew, without remeasure."
    if verdict.correct and (name := undecided(verdict.profile)):
        more = "" if verdict.tier == "full" else ", or with tier full, which draws more placements"
        return (
            f"The interval against {name} is too wide, not the kernel too slow: Check again once{more}. These files are measured "
            "anew then, without remeasure."
        )
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
    if unsure := [note for note in profile["notes"] if NOT_TRUSTED in note]:
        lines.append(
            f"THE TIMES BELOW ARE UNRELIABLE; Check times the baselines anew beside the candidate: {unsure[0]}"
        )
    slowed = profile.get("operators_disturbed", "")
    lines.append(f"operators by time in one forward{f' (ROUGH: {slowed})' if slowed else ''}:")
    shares = [o for o in profile["operators"] if o["share"] >= _SMALL_SHARE] or profile["operators"]
    operators = [f"  {o['us']:9.1f} us {o['share']:6.1%} {o['calls']:4d} x {o['name']}" for o in shares]
    lines += _first(_OPERATORS, operators)
    if small := len(profile["operators"]) - len(shares):
        lines.append(f"  ... and {small} of less than {_SMALL_SHARE:.0%} each")
    by = profile.get("judged_by", "device")
    lines.append(f"baselines{', judged by latency' if by == 'latency' else ''}:")
    known = {name: _known(baseline) for name, baseline in profile["baselines"].items()}
    one = known["best"].mode if "best" in known and known["best"].mode in known else ""
    lines += [
        f"{_baseline(name, baseline, by)}{' (the best)' if name == one else ''}"
        for name, baseline in known.items()
        if not (one and name == "best")
    ]
    took = f"takes {microseconds(profile['copy_us'])}" if profile["copy_us"] > 0 else "could not be timed"
    copy = f"a copy of the {profile['bytes_moved']:,} bytes it must move {took}"
    lines.append(f"floor of memory-bound work: {copy}{_near_floor(profile)}")
    lines.append(f"its output depends on: {', '.join(profile['depends_on'])}")
    if profile["ignores"]:
        lines.append(f"it ignores: {', '.join(profile['ignores'])}")
    said = [note for note in profile["notes"] if note not in unsure and not note.endswith(_READY_NOTE)]
    lines += [f"note: {note}" for note in said[:_LINES]]
    return "\n".join(_clipped(line, SIZED.width) for line in lines)


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


def _clipped(line: str, width: int) -> str:
    return line if len(line) <= width else f"{line[:width]}..."

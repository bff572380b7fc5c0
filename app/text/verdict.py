"""A verdict as rows: what it says, then every part with its evidence, and the times drawn to scale."""

from __future__ import annotations

from collections.abc import Iterator
from math import log

from textual.content import Content

from app.badge import isolation_badge
from app.clock import duration
from app.state import Judged
from app.text.attempt import measured_at, speed_style
from app.text.bars import bar, whisker
from app.text.marks import mark, reward_text
from app.text.plain import clean, clipped
from app.text.rows import Row, row, wrapped
from sandbox.timing.floor import share_of_copy
from sandbox.verdict import BuildReport, GuardReport, ProfileReport, Speedup, TaskCheck, Verdict, VerifyReport

LABEL = 11
TIME = 12
NUMBERS = 24
ROOMY = 90
MOST = 12


def verdict_rows(judged: Judged, width: int) -> list[Row]:
    """Return everything a verdict holds, at most ``width`` wide."""
    verdict = judged.verdict
    reward, style = reward_text(verdict)
    rows = [row(("reward ", "$muted"), (reward, style), "   ", *_parts_line(verdict, seconds=width >= ROOMY - 16))]
    rows += wrapped(Content(clean(verdict.reason)), width)
    rows += _remarkable(verdict.profile, width)
    rows += _times(verdict.profile, width)
    rows += _ran(verdict.profile, width)
    rows += _build(verdict.build, width)
    rows += _guard(verdict.guard, width)
    rows += _verify(verdict.verify, width)
    rows += wrapped(Content(clean(verdict.coverage)), width, first="  · ", rest="    ") if verdict.coverage else ()
    rows += _task(verdict.task_check, width)
    rows += _origin(judged, width)
    return rows


def _parts_line(verdict: Verdict, *, seconds: bool) -> Iterator[str | tuple[str, str]]:
    reports = {"build": verdict.build, "guard": verdict.guard, "verify": verdict.verify, "profile": verdict.profile}
    for name, report in reports.items():
        ok = None if report is None else not report.disturbed if isinstance(report, ProfileReport) else report.ok
        yield mark(ok)
        yield (f" {name} ", "" if report else "$faint")
        took = getattr(verdict.seconds, name)
        yield (f"{duration(took)}  " if report and took and seconds else " ", "$faint")


def _remarkable(profile: ProfileReport | None, width: int) -> Iterator[Row]:
    """Ask for the developer's own eyes, right under the reason, where a gain is too large to be taken on trust."""
    if profile is not None and profile.remarkable:
        yield row("")
        text = Content.styled(clean(profile.remarkable), "$text-warning bold")
        yield from wrapped(text, width, first="▲ ", rest="  ")


def _times(profile: ProfileReport | None, width: int) -> Iterator[Row]:
    """Draw candidate, baselines and the floor as bars, and each speedup with its interval."""
    if profile is None:
        return
    yield row("")
    if profile.disturbed:
        yield from wrapped(Content.styled(f"! disturbed: {clean(profile.disturbed)}", "$text-warning"), width)
    if profile.device_us <= 0:
        return
    scale = _Scale(profile, width)
    yield scale.time("candidate", profile.us, "$bar-own", bold=True)
    for name, baseline in profile.baselines.items():
        us = baseline.us(profile.judged_by)
        if us is None:
            why = clipped(clean(baseline.error), width - scale.label - 12)
            yield row((f"{name:<{scale.label}}", "$muted"), (f"not timed: {why}", "$muted"))
            continue
        mode = "" if baseline.mode in (name, "default") else f" {baseline.mode}"
        yield scale.time(clean(name + mode), us, "$bar", profile.speedup.get(name))
    if profile.copy_us > 0:
        yield scale.time("plain copy", profile.copy_us, "$faint")
    if share := share_of_copy(profile.device_us, profile.copy_us):
        indent = " " * scale.label
        text = Content.styled(f"the candidate reaches {share}", "$muted")
        yield from wrapped(text, width, first=indent, rest=indent)
    yield from _other_times(profile, scale.label, width)
    yield row((f"{'samples':<{scale.label}}", "$muted"), (_samples(profile), "$muted"))
    for note in profile.notes:
        yield from wrapped(Content.styled(clean(note), "$text-warning"), width, first="! ", rest="  ")


def _other_times(profile: ProfileReport, label: int, width: int) -> Iterator[Row]:
    """Say the candidate's other times: the one it is not judged by, with warm caches, and as a CUDA graph."""
    times = [
        ("latency", profile.latency_us, "from an idle device to its end" + _judged(profile, "latency")),
        ("device", profile.device_us if profile.judged_by == "latency" else None, "on the device alone"),
        ("warm", profile.warm_us, "on the device, with warm caches"),
        ("graph", profile.graph_us, "replayed as a CUDA graph" + _graph_beside(profile)),
    ]
    for name, us, what in times:
        if us:
            yield row(
                (f"{name:<{label}}", "$muted"), f"{us:>8.1f} µs ", (clipped(what, width - label - TIME), "$faint")
            )
    if profile.graph_error:
        text = Content.styled(f"as a CUDA graph: {clean(profile.graph_error)}", "$muted")
        yield from wrapped(text, width, first="· ", rest="  ")


def _judged(profile: ProfileReport, by: str) -> str:
    return ", which it is judged by" if profile.judged_by == by else ""


def _graph_beside(profile: ProfileReport) -> str:
    eager = profile.baselines.get("eager-cudagraph")
    return f"; the original {eager.device_us:.1f} µs" if eager is not None and eager.device_us else ""


def _ran(profile: ProfileReport | None, width: int) -> Iterator[Row]:
    """List the kernels of one call, where there is a device that has kernels."""
    if profile is None or not profile.kernels:
        return
    yield row("")
    room = min(40, max(12, width - 44))
    yield row((f"{'ran':<{room}} {'calls':>5} {'µs':>9} {'share':>6} {'threads':>8} {'occupancy':>10}", "$muted"))
    for kernel in profile.kernels[:MOST]:
        threads = "" if kernel.threads is None else str(kernel.threads)
        occupancy = "" if kernel.occupancy is None else f"{kernel.occupancy:.0%}"
        name = clipped(clean(kernel.name), room)
        numbers = f" {kernel.calls:>5} {kernel.us:>9.1f} {kernel.share:>6.0%} {threads:>8} {occupancy:>10}"
        yield row(f"{name:<{room}}{numbers}")


class _Scale:
    """The scales that the times and the speedups of one profile are drawn to at a width."""

    def __init__(self, profile: ProfileReport, width: int) -> None:
        by = profile.judged_by
        times = [us for baseline in profile.baselines.values() if (us := baseline.us(by)) is not None]
        self.longest = max([profile.us, profile.copy_us, *times])
        speeds = profile.speedup.values()
        # Ratios are drawn on a logarithmic axis: twice as fast is as far from one as half as fast.
        self.low = min([1.0, *(measured.low for measured in speeds)])
        self.high = max([1.0, *(measured.high for measured in speeds)])
        self.label = LABEL if width < ROOMY else LABEL + 9
        room = width - self.label - TIME - NUMBERS
        self.whisker = min(34, room // 2) if room >= 28 else 0
        self.bar = max(4, min(40, room - self.whisker - (2 if self.whisker else 0)))

    def time(self, label: str, us: float, style: str, speed: Speedup | None = None, *, bold: bool = False) -> Row:
        """Draw one time, and the speedup against it."""
        drawn = bar(us, self.longest, self.bar)
        name = f"{clipped(label, self.label - 1):<{self.label}}"
        head = ((name, "$muted"), (f"{us:>8.1f} µs ", "bold" if bold else ""), (drawn, style))
        if speed is None:
            return row(*head)
        colour = speed_style(speed)
        numbers = f" [{speed.low:.2f}, {speed.high:.2f}]"
        gap = " " * (self.bar - len(drawn))
        return row(
            *head,
            gap,
            (f"{speed.ratio:>7.2f}×", f"{colour} bold"),
            (f"{numbers:<16}", "$muted"),
            *self._whisker(speed, colour),
        )

    def _whisker(self, speed: Speedup, colour: str) -> Iterator[tuple[str, str]]:
        if self.whisker:
            low, middle, high, start, end = (
                log(max(1e-6, v)) for v in (speed.low, speed.ratio, speed.high, self.low, self.high)
            )
            yield whisker(low, middle, high, start=start, end=end, width=self.whisker, mark_at=0.0), colour


def _samples(profile: ProfileReport) -> str:
    sides = profile.samples
    placements = max((len(side) for side in sides.values()), default=0)
    count = sum(len(placement) for side in sides.values() for placement in side)
    return f"{count:,} of {len(sides)} sides, interleaved, over {placements} placements"


def _build(build: BuildReport | None, width: int) -> Iterator[Row]:
    if build is None:
        return
    yield row("")
    if build.kernels:
        room = min(48, max(16, width - 30))
        yield row((f"{'kernel':<{room}} {'registers':>9} {'shared':>8} {'spilled':>8}", "$muted"))
    for kernel in build.kernels[:MOST]:
        spilled = (f" {kernel.spill_bytes:>6} B", "$text-warning" if kernel.spill_bytes else "$muted")
        numbers = f" {kernel.registers:>9} {kernel.shared_bytes:>6} B"
        yield row((f"{clipped(clean(kernel.name), room):<{room}}", ""), numbers, spilled)
    if build.ok and not build.kernels:
        yield row(mark(True), " built; the CPU compiler reports no registers")
    for said in build.diagnostics[:MOST]:
        where = f"{said.file}:{said.line}" if said.line else said.file
        text = Content.assemble((f"{clean(where)} ", "bold"), clean(said.message))
        yield from wrapped(text, width, first="✗ " if not build.ok else "! ", rest="  ")


def _guard(guard: GuardReport | None, width: int) -> Iterator[Row]:
    if guard is None or not guard.findings:
        return
    yield row("")
    for finding in guard.findings[:MOST]:
        rejects = finding.severity == "reject"
        head = (f"{clean(finding.rule)}: ", "$text-error bold" if rejects else "$text-primary")
        text = Content.assemble(head, clean(finding.evidence))
        yield from wrapped(text, width, first="✗ guard " if rejects else "· label ", rest="        ")


def _verify(verify: VerifyReport | None, width: int) -> Iterator[Row]:
    if verify is None:
        return
    errors = [case.max_abs_error for case in verify.cases if case.max_abs_error is not None]
    largest = f", largest error {max(errors):.2g}" if errors else ""
    yield row("")
    yield row(mark(verify.ok), f" {verify.agreement} agree with the oracle{largest}")
    for case in [case for case in verify.cases if not case.ok][:MOST]:
        error = f" (error {case.max_abs_error:.3g})" if case.max_abs_error is not None else ""
        yield from wrapped(
            Content.assemble((clean(case.name), "bold"), error, ": ", clean(case.reason)),
            width,
            first="  ✗ ",
            rest="    ",
        )
    for each in verify.ranges:
        yield from wrapped(Content(f"sizes {clean(str(each))}"), width, first="  · ", rest="    ")
    for form in verify.forms:
        yield from wrapped(Content(f"form {clean(str(form))}"), width, first="  · ", rest="    ")
    for note in verify.notes:
        yield from wrapped(Content.styled(clean(note), "$muted"), width, first="  · ", rest="    ")


def _task(check: TaskCheck | None, width: int) -> Iterator[Row]:
    """Say what a developer should know of the task itself: what its output ignores, and what was noticed."""
    if check is None:
        return
    notes = [f"the original ignores {', '.join(check.ignores)}"] if check.ignores else []
    for note in [*notes, *check.notes]:
        yield from wrapped(Content.styled(clean(note), "$muted"), width, first="· task ", rest="       ")


def _origin(judged: Judged, width: int) -> Iterator[Row]:
    verdict, where = judged.verdict, judged.verdict.environment
    yield row("")
    machine = [str(where[key]) for key in ("device",) if where.get(key)]
    machine += [f"{key} {where[key]}" for key in ("torch", "cuda") if where.get(key)]
    machine += [f"isolation {badge}" for badge in (isolation_badge(where),) if badge]
    text = (
        f"measured {measured_at(judged)}, {verdict.tier} verdict in {duration(verdict.seconds.total)}, "
        f"{verdict.task.precision}, {verdict.task.policy}, on {', '.join(machine)}"
    )
    yield from wrapped(Content.styled(clean(text), "$faint"), width)
    if means := where.get("isolation_means"):
        yield from wrapped(Content.styled(f"isolation: {clean(means)}", "$faint"), width)

"""A verdict as rows: what it says, then every part with its evidence, and the times drawn to scale."""

from __future__ import annotations

from collections.abc import Iterator
from math import log

from textual.content import Content

from app.clock import duration
from app.state import Judged
from app.text.attempt import measured_at, speed_style
from app.text.bars import bar, whisker
from app.text.marks import mark, reward_text
from app.text.plain import clean, clipped
from app.text.rows import Row, row, wrapped
from sandbox.verdict import BuildReport, GuardReport, ProfileReport, Speedup, Verdict, VerifyReport

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
    rows += _times(verdict.profile, width)
    rows += _build(verdict.build, width)
    rows += _guard(verdict.guard, width)
    rows += _verify(verdict.verify, width)
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
    yield scale.time("candidate", profile.device_us, "$bar-own", bold=True)
    for name, baseline in profile.baselines.items():
        if baseline.device_us is None:
            why = clipped(clean(baseline.error), width - scale.label - 12)
            yield row((f"{name:<{scale.label}}", "$muted"), (f"not timed: {why}", "$muted"))
            continue
        mode = "" if baseline.mode in (name, "default") else f" {baseline.mode}"
        yield scale.time(clean(name + mode), baseline.device_us, "$bar", profile.speedup.get(name))
    yield scale.time("plain copy", profile.copy_us, "$faint")
    yield row(
        (f"{'latency':<{scale.label}}", "$muted"),
        f"{profile.latency_us:>8.1f} µs ",
        ("from an idle device to its end", "$faint"),
    )
    yield row((f"{'samples':<{scale.label}}", "$muted"), (_samples(profile), "$muted"))
    for note in profile.notes:
        yield from wrapped(Content.styled(clean(note), "$text-warning"), width, first="! ", rest="  ")


class _Scale:
    """The scales that the times and the speedups of one profile are drawn to at a width."""

    def __init__(self, profile: ProfileReport, width: int) -> None:
        times = [b.device_us for b in profile.baselines.values() if b.device_us is not None]
        self.longest = max([profile.device_us, profile.copy_us, *times])
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
    good = sum(case.ok for case in verify.cases)
    errors = [case.max_abs_error for case in verify.cases if case.max_abs_error is not None]
    largest = f", largest error {max(errors):.2g}" if errors else ""
    yield row("")
    yield row(mark(verify.ok), f" {good} of {len(verify.cases)} cases agree with the oracle{largest}")
    for case in [case for case in verify.cases if not case.ok][:MOST]:
        error = f" (error {case.max_abs_error:.3g})" if case.max_abs_error is not None else ""
        yield from wrapped(
            Content.assemble((clean(case.name), "bold"), error, ": ", clean(case.reason)),
            width,
            first="  ✗ ",
            rest="    ",
        )
    for note in verify.notes:
        yield from wrapped(Content.styled(clean(note), "$muted"), width, first="  · ", rest="    ")


def _origin(judged: Judged, width: int) -> Iterator[Row]:
    verdict, where = judged.verdict, judged.verdict.environment
    yield row("")
    machine = [str(where[key]) for key in ("device",) if where.get(key)]
    machine += [f"{key} {where[key]}" for key in ("torch", "cuda", "isolation") if where.get(key)]
    text = (
        f"measured {measured_at(judged)}, {verdict.tier} verdict in {duration(verdict.seconds.total)}, "
        f"{verdict.task.precision}, {verdict.task.policy}, on {', '.join(machine)}"
    )
    yield from wrapped(Content.styled(clean(text), "$faint"), width)

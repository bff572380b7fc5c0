"""What looking at a candidate showed, in words for the model and for the command line: each a screen at most."""

from __future__ import annotations

from collections.abc import Iterator

from agent.verdict_text import microseconds
from sandbox.looking.ablation import NOTE, AblationReport
from sandbox.looking.sanitizer import SanitizerReport
from sandbox.looking.sanitizer_reports import SanitizerFinding
from sandbox.looking.sweep import SweepReport, Variant

_FINDINGS = 12
_ROWS = 32
_REASON = 110


def sanitizer_text(report: SanitizerReport) -> str:
    """Return what the sanitizers found: the outcome, each finding with its line, and what could not look."""
    return "\n".join(_sanitizer(report))


def sweep_text(report: SweepReport) -> str:
    """Return a sweep as a table, the fastest first, and what it means."""
    return "\n".join(_sweep(report))


def ablation_text(report: AblationReport) -> str:
    """Return an ablation as a table, the costliest phase first."""
    return "\n".join(_ablation(report))


def _sanitizer(report: SanitizerReport) -> Iterator[str]:
    ran = [tool for tool in report.tools if not tool.problem]
    if report.findings:
        yield f"sanitizer: the candidate is at fault, {len(report.findings)} finding{'s' * (len(report.findings) > 1)}"
    elif ran:
        yield f"sanitizer: nothing found by {', '.join(f'{tool.name} ({tool.seconds:.1f} s)' for tool in ran)}"
    else:
        yield "sanitizer: nothing could look at the candidate"
    yield from (f"  {_finding(finding)}" for finding in report.findings[:_FINDINGS])
    if len(report.findings) > _FINDINGS:
        yield f"  ... and {len(report.findings) - _FINDINGS} more"
    yield from (f"  {tool.name}: {tool.problem}" for tool in report.tools if tool.problem)
    yield from (f"  note: {note}" for note in report.notes)


def _finding(finding: SanitizerFinding) -> str:
    place = f" at {finding.where}" if finding.where else ""
    kernel = f" in {finding.kernel}" if finding.kernel else ""
    often = f", {finding.count} times" if finding.count > 1 else ""
    first = f", first by {finding.thread}" if finding.thread else ""
    return f"{finding.tool}: {finding.kind}{place}{kernel}{often}{first}"


def _sweep(report: SweepReport) -> Iterator[str]:
    yield "Sweep (no verdict: write the best values into the source, and Check)"
    width = max(len(variant.name) for variant in report.variants)
    yield f"  {'values':<{width}}  {'a call':>8}  the best is faster by"
    unranked = "" if report.best else "-"
    yield from (f"  {variant.name:<{width}}  {_variant(variant, unranked)}" for variant in report.variants[:_ROWS])
    yield report.conclusion


def _variant(variant: Variant, unranked: str) -> str:
    """Return a variant's row; ``unranked`` stands in the place of a comparison where the times do not count."""
    time = microseconds(variant.us) if variant.us is not None else "-"
    gain = variant.best_gain
    compared = f"{gain.ratio:.3f}x [{gain.low:.3f}, {gain.high:.3f}]" if gain else ""
    told = compared or variant.problem[:_REASON] or unranked or "best"
    return f"{time:>8}  {told}{'  <- as the source has it' if variant.present else ''}"


def _ablation(report: AblationReport) -> Iterator[str]:
    yield NOTE
    if report.us is None:
        why = f"the times were disturbed: {report.disturbed}; ablate again" if report.disturbed else report.problem
        yield f"Nothing can be said: {why}"
        return
    width = max([len("whole"), *(len(phase.name) + 8 for phase in report.phases)])
    yield f"  {'whole':<{width}}  {microseconds(report.us):>8}"
    for phase in report.phases:
        label = f"without {phase.name}"
        if phase.us is None or phase.share is None:
            yield f"  {label:<{width}}  {'-':>8}  ablation failed: {phase.problem[:_REASON]}"
            continue
        share = f"{phase.share.ratio:.0%} [{phase.share.low:.0%}, {phase.share.high:.0%}]"
        yield f"  {label:<{width}}  {microseconds(phase.us):>8}  (ablation) the phase takes {share} of the time"

"""A ranking of module classes as tables for people."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from app.text.plain import clean, clipped, shown_path
from sandbox.hotspots.compare import Comparison
from sandbox.hotspots.gain import Gain
from sandbox.hotspots.pace import Pace
from sandbox.hotspots.rank import Hotspot
from sandbox.hotspots.recording import CallVariant, ProcessRecord, Recording

MOST_ROWS = 15
MOST_OF_TORCH = 6
LEAST_WIDTH = 100
PIPED_WIDTH = 150
LEAST_SHARE = 0.001


def run_lines(recording: Recording, pace: Pace, others: float = 0.0) -> list[str]:
    """Say what ran, at which pace, where the time went, what recording cost, and how many processors others took."""
    first = recording.processes[0]
    count = len(recording.processes)
    lines = [f"on     {first.gpu or 'cpu'}, torch {first.torch}, {count} process{'es' if count > 1 else ''}"]
    if pace.step_ms:
        lines.append(f"step   {pace.step_ms:.2f} ms ({_step(first)}; mean of {pace.steps} that were left alone)")
    whole = first.all.device
    if whole:
        parts = {"forward": first.modules, "backward": first.backward, "elsewhere": first.outside}
        lines.append("time   " + ", ".join(f"{percent(part.device / whole)} {name}" for name, part in parts.items()))
    if pace.overhead is not None:
        lines.append(f"cost   {_cost(pace.overhead, first.left_alone)}")
    if others:
        lines.append(f"busy   {busy_text(others)}")
    if first.elsewhere:
        lines.append(f"note   {first.elsewhere} module calls of other threads are in no figure")
    return lines


def busy_text(others: float) -> str:
    """Say what it means that other programs kept so many processors busy."""
    return f"other programs kept {others:.1f} processors busy meanwhile: times are too long, and shares less sure"


def ranking_tables(
    hotspots: Sequence[Hotspot], gains: Mapping[str, Gain], *, width: int, colour: bool, root: Path
) -> str:
    """Return the tables as text: the classes, and torch's own modules in them.

    Args:
        hotspots: The largest share first.
        gains: What there is to gain, by ``Hotspot.key``.
        width: Of the terminal.
        colour: Whether styles are wanted.
        root: The folder that paths are told from.
    """
    theirs = [each for each in hotspots if each.origin != "torch" and each.total.device >= LEAST_SHARE]
    torch = [each for each in hotspots if each.origin == "torch" and each.share >= LEAST_SHARE]
    paper = io.StringIO()
    console = Console(file=paper, width=max(LEAST_WIDTH, width), force_terminal=colour, no_color=not colour)
    if theirs:
        console.print(_table(theirs[:MOST_ROWS], gains, root))
    if torch:
        console.print("\ntorch's own modules, which are part of the shares of the classes that call them:", style="dim")
        console.print(_table(torch[:MOST_OF_TORCH], {}, root))
    return "\n".join(line.rstrip() for line in paper.getvalue().splitlines())


def _table(hotspots: Sequence[Hotspot], gains: Mapping[str, Gain], root: Path) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1), header_style="bold")
    for heading in ("share", "forward", "backward", "host", "with parts", "calls/step", "forward call"):
        table.add_column(heading, justify="right", no_wrap=True)
    for heading in ("over copy", "compile") if gains else ():
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("class", overflow="fold")
    for each in hotspots:
        gain = gains.get(each.key)
        table.add_row(
            Text(percent(each.share), style="bold"),
            percent(each.forward.device),
            percent(each.backward.device),
            percent(each.forward.latency + each.backward.latency),
            percent(each.total.device),
            f"{each.calls_per_step:.3g}",
            in_time(each.device_us),
            *(_ratios(gain) if gains else ()),
            _about(each, gain, root),
        )
    return table


def _about(each: Hotspot, gain: Gain | None, root: Path) -> Text:
    text = Text(clean(each.name), style="" if each.unopened else "bold")
    text.append(f"  {place(each, root)}", style="dim")
    for variant in each.variants[:1]:
        count = len(each.variants) - 1
        others = f"  and {count} other {'way' if count == 1 else 'ways'}" if count else ""
        text.append(f"\n{calls_text(variant)}{others}", style="dim")
    if gain is not None and (gain.unknown or gain.compile_unknown):
        text.append(f"\n{clean(gain_text(gain))}", style="dim")
    return text


def gain_text(gain: Gain) -> str:
    """Say what there is to gain in a class, or why that is not known."""
    if gain.unknown:
        return f"not measured: {gain.unknown}"
    facts = [f"eager takes {in_time(gain.eager_us)}" if gain.eager_us else "eager could not be timed"]
    facts += [f"{gain.distance:.1f} times a plain copy"] if gain.distance else []
    facts += [f"torch.compile is {gain.compiled:.2f} times as fast"] if gain.compiled else []
    facts += [f"torch.compile could not be timed: {gain.compile_unknown}"] if gain.compile_unknown else []
    return ", ".join(facts)


def place(each: Hotspot, root: Path) -> str:
    """Say where a class is defined, and what stands in the way of opening it."""
    if each.origin == "torch":
        return each.module
    path = Path(each.file)
    shown = str(path.relative_to(root)) if path.is_relative_to(root) else shown_path(path)
    facts = ["installed package"] if each.origin == "package" else []
    facts += ["compiled already"] if each.compiled else []
    facts += [f"cannot be opened: {each.unopened}"] if each.unopened else []
    told = f" ({'; '.join(facts)})" if facts else ""
    return clean(f"{shown}:{each.line}" if each.file else each.module) + told


def calls_text(variant: CallVariant) -> str:
    """Say what calls looked like: dtype, mode, inputs."""
    facts = [variant.dtype or "no floats", "train" if variant.training else "eval", "" if variant.grad else "no grad"]
    facts += [f"autocast {variant.autocast}"] if variant.autocast else []
    return clean(f"{' '.join(filter(None, facts))}  {clipped(', '.join(variant.inputs), 100)}")


def in_time(us: float) -> str:
    """Return a time in the unit that suits it."""
    if us >= 1e6:
        return f"{us / 1e6:.2f} s"
    return f"{us / 1000:.2f} ms" if us >= 1000 else f"{us:.1f} µs"


def percent(share: float) -> str:
    """Return a share as a percentage with one decimal."""
    return f"{share:.1%}"


def _ratios(gain: Gain | None) -> tuple[str, str]:
    over_copy, compiled = (gain.distance, gain.compiled) if gain is not None else (None, None)
    return f"{over_copy:.1f}×" if over_copy else "-", f"{compiled:.2f}×" if compiled else "-"


def _step(process: ProcessRecord) -> str:
    ends = "a step of" if process.step_kind == "optimizer" else "a call of"
    return f"{ends} {process.step_name}"


def _cost(overhead: float, left_alone: bool) -> str:
    how = f"{overhead:.1%} longer" if overhead > 0 else "no longer"
    hooks = "" if left_alone else " (where hooks that do nothing stayed in place)"
    return f"recorded steps took {how} than those left alone{hooks}; the shares are of recorded ones"


def comparison_lines(comparison: Comparison) -> list[str]:
    """Say what came of a landing, the conclusion first."""
    lines = [comparison.conclusion]
    if comparison.step_ms_before and comparison.step_ms_now:
        interval = f"  [{comparison.low:.2f}, {comparison.high:.2f}]" if comparison.low and comparison.high else ""
        ratio = f": {comparison.speedup:.2f}×{interval}" if comparison.speedup else ""
        lines.append(f"step   {comparison.step_ms_before:.2f} ms before, {comparison.step_ms_now:.2f} ms now{ratio}")
    for each in comparison.classes:
        share = f"{_known(each.share_before)} of the device's time before, {_known(each.share_now)} now"
        call = f"{in_time(each.call_us_before)} a call before, " if each.call_us_before else ""
        now = f"{in_time(each.call_us_now)} now" if each.call_us_now else ""
        lines.append(f"class  {clean(each.name)}: {share}; {call}{now}")
    lines += [f"ran    {clean(_ran(record))}" for record in comparison.landings.values()]
    if comparison.loss is not None:
        loss = comparison.loss
        said = "the same within noise" if loss.same else "another"
        lines.append(f"loss   {said}: {loss.before:.5g} before, {loss.now:.5g} now, mean of {loss.steps} steps")
    else:
        lines.append("loss   none was seen in both runs")
    lines += [f"note   {clean(note)}" for note in comparison.notes]
    return [*lines, "note   two runs at different times: what else the machine did may have made a difference as well"]


def _ran(record: Mapping[str, Any]) -> str:
    calls = record["fused"] + record["original"]
    told = f"the kernels of {record['class']} ran in {record['fused']:,} of {calls:,} calls"
    reasons = sorted(record["reasons"].items(), key=lambda each: each[1], reverse=True)[:3]
    return told + "".join(f"; the original in {count:,}: {reason}" for reason, count in reasons)


def _known(share: float | None) -> str:
    return "unknown" if share is None else percent(share)

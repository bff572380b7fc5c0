"""A ranking of module classes as a table for people."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from app.text.plain import clean, clipped, shown_path
from sandbox.hotspots.pace import Pace
from sandbox.hotspots.rank import Hotspot
from sandbox.hotspots.recording import CallVariant, ProcessRecord, Recording

MOST_ROWS = 20
LEAST_WIDTH = 96
PIPED_WIDTH = 140
LEAST_SHARE = 0.001


def ranking_table(hotspots: Sequence[Hotspot], *, width: int, colour: bool, root: Path) -> str:
    """Return the table as text.

    Args:
        hotspots: The largest share first.
        width: Of the terminal.
        colour: Whether styles are wanted.
        root: The folder that paths are told from.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 1), header_style="bold")
    for heading in ("", "device", "forward", "backward", "host", "all below", "calls/step", "each"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("class", overflow="fold")
    shown = [each for each in hotspots if each.share >= LEAST_SHARE or each.total.device >= LEAST_SHARE][:MOST_ROWS]
    for number, each in enumerate(shown, 1):
        table.add_row(
            str(number),
            Text(_percent(each.share), style="bold"),
            _percent(each.forward.device),
            _percent(each.backward.device),
            _percent(each.forward.latency + each.backward.latency),
            _percent(each.total.device),
            f"{each.calls_per_step:.3g}",
            in_time(each.device_us),
            _about(each, root),
        )
    paper = io.StringIO()
    console = Console(file=paper, width=max(LEAST_WIDTH, width), force_terminal=colour, no_color=not colour)
    console.print(table)
    left_out = len(hotspots) - len(shown)
    more = f"\n{left_out} more classes, each under {LEAST_SHARE:.1%} or below those." if left_out else ""
    return "\n".join(line.rstrip() for line in paper.getvalue().splitlines()) + more


def _about(each: Hotspot, root: Path) -> Text:
    text = Text(clean(each.name), style="" if each.unopened else "bold")
    text.append(f"  {place(each, root)}", style="dim")
    for variant in each.variants[:1]:
        others = f"  and {len(each.variants) - 1} other ways" if len(each.variants) > 1 else ""
        text.append(f"\n{calls_text(variant)}{others}", style="dim")
    return text


def place(each: Hotspot, root: Path) -> str:
    """Say where a class is defined, and what stands in the way of opening it."""
    if each.origin == "torch":
        return f"{each.module} (torch's own)"
    path = Path(each.file)
    shown = str(path.relative_to(root)) if path.is_relative_to(root) else shown_path(path)
    facts = ["installed package"] if each.origin == "package" else []
    facts += ["compiled already"] if each.compiled else []
    facts += [each.unopened] if each.unopened else []
    told = f" ({', '.join(facts)})" if facts else ""
    return clean(f"{shown}:{each.line}" if each.file else each.module) + told


def calls_text(variant: CallVariant) -> str:
    """Say what calls looked like: dtype, mode, inputs."""
    facts = [variant.dtype or "no floats", "train" if variant.training else "eval", "" if variant.grad else "no grad"]
    facts += [f"autocast {variant.autocast}"] if variant.autocast else []
    return clean(f"{' '.join(filter(None, facts))}  {clipped(', '.join(variant.inputs), 100)}")


def run_lines(recording: Recording, pace: Pace) -> list[str]:
    """Say what ran, at which pace, where the time went, and what recording cost."""
    first = recording.processes[0]
    lines = [f"on       {first.gpu or 'cpu'}, torch {first.torch}, {_processes(recording)}"]
    if pace.step_ms:
        lines.append(f"step     {pace.step_ms:.2f} ms ({_step(first)}, {pace.steps} steps left alone)")
    whole = first.all.device
    if whole:
        parts = {"forward": first.modules, "backward": first.backward, "elsewhere": first.outside}
        lines.append("time     " + ", ".join(f"{_percent(part.device / whole)} {name}" for name, part in parts.items()))
    if pace.overhead is not None:
        lines.append(f"cost     recording made steps {pace.overhead:+.1%} long, which is in no figure but the shares")
    return lines


def _processes(recording: Recording) -> str:
    count = len(recording.processes)
    return "1 process" if count == 1 else f"{count} processes"


def _step(process: ProcessRecord) -> str:
    ends = "a step of" if process.step_kind == "optimizer" else "a call of"
    return f"{ends} {process.step_name}"


def in_time(us: float) -> str:
    """Return a time in the unit that suits it."""
    return f"{us / 1000:.2f} ms" if us >= 1000 else f"{us:.1f} µs"


def _percent(share: float) -> str:
    return f"{share:.1%}"

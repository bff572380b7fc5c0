"""The curves of one or several runs: pictures by matplotlib (PNG, SVG, PDF), or a line of blocks each in the terminal."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from rich.console import Console
from rich.table import Table

from sandbox.errors import ExitCode, UsageError
from trainer.run import metrics
from trainer.run.metrics import Metrics

TITLES = {
    "reward": "Reward",
    "judged_reward": "The judge's reward",
    "held_out_reward": "The judge's reward, held out",
    "score": "Speed-up over eager, 0 where wrong",
    "wrong": "Share of answers that are wrong",
    "nll": "Negative log-likelihood of what is imitated (nats)",
    "entropy": "Entropy (nats)",
    "explained_variance": "Explained variance",
    "held_out_variance": "Explained variance, held out",
    "critic_loss": "Critic loss",
    "length_clip": "Share of episodes cut off",
    "k3": "k3 of a step (nats)",
    "clip_fraction": "Share of ratios clipped",
    "ratio_max": "Largest ratio",
    "mismatch_k3": "k3 to the policy that wrote (nats)",
    "reference_k3": "k3 to the policy before training (nats)",
    "sessions": "Sessions",
    "unknown_reward": "Sessions whose reward nobody knows",
    "actor_norm": "Norm of the actor's gradient",
    "critic_norm": "Norm of the critic's gradient",
    "tokens_per_second": "Tokens a second",
    "memory_gib": "Memory (GiB)",
}
"""What is drawn, in this order, where a run has it."""
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Of the runs; they can be told apart without seeing red and green (Okabe and Ito)."""
BLOCKS = "▁▂▃▄▅▆▇█"
WIDTH = 40


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this stage."""
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="folders of runs, drawn in the same axes")
    parser.add_argument("--out", type=Path, help="the picture to write: .png, .svg or .pdf (default: the terminal)")


def run(options: argparse.Namespace) -> int:
    """Draw, and return the exit code."""
    runs = {str(folder): lines_of(folder) for folder in options.runs}
    if options.out:
        draw(runs, options.out)
    else:
        console = Console()
        for name, lines in runs.items():
            console.print(table(name, lines))
    return ExitCode.OK


def lines_of(folder: Path) -> list[Metrics]:
    """Return the metrics of a run.

    Raises:
        UsageError: There is no run in the folder, or it has taken no step.
    """
    lines = metrics.read(folder / "metrics.jsonl")
    if not lines:
        raise UsageError(
            "There is nothing to draw: no step was recorded here.",
            where=str(folder),
            next_step="Name the folder that a stage was given as --out.",
        )
    return lines


def draw(runs: Mapping[str, Sequence[Metrics]], path: Path) -> None:
    """Write a picture with one pair of axes for each number that any of the runs has.

    Args:
        runs: Metrics by name of the run.
        path: Its suffix says the format.

    Raises:
        UsageError: Nothing can be written in this format.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    if path.suffix[1:] not in FigureCanvasAgg.get_supported_filetypes():
        raise UsageError(
            f"A picture cannot be written as {path.suffix!r}.", next_step="Name a .png, .svg or .pdf file."
        )
    names = [name for name in TITLES if any(_series(lines, name) for lines in runs.values())]
    taken = [line["step"] or 0.0 for lines in runs.values() for line in lines]
    columns = min(3, len(names))
    rows = -(-len(names) // columns)
    figure = Figure(figsize=(4.4 * columns, 2.6 * rows), layout="constrained")
    for number, name in enumerate(names):
        axes = figure.add_subplot(rows, columns, number + 1)
        axes.set_title(TITLES[name], fontsize=9, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
        axes.tick_params(labelsize=8)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.yaxis.set_major_formatter("{x:.6g}")
        axes.set_xlim(min(taken) - 0.5, max(taken) + 0.5)
        for color, (run_name, lines) in zip(COLORS * len(runs), runs.items(), strict=False):
            points = _series(lines, name)
            steps, values = [step for step, _ in points], [value for _, value in points]
            axes.plot(steps, values, color=color, linewidth=1.4, label=run_name, marker="o" if len(points) == 1 else "")
    if len(runs) > 1:
        figure.axes[0].legend(fontsize=8, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def table(name: str, lines: Sequence[Metrics]) -> Table:
    """Return a run as a table: each number's first and last value, and its course between them."""
    shown = Table("", "first", "last", "course", title=f"{name}, {len(lines)} steps", title_justify="left", box=None)
    for key, title in TITLES.items():
        values = [value for _, value in _series(lines, key)]
        if values:
            shown.add_row(title, f"{values[0]:.4g}", f"{values[-1]:.4g}", course(values))
    return shown


def course(values: Sequence[float], width: int = WIDTH) -> str:
    """Return a line of blocks, one for each value or for the mean of several, from the lowest to the highest."""
    count = min(width, len(values))
    edges = [len(values) * number // count for number in range(count + 1)]
    means = [sum(values[low:high]) / (high - low) for low, high in pairwise(edges)]
    low, span = min(means), max(means) - min(means)
    return "".join(BLOCKS[round((mean - low) / span * (len(BLOCKS) - 1)) if span else 0] for mean in means)


def _series(lines: Sequence[Metrics], name: str) -> list[tuple[float, float]]:
    return [(line["step"] or 0.0, value) for line in lines if (value := line.get(name)) is not None]

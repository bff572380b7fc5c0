"""The file of results: one JSON object a line, written the moment it is known; and what is made of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from agent.store import encode
from trainer.run.plot import draw

Line = dict[str, Any]
_DRAWN = ("step", "reward", "judged_reward", "held_out_reward", "entropy", "explained_variance", "k3", "critic_loss")


class Results:
    """Lines of a file, which is made with its folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, kind: str, **values: Any) -> Line:
        """Write a line and return it."""
        line = {"kind": kind, **values}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            file.write(encode(line))
        return line

    def add_baseline(self, name: str, held_out_reward: float, what: str) -> None:
        """Write what the runs are compared with, once for each name."""
        if name not in self.baselines():
            self.add("baseline", name=name, held_out_reward=held_out_reward, what=what)

    def baselines(self) -> dict[str, Line]:
        """Return what the runs are compared with, by name."""
        return {line["name"]: line for line in self.lines("baseline")}

    def lines(self, kind: str) -> Iterator[Line]:
        """Yield the whole lines of a kind."""
        if not self.path.exists():
            return
        for text in self.path.read_bytes().split(b"\n")[:-1]:
            line = json.loads(text)
            if line["kind"] == kind:
                yield line

    def done(self) -> dict[str, str]:
        """Return the runs that came to their end, by name, and the number of the attempt that did."""
        return {line["run"]: line["attempt"] for line in self.lines("done")}

    def of(self, kind: str, run: str) -> list[Line]:
        """Return the lines of a run's last attempt that came to its end."""
        attempt = self.done().get(run)
        return [line for line in self.lines(kind) if line.get("run") == run and line.get("attempt") == attempt]


def show(results: Results) -> None:
    """Print what is known: baselines, and each run from its start to its end."""
    console = Console()
    table = Table("", "start", "after rft", "end", "best", "wrong at the end", "PPO steps", box=None)
    for run in sorted(results.done()):
        seen = results.of("evaluation", run)
        first = {line["stage"]: line for line in reversed(seen)}
        last = seen[-1]
        values = [first[stage]["held_out_reward"] if stage in first else None for stage in ("start", "rft")]
        values += [last["held_out_reward"], max(line["held_out_reward"] for line in seen)]
        shown = ["" if value is None else f"{value:+.3f}" for value in values]
        table.add_row(run, *shown, f"{last['wrong']:.2f}", str(last["step"]))
    console.print("Mean reward on held-out tasks")
    console.print(table)
    for name, line in results.baselines().items():
        console.print(f"{name}: {line['held_out_reward']:+.3f}  {line['what']}", markup=False, highlight=False)


def draw_curves(results: Results, path: Path) -> None:
    """Draw the steps of all runs that are done, with the evaluations among them; step 0 is what PPO begins from."""
    runs = {}
    for run in sorted(results.done()):
        steps = {line["step"]: line for line in results.of("step", run)}
        for line in results.of("evaluation", run):
            steps.setdefault(line["step"], {"step": line["step"]})["held_out_reward"] = line["held_out_reward"]
        lines = [{name: line[name] for name in _DRAWN if name in line} for _, line in sorted(steps.items())]
        runs[run] = lines
    draw(runs, path)

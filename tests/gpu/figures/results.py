"""The file in which trials add up: one JSON object a line, written the moment it is known.

A ``run`` line says on what machine, with which judge and by which way of measuring the lines of that run were taken; every
other line names its run. Lines of one way of measuring add up, whatever else of the judge has changed meanwhile.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from sandbox.judge_version import judge_version
from tests.gpu.figures.measuring import measuring_version

Line = dict[str, Any]

ROOT = Path(__file__).parents[3]
GPU_RESULTS = Path(__file__).with_name("results.jsonl")
CPU_RESULTS = ROOT / "build" / "figures-cpu.jsonl"
_KEPT = ("device", "sm", "driver", "torch", "cuda", "python", "cpu", "isolation", "transport", "workers")


class Results:
    """Lines of a file; ``path`` is made with its folder when the first line is written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._run = ""

    def lines(self) -> Iterator[Line]:
        """Yield every whole line; one that was cut off is passed over."""
        if not self.path.exists():
            return
        for text in self.path.read_text().splitlines():
            try:
                line = json.loads(text)
            except ValueError:
                continue
            if isinstance(line, dict):
                yield line

    def measured_alike(self) -> Iterator[Line]:
        """Yield the lines of all runs that measured as this judge does."""
        runs: set[str] = set()
        for line in self.lines():
            if line["kind"] == "run" and line.get("measuring") == measuring_version():
                runs.add(line["run"])
            if line["run"] in runs:
                yield line

    def begin(self, environment: Mapping[str, Any]) -> None:
        """Start a run on a machine, unless this process has one in the same environment."""
        kept = {key: environment.get(key) for key in _KEPT}
        if self._run and kept == self._environment:
            return
        self._run, self._environment = uuid.uuid4().hex[:8], kept
        told = {
            "cpus": os.cpu_count(),
            "commit": _commit(),
            "judge": judge_version()[:12],
            "measuring": measuring_version(),
        }
        self._write({"kind": "run", "run": self._run, "time": time.strftime("%Y-%m-%d %H:%M:%S"), **kept, **told})

    def add(self, kind: str, **values: Any) -> Line:
        """Write a line of the present run and return it."""
        line = {"kind": kind, "run": self._run, **values}
        self._write(line)
        return line

    def take_over(self, others: Iterable[Line]) -> int:
        """Add lines of runs that are not here yet; return how many."""
        here = {line["run"] for line in self.lines()}
        new = [line for line in others if line.get("run") not in here]
        for line in new:
            self._write(line)
        return len(new)

    def _write(self, line: Line) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:  # one write of one line: several processes may append
            file.write(json.dumps(line, separators=(",", ":")) + "\n")


def _commit() -> str:
    """Return the commit that is checked out, or an empty string where git does not tell."""
    try:
        told = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    except OSError:
        return ""
    return told.stdout.strip() if told.returncode == 0 else ""

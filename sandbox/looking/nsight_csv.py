"""Reads what ``ncu --import REPORT --page raw --csv --print-units base`` prints.

That is a header, a row of units, and a row for each launch, with a column for each metric under its own name; older versions
print a row for each metric of each launch. Lines of the tool's own (``==PROF==``) may stand before the header.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from sandbox.build.resources import short_name

MOST_LAUNCHES = 1000
_FIXED = (
    "ID",
    "Process ID",
    "Process Name",
    "Host Name",
    "Kernel Name",
    "Context",
    "Stream",
    "Block Size",
    "Grid Size",
)
_SCALES = {"ns": 1e-3, "nsecond": 1e-3, "us": 1.0, "usecond": 1.0, "ms": 1e3, "msecond": 1e3, "s": 1e6, "second": 1e6}
_BYTES = {"byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}
_DURATION = "gpu__time_duration.sum"


@dataclass(frozen=True)
class Launch:
    """One kernel that ran under the profiler.

    Attributes:
        name: The kernel, without return type and parameters.
        grid: Blocks, as ncu writes them: ``(4096, 1, 1)``.
        block: Threads of a block.
        metrics: Values by metric, times in microseconds and sizes in bytes; those that were not measured are missing.
    """

    name: str
    grid: str
    block: str
    metrics: Mapping[str, float]

    @property
    def us(self) -> float:
        """How long it ran; 0 if that is not known."""
        return self.metrics.get(_DURATION, 0.0)

    def get(self, *names: str) -> float | None:
        """Return the first of these metrics that was measured; names differ between generations of GPUs."""
        return next((self.metrics[name] for name in names if name in self.metrics), None)


def read_raw(text: str) -> list[Launch]:
    """Return the launches in order; raises ``ValueError`` for what is no such table."""
    start = re.search(r'^"ID",', text, re.MULTILINE)
    if start is None:
        raise ValueError("there is no table")
    rows = csv.reader(io.StringIO(text[start.start() :]))
    header = next(rows)
    if "Kernel Name" not in header:
        raise ValueError("the table names no kernels")
    complete = [row for row in rows if len(row) == len(header)]
    if "Metric Name" in header:
        return _from_metrics([dict(zip(header, row, strict=True)) for row in complete])
    units = dict(zip(header, complete[0], strict=True)) if complete else {}
    return [_launch(dict(zip(header, row, strict=True)), units) for row in complete[1 : MOST_LAUNCHES + 1]]


def _from_metrics(rows: list[dict[str, str]]) -> list[Launch]:
    """Put the rows of each launch together, which has its number in every one of them."""
    launches: dict[str, dict[str, str]] = {}
    units: dict[str, str] = {}
    for row in rows:
        launch = launches.setdefault(row["ID"], {name: row.get(name, "") for name in _FIXED})
        launch[row["Metric Name"]] = row["Metric Value"]
        units[row["Metric Name"]] = row.get("Metric Unit", "")
    return [_launch(launch, units) for launch in list(launches.values())[:MOST_LAUNCHES]]


def _launch(row: Mapping[str, str], units: Mapping[str, str]) -> Launch:
    metrics = {}
    for name, text in row.items():
        value = None if name in _FIXED else _number(text)
        if value is not None:
            metrics[name] = value * _scale(units.get(name, ""))
    return Launch(short_name(row["Kernel Name"]), row.get("Grid Size", ""), row.get("Block Size", ""), metrics)


def _number(text: str) -> float | None:
    """Return a number, with or without separators between thousands; None for ``n/a``, a name or a tuple."""
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _scale(unit: str) -> float:
    amount = unit.partition("/")[0]
    return _SCALES.get(amount) or _BYTES.get(amount) or 1.0

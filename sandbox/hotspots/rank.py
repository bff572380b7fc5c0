"""Ranks the classes of a recording by their share of the time."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from sandbox.hotspots.recording import CallVariant, ClassRecord, Recording, Times, Window

Origin = Literal["project", "package", "torch"]


@dataclass(frozen=True)
class Shares:
    """Shares of the time of recorded steps: of the device's and of the host's, 0 to 1."""

    device: float
    latency: float


@dataclass(frozen=True)
class Hotspot:
    """One class of modules and what it takes.

    Attributes:
        module, name, file, line: Where it is defined; ``file`` is empty where no source was found.
        origin: ``torch`` for torch's own, ``package`` for what is installed, ``project`` for the rest.
        unopened: Why it cannot be opened in a session; empty where it can.
        compiled: Whether these calls ran through ``torch.compile`` already, as a whole.
        forward: Share of the forward calls, without the project's and packages' other classes below, with torch's own;
            of a class of torch's, its own share alone.
        backward: The same of the backward pass.
        total: Share of forward and backward with everything below.
        calls_per_step: Of one process.
        device_us, latency_us: Mean of a forward call with everything below, on the device and on the host.
        variants: What its calls looked like, most time first.
    """

    module: str
    name: str
    file: str
    line: int
    origin: Origin
    unopened: str
    compiled: bool
    forward: Shares
    backward: Shares
    total: Shares
    calls_per_step: float
    device_us: float
    latency_us: float
    variants: tuple[CallVariant, ...]

    @property
    def share(self) -> float:
        """What it is ranked by: its share of the device's time, forward and backward."""
        return self.forward.device + self.backward.device

    @property
    def key(self) -> str:
        """What captures name it by: ``module:Class``."""
        return f"{self.module}:{self.name}"

    @property
    def on_gpu(self) -> bool:
        """Whether its calls computed on a GPU."""
        return any(variant.device == "cuda" for variant in self.variants)

    @property
    def target(self) -> str:
        """What opens it: ``path.py:Class``."""
        return f"{self.file}:{self.name}"


def rank(recording: Recording) -> list[Hotspot]:
    """Return every class that was called, the largest share first; the processes' times are added up."""
    whole = sum((process.all for process in recording.processes), Times())
    steps = sum(window.steps for p in recording.processes for window in _counted(p.windows))
    found: dict[tuple[str, str, str, bool], list[ClassRecord]] = defaultdict(list)
    for process in recording.processes:
        for each in process.classes:
            if each.calls:
                found[(each.module, each.name, each.file, each.compiled)].append(each)
    hotspots = [_hotspot(records, whole, steps) for records in found.values()]
    return sorted(hotspots, key=lambda each: each.share, reverse=True)


def _hotspot(records: Sequence[ClassRecord], whole: Times, steps: int) -> Hotspot:
    first = records[0]
    calls = sum(each.calls for each in records)
    variants = _merged(variant for each in records for variant in each.variants)
    spent = sum((variant.spent for variant in variants), Times())
    origin = _origin(first)
    return Hotspot(
        first.module,
        first.name,
        first.file,
        first.line,
        origin,
        _unopened(first, origin),
        first.compiled,
        _shares((each.own if each.from_torch else each.mine for each in records), whole),
        _shares((each.backward_own if each.from_torch else each.backward_mine for each in records), whole),
        _shares((time for each in records for time in (each.total, each.backward_total)), whole),
        calls / steps if steps else float(calls),
        spent.device / calls,
        spent.host / calls,
        variants,
    )


def _shares(times: Iterable[Times], whole: Times) -> Shares:
    summed = sum(times, Times())
    return Shares(
        summed.device / whole.device if whole.device else 0.0, summed.host / whole.host if whole.host else 0.0
    )


def _merged(variants: Iterable[CallVariant]) -> tuple[CallVariant, ...]:
    """Join what several processes recorded of calls that look alike."""
    found: dict[CallVariant, CallVariant] = {}
    for each in variants:
        key = replace(each, calls=0, spent=Times())
        before = found.get(key, key)
        found[key] = replace(key, calls=before.calls + each.calls, spent=before.spent + each.spent)
    return tuple(sorted(found.values(), key=lambda each: each.spent.device, reverse=True))


def _origin(record: ClassRecord) -> Origin:
    if record.from_torch:
        return "torch"
    return "package" if {"site-packages", "dist-packages"} & set(Path(record.file).parts) else "project"


def _unopened(record: ClassRecord, origin: Origin) -> str:
    if origin == "torch":
        return "it is torch's own"
    if not record.file:
        return "no source file of it was found"
    if "." in record.name:
        return "it is defined inside a function or a class"
    if Path(record.file).name == "__init__.py":
        return "it is in a package's __init__.py"
    if record.module == "__main__" and runs_on_import(Path(record.file)):
        return "its file is the script, which runs when it is imported; put it under if __name__ == '__main__'"
    return ""


def runs_on_import(script: Path) -> bool:
    """Tell whether a script does its work at its top level, so that its classes cannot be had without that."""
    try:
        body = ast.parse(script.read_bytes()).body
    except (OSError, ValueError, SyntaxError):
        return False
    guarded = any(isinstance(node, ast.If) and "__name__" in ast.unparse(node.test) for node in body)
    works = (ast.For, ast.While, ast.With, ast.Try)
    calls = (node for node in body if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call))
    return not guarded and (any(isinstance(node, works) for node in body) or next(calls, None) is not None)


def _counted(windows: Sequence[Window]) -> list[Window]:
    """Return the windows whose times were kept: the recorded ones, or the warm-up where there are no others."""
    return [each for each in windows if each.kind == "recorded"] or [each for each in windows if each.kind == "warm-up"]

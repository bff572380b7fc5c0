"""What the processes of a run recorded, read from their files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from sandbox.errors import UsageError

_Made = TypeVar("_Made")


@dataclass(frozen=True)
class Times:
    """Microseconds of one kind of work, on the device and on the host; one process's or the sum of several."""

    device: float = 0.0
    host: float = 0.0

    def __add__(self, other: Times) -> Times:
        return Times(self.device + other.device, self.host + other.host)

    @classmethod
    def from_json(cls, data: list[float]) -> Times:
        """Rebuild it from ``[device, host]``."""
        return cls(float(data[0]), float(data[1]))


@dataclass(frozen=True)
class CallVariant:
    """Calls of a class that look alike.

    Attributes:
        inputs: Each argument as dtype and shape, or as what it is.
        dtype: Of the first floating tensor among inputs and parameters.
        device: ``cpu`` or ``cuda``.
        training, grad: The module's mode, and whether gradients were enabled.
        autocast: The dtype of the autocast region it was called in; empty outside of one.
        bytes: Of inputs, state and outputs, once each.
        calls: How many were recorded.
        spent: In all of them, with everything below.
    """

    inputs: tuple[str, ...]
    dtype: str
    device: str
    training: bool
    grad: bool
    autocast: str
    bytes: int
    calls: int
    spent: Times

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CallVariant:
        """Rebuild it from its JSON data; what is missing is that of calls that were too various to be told apart."""
        return cls(
            tuple(data.get("inputs", ("various",))),
            str(data.get("dtype", "")),
            str(data.get("device", "")),
            bool(data.get("training", False)),
            bool(data.get("grad", False)),
            str(data.get("autocast", "")),
            int(data.get("bytes", 0)),
            int(data["calls"]),
            Times.from_json(data["spent_us"]),
        )


@dataclass(frozen=True)
class ClassRecord:
    """What one process recorded of one class; what the times mean is said in the recorder's ``ModuleKind``."""

    module: str
    name: str
    file: str
    line: int
    from_torch: bool
    compiled: bool
    calls: int
    instances: int
    own: Times
    mine: Times
    total: Times
    backward_own: Times
    backward_mine: Times
    backward_total: Times
    variants: tuple[CallVariant, ...]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ClassRecord:
        """Rebuild it from its JSON data."""
        fields: dict[str, Any] = {key: kind(data[key]) for key, kind in _PLAIN.items()}
        fields |= {key: Times.from_json(data[key]) for key in _TIMES}
        return cls(**fields, variants=tuple(CallVariant.from_json(each) for each in data["variants"]))


_PLAIN: dict[str, type] = {
    **dict.fromkeys(("module", "name", "file"), str),
    **dict.fromkeys(("line", "calls", "instances"), int),
    **dict.fromkeys(("from_torch", "compiled"), bool),
}
_TIMES = ("own", "mine", "total", "backward_own", "backward_mine", "backward_total")


@dataclass(frozen=True)
class Window:
    """A stretch of steps: ``warm-up``, ``plain`` (left alone), ``recorded`` or ``captured``."""

    kind: str
    steps: int
    seconds: float

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Window:
        """Rebuild it from its JSON data."""
        return cls(str(data["kind"]), int(data["steps"]), float(data["seconds"]))


@dataclass(frozen=True)
class ProcessRecord:
    """What one process recorded.

    Attributes:
        pid, rank, world_size: Which process it was; rank and size are those of torchrun's environment.
        executable, python, torch, cuda, gpu: What it ran on; ``gpu`` is empty where it computed on the CPU.
        devices: The devices its outermost modules were on.
        complete: Whether the recording came to its end, rather than the process being killed.
        fault: Why the recorder gave up, a fault of ours; empty where it did not.
        step_kind, step_name, steps: What a step ends with (``optimizer`` or ``module``), its class, and how many there were.
        windows: Stretches of steps, the first one the warm-up.
        modules, backward, outside: Time of recorded steps in the forward pass, the backward pass, and outside both.
        left_alone: Whether there were no hooks at all in the stretches that were not recorded.
        elsewhere: Calls of modules in other threads, which are not timed.
        losses: The scalars on which ``backward`` was called, in order.
        landings: What each landed folder counted, by its package.
        captures: The name of the folder of each class's capture, by ``module:Class``.
        capture_fault: Why capturing was given up.
        classes: One record a class.
    """

    pid: int
    rank: int | None
    world_size: int | None
    executable: str
    python: str
    torch: str
    cuda: str | None
    gpu: str
    devices: tuple[str, ...]
    complete: bool
    fault: str
    step_kind: str
    step_name: str
    steps: int
    windows: tuple[Window, ...]
    modules: Times
    backward: Times
    outside: Times
    elsewhere: int
    left_alone: bool
    losses: tuple[float, ...]
    landings: Mapping[str, Mapping[str, Any]]
    captures: Mapping[str, str]
    capture_fault: str
    classes: tuple[ClassRecord, ...]

    @property
    def all(self) -> Times:
        """Time of all recorded steps."""
        return self.modules + self.backward + self.outside

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ProcessRecord:
        """Rebuild it from its JSON data."""
        same = (
            "pid",
            "rank",
            "world_size",
            "executable",
            "python",
            "torch",
            "cuda",
            "gpu",
            "complete",
            "fault",
            "elsewhere",
            "left_alone",
        )
        return cls(
            **{key: data[key] for key in same},
            devices=tuple(data["devices"]),
            step_kind=data["step"]["kind"],
            step_name=data["step"]["name"],
            steps=int(data["step"]["count"]),
            windows=tuple(Window.from_json(each) for each in data["windows"]),
            modules=Times.from_json(data["modules_us"]),
            backward=Times.from_json(data["backward_us"]),
            outside=Times.from_json(data["outside_us"]),
            losses=tuple(map(float, data["losses"])),
            landings=dict(data["landings"]),
            captures=dict(data["captures"]),
            capture_fault=data["capture_fault"],
            classes=tuple(ClassRecord.from_json(each) for each in data["classes"]),
        )


@dataclass(frozen=True)
class Recording:
    """What a run left in its folder.

    Attributes:
        processes: Those that called modules, by rank.
        pythons: The versions of the Python processes that came along, recorded or not.
        torches: The versions of torch that they imported.
        faults: Why a recorder could not start or gave up.
    """

    processes: tuple[ProcessRecord, ...]
    pythons: tuple[tuple[int, ...], ...]
    torches: tuple[str, ...]
    faults: tuple[str, ...]

    @property
    def steps(self) -> int:
        """The steps of the process that made the most."""
        return max((process.steps for process in self.processes), default=0)


def read_recording(folder: Path) -> Recording:
    """Read what the processes of a run have written so far; keys that are not known are ignored: another version wrote them.

    Raises:
        UsageError: A file was damaged: it lacks what each has, or holds something else there.
    """
    processes = list(_notes(folder, "process", ProcessRecord.from_json))
    faults = _notes(folder, "fault", lambda data: str(data["fault"]))
    return Recording(
        tuple(sorted(processes, key=lambda each: (each.rank or 0, each.pid))),
        tuple(_notes(folder, "seen", lambda data: tuple(map(int, data["python"])))),
        tuple(_notes(folder, "torch", lambda data: str(data["torch"]))),
        tuple(filter(None, [*(process.fault for process in processes), *faults])),
    )


def _notes(folder: Path, kind: str, made: Callable[[Any], _Made]) -> Iterator[_Made]:
    for path in sorted(folder.glob(f"{kind}-*.json")):
        try:
            data = json.loads(path.read_bytes())
        except ValueError as error:
            if kind == "process":  # which is written whole or not at all
                raise _damaged(path, f"it is no JSON: {error}") from error
            continue  # a process was killed while it signed in
        try:
            yield made(data)
        except KeyError as error:
            raise _damaged(path, f"it has no {error}") from error
        except (AttributeError, IndexError, TypeError, ValueError) as error:
            raise _damaged(path, str(error)) from error


def _damaged(path: Path, why: str) -> UsageError:
    return UsageError(f"This recording was damaged: {why}.", where=str(path), next_step="Record again.")

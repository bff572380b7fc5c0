"""What the judge measures of a reference before anything is written: where its time goes and what bounds it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from sandbox.crew import Crew
from sandbox.task import JudgedBy
from sandbox.verdict import Baseline
from sandbox.wire import Message

_TRACES = 2

NOT_TRUSTED = "the times are not to be trusted"
"""Begins the note of an original that could not be timed, because the machine was busy."""


@dataclass(frozen=True)
class OperatorTime:
    """One operator (on CUDA: with the kernels it launched) of the reference: calls and microseconds in one forward."""

    name: str
    calls: int
    us: float
    share: float


@dataclass(frozen=True)
class OriginalProfile:
    """The reference under the profiler.

    Attributes:
        operators: By time, largest first.
        baselines: ``eager``, ``compile``, ``best``; see ``ProfileReport``.
        copy_us: A plain copy of as many bytes as the task must read and write: the floor of memory-bound work.
        bytes_moved: Those bytes: inputs, used parameters and outputs once each.
        precision: The class it really runs in (TF32 measured by running with the flag on and off).
        depends_on: Inputs, parameters and buffers its output depends on.
        ignores: Those it does not depend on.
        signature: One line per input, parameter and output: name, dtype, shape, contiguity.
        notes: Anything else the developer or the agent should know.
        judged_by: What speedups will be about: ``device`` or ``latency``.
        reads: Of a captured module, the attributes that its forward reads: ``any`` and ``seen``, see the harness's
            ``reads.attribute_reads``; null of another one.
        operators_disturbed: Why the operators' times are not to be trusted, or empty.
    """

    operators: tuple[OperatorTime, ...]
    baselines: dict[str, Baseline]
    copy_us: float
    bytes_moved: int
    precision: str
    depends_on: tuple[str, ...]
    ignores: tuple[str, ...]
    signature: tuple[str, ...]
    environment: dict[str, Any]
    notes: tuple[str, ...] = ()
    judged_by: JudgedBy = "device"
    reads: dict[str, Any] | None = None
    operators_disturbed: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the profile as JSON data."""
        return asdict(self)


def trace_reference(crew: Crew) -> tuple[Message, str]:
    """Return what the bench says of the reference, and why its operators' times are not to be trusted, or an empty string.

    Traced once more where others kept the device or its host busy, for what slows one operator makes it the largest.
    """
    watch, own = crew.watch(), {crew.bench.pid}
    try:
        for _ in range(_TRACES):
            watch.trouble(own)
            found, _ = crew.bench.ask({"op": "original"}, crew.limits.bench_seconds)
            disturbed = watch.trouble(own)
            if not disturbed:
                break
    finally:
        watch.close()
    return found, disturbed

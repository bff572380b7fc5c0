"""What a worker is asked to time, and how its answer is read: nothing it sends is taken for more than it may be."""

from __future__ import annotations

import random
from collections.abc import Callable

from sandbox.bench_client import Bench
from sandbox.judge_limits import JudgeLimits
from sandbox.processes import close_all
from sandbox.wire import Message
from sandbox.workers import FORGED, Death, Worker, WorkerDied

_FILL_MARGIN_US = 30.0
_LONGEST_FILL_US = 20_000.0
_LONGEST_US = 3.6e9
_SENT = ("bases", "state", "structure", "slots", "rollable", "regions", "lent")


def place_buffers(
    bench: Bench, worker: Worker | None, transport: str, limits: JudgeLimits, patience: Callable[[int], float]
) -> Message:
    """Draw new buffers and contents, let the worker take its own, if there is one, and return what the bench says of them.

    Args:
        bench: Draws them.
        worker: Takes the inputs and the state.
        transport: How tensors cross: ``host`` or ``cuda``.
        limits: Time limits.
        patience: Seconds that the worker may take for so many calls.
    """
    request = {"op": "place", "worker": worker.number if worker else 0, "transport": transport}
    placed, descriptors = bench.ask(request, limits.bench_seconds)
    try:
        if worker is not None:
            worker.ask({"op": "place", **{key: placed[key] for key in _SENT}}, patience(1), descriptors)
    finally:
        close_all(descriptors)
    return placed


def draw_turn(draw: random.Random, bases: int, slots: int) -> list[float]:
    """Draw what one timed call gets: a set of inputs, an address, and how far the contents are rolled."""
    return [draw.randrange(bases), draw.randrange(slots), draw.random()]


def fill_us(host_us: float) -> float:
    """Return how long the device is kept busy while the host, which takes ``host_us``, queues a call."""
    return min(_LONGEST_FILL_US, 1.3 * host_us + _FILL_MARGIN_US)


def read_times(answer: Message, calls: int) -> list[float]:
    """Return the microseconds of a timed batch; raises ``WorkerDied`` for what cannot be times."""
    try:
        us = [float(value) for value in answer["us"]]
    except (KeyError, TypeError, ValueError):
        us = []
    if len(us) != calls or not all(0 < value < _LONGEST_US for value in us):
        raise WorkerDied(Death("sent an answer that makes no sense", "", rule=FORGED))
    return us


def read_host_time(answer: Message) -> float:
    """Return how long the host needs to queue a call; it only decides how long the device is kept waiting."""
    value = answer.get("host_us")
    return min(_LONGEST_FILL_US, max(0.0, value)) if isinstance(value, float) and value == value else 0.0

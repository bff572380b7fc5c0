"""One placement on the bench's side: new buffers for the reference, and the same inputs for the worker."""

from __future__ import annotations

import contextlib
import gc
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import torch
from torch import nn

from warpsmith_harness import values
from warpsmith_harness.baselines import Baselines
from warpsmith_harness.graphs import capture
from warpsmith_harness.load import LoadedTask
from warpsmith_harness.questions import Examiner, Question
from warpsmith_harness.surroundings import autocast, surroundings
from warpsmith_harness.timing import Arena, Stopwatch, Turn
from warpsmith_harness.transport import bytes_needed

COPY = "copy"
_MOST_BASES = 4
_SLOTS = 2
_SHARE_OF_MEMORY = 0.15


class Placement:
    """New addresses for the reference's parameters and inputs, and new contents.

    Args:
        task: The task.
        reference: Its resident reference.
        examiner: Randomises the reference's state.
        bytes_moved: What a plain copy for ``copy`` must move.
        memory: Bytes of the device's memory.
    """

    def __init__(
        self, task: LoadedTask, reference: nn.Module, examiner: Examiner, bytes_moved: int, memory: int
    ) -> None:
        self._task = task
        self._reference = reference
        self._examiner = examiner
        _relocate(reference)
        examiner.new_state()
        first, self.structure = values.flatten(task.inputs())
        count = int(_SHARE_OF_MEMORY * memory / max(1, bytes_needed(first))) - _SLOTS
        self.bases = [first]
        while len(self.bases) < max(2, min(_MOST_BASES, count)):
            self.bases.append(values.flatten(task.inputs())[0])
        self.rollable = self._stays_finite()
        self.arena = Arena(self.bases, self.structure, _SLOTS, self.rollable)
        half = max(1, bytes_moved // 2)
        self._source = torch.zeros(half, dtype=torch.uint8, device=task.device)
        self._target = torch.empty_like(self._source)

    def call(self, side: str, baselines: Baselines) -> Callable[..., Any]:
        """Return what is timed for a side: a baseline's mode, or ``copy``."""
        if side == COPY:
            return self._copy
        return baselines.call(side)

    def question(self, turn: Turn) -> Question:
        """Return what the reference and the oracle make of a timed call's inputs."""
        args, kwargs = self.arena.fill(turn)
        tensors, _ = values.flatten((args, kwargs))
        return self._examiner.ask([values.clone_like(tensor) for tensor in tensors], self.structure)

    def run(self, call: Callable[..., Any]) -> None:
        """Make one call on the first inputs."""
        args, kwargs = self.arena.fill(Turn(0, 0, 0.0))
        with surroundings(self._task.spec):
            call(*args, **kwargs)

    def _copy(self, *_: Any, **__: Any) -> torch.Tensor:
        return self._target.copy_(self._source)

    def _stays_finite(self) -> bool:
        """Tell whether rolling floating inputs leaves them valid: the reference neither raises nor overflows on them."""
        arena = Arena(self.bases, self.structure, 1, rollable=True)
        try:
            plain, rolled = (self._finite(arena, Turn(0, 0, roll)) for roll in (0.0, 0.37))
        except Exception:  # the developer's code may raise anything on inputs it was not written for
            return False
        return rolled >= plain

    def _finite(self, arena: Arena, turn: Turn) -> float:
        args, kwargs = arena.fill(turn)
        outputs, _ = values.flatten(self._task.forward(self._reference, args, kwargs))
        shares = [float(torch.isfinite(tensor.float()).double().mean()) for tensor in outputs if tensor.numel()]
        return min(shares, default=1.0)


def time_side(
    stopwatch: Stopwatch, call: Callable[..., Any], arena: Arena, request: Dict[str, Any], spec: Dict[str, Any]
) -> Tuple[Dict[str, Any], Optional[Any]]:
    """Time a batch as the parent asks for it; return the answer, and the output of the call it wants to see.

    ``kind`` is ``warm`` (a few calls, not timed), ``device``, ``latency``, ``burst``, or ``graph`` (nothing is timed: the
    call is captured, and timed as a graph wherever ``graph`` is set); ``turns`` lists one ``[base, slot, roll]`` for each
    call, ``keep`` the number of the call whose output is wanted, or -1.
    """
    if request["kind"] == "graph":
        with autocast(spec):
            arena.replay = capture(call, arena)
        return {}, None
    if request.get("graph") and arena.replay is not None:
        call = arena.replay
    turns = [Turn(int(base), int(slot), float(roll)) for base, slot, roll in request.get("turns", [])]
    kind = request["kind"]
    with surroundings(spec), _no_collection():
        if kind == "warm":
            stopwatch.warm(call, arena)
            return {"host_us": stopwatch.host_us(call, arena)}, None
        if kind == "burst":
            stopwatch.burst(call, arena, int(request["count"]), float(request["fill_us"]), bool(request.get("each")))
            return {}, None
        if kind == "latency":
            return {"us": stopwatch.latency(call, arena, turns)}, None
        keep, cold, fill_us = int(request["keep"]), bool(request["cold"]), float(request["fill_us"])
        times, kept = stopwatch.device(call, arena, turns, keep, cold, fill_us)
    return {"us": times}, kept


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Keep Python's garbage collector out of a timed batch."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _relocate(module: nn.Module) -> None:
    """Move every parameter and buffer to another address, with its contents."""
    tensors: List[torch.Tensor] = [*module.parameters(), *module.buffers()]
    moved = [values.clone_like(tensor.detach()) for tensor in tensors]
    for tensor, copy in zip(tensors, moved):
        tensor.data = copy
    for part in module.modules():
        if isinstance(part, nn.RNNBase):  # its weights are fast only in one piece
            part.flatten_parameters()

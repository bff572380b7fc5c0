"""Replays a call as a CUDA graph: one captured for each slot of an arena, because a graph keeps its addresses."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Tuple

import torch

from warpsmith_harness.timing import Arena, Turn

_WARM_UP_CALLS = 3

_cuda: Any = torch.cuda


def capture(call: Callable[..., Any], arena: Arena) -> Callable[..., Any]:
    """Return a callable that replays ``call`` on the slot that was filled last.

    Raises:
        Exception: Whatever the call or the capture raises. torch leaves a failed capture without ending it for its
            allocator, so nothing more should be measured in this process.
    """
    replays: List[Tuple[Any, Any]] = []
    with torch.no_grad(), _cuda.stream(_cuda.current_stream()):  # puts back the stream a failed capture leaves
        for slot in range(arena.slots):
            args, kwargs = arena.fill(Turn(0, slot, 0.0))
            warm_up(call, args, kwargs)
            graph = _cuda.CUDAGraph()
            with _cuda.graph(graph):
                output = call(*args, **kwargs)
            replays.append((graph, output))

    def replay(*_: Any, **__: Any) -> Any:
        graph, output = replays[arena.filled]
        graph.replay()
        return output

    replay()
    _cuda.synchronize()
    return replay


def warm_up(call: Callable[..., Any], args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
    """Make calls on a side stream, as a capture makes them, so that whatever is made once is made before it."""
    aside, current = _cuda.Stream(), _cuda.current_stream()
    aside.wait_stream(current)
    with _cuda.stream(aside):
        for _ in range(_WARM_UP_CALLS):
            call(*args, **kwargs)
    current.wait_stream(aside)
    _cuda.synchronize()

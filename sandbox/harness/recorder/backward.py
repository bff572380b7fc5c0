"""Notes when the backward pass comes to what a call computed, without adding anything to the graph.

Autograd runs the nodes of a graph from the latest to the earliest. So the backward work of a call lies between the
moment its outputs' nodes are reached and the moment those of its inputs are; hooks on these nodes note both. Full
backward hooks would put nodes of their own into the graph, and change what the program may do in place.
"""

from __future__ import annotations

from typing import Any, Callable, Optional

import torch

from .classes import tensors_in
from .timeline import Call

_WATCHED = "warpsmith.watched"

Reached = Callable[[Optional[Call]], None]


class BackwardWatch:
    """Hooks the nodes at the borders of calls, each once.

    Args:
        reached: Told which call's nodes are next; None for what no module computed.
    """

    def __init__(self, reached: Reached) -> None:
        self._reached = reached

    def enters(self, output: Any, call: Call) -> None:
        """Watch the nodes of a call's outputs: the backward pass enters the call there."""
        if torch.is_grad_enabled():
            for tensor in tensors_in(output):
                self._watch(tensor.grad_fn, call)

    def leaves(self, inputs: Any, around: Optional[Call]) -> None:
        """Watch the nodes of a call's inputs: the backward pass goes on there with what is around the call."""
        if torch.is_grad_enabled():
            for tensor in tensors_in(inputs):
                self._watch(tensor.grad_fn, around)

    def _watch(self, node: Any, call: Optional[Call]) -> None:
        if node is None or _WATCHED in node.metadata:
            return
        node.metadata[_WATCHED] = True
        reached = self._reached

        def note(_: Any) -> None:
            if not torch.compiler.is_compiling():
                reached(call)

        node.register_prehook(note)

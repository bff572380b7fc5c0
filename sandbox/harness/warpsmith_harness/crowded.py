"""Tasks whose tensors fill so much of the device that their inputs fit on it only once.

Their inputs are lent: both processes use them where they lie, in the shared memory. With the rest they take turns, and
each gives back what it holds before the other's turn comes. With I the bytes of the inputs, O of the outputs, S of the
state, and W of what one call needs beside its inputs, the device holds at most:

| when | lent | bench | worker |
| --- | --- | --- | --- |
| inputs are drawn | I | 2 S + I, or 2 S where that does not fit: then they wait in the host's memory | S |
| the candidate answers, or is timed | I | 2 S | S + W |
| the reference answers, or a baseline is timed | I | 2 S + W | S |
| outputs are compared | I | 2 S + 2 O | S |

Outputs cross through the host's memory, which has to hold O. The oracle is asked for some rows (``oracle``). Contents of
timed calls are renewed in place, by exchanging parts of each input. The task itself is examined on its first rows.
"""

from __future__ import annotations

import time
from typing import Any, List, Optional, Sequence, Tuple

import torch
from torch import nn

from warpsmith_harness import values
from warpsmith_harness.baselines import REPLAYED, Baselines
from warpsmith_harness.candidate import state
from warpsmith_harness.compare import oracle
from warpsmith_harness.lent import PIECE_BYTES, LentArena, contents_sum, exchange, tidy, time_once_warm
from warpsmith_harness.load import LoadedTask
from warpsmith_harness.placement import COPY
from warpsmith_harness.problems import TaskProblem
from warpsmith_harness.protocol import Message
from warpsmith_harness.questions import Examiner, Question
from warpsmith_harness.room import USABLE, Sizes, flat_outputs
from warpsmith_harness.sharing import Sharing
from warpsmith_harness.supply import Answer, judge, uncompared
from warpsmith_harness.timing import Call, Stopwatch
from warpsmith_harness.transport import ALIGNMENT, Note, span, touch

_COPY_SHARE = 0.02
_ROLL = 0.37
_NOBODY = -1
_RECALLS = 1
"""Timed calls of a placement whose outputs are compared: each has to cross through the host's memory, which takes seconds."""


class Crowd:
    """The bench's part, see ``supply.Supply``: inputs are lent, where ``copies.Copies`` copies them.

    Args:
        task: The task.
        reference: Its resident reference.
        examiner: Randomises the reference's state.
        sharing: With the worker.
        sizes: Of the task.
        bytes_moved: What a plain copy must move.
        memory: Bytes of the device's memory.
    """

    def __init__(
        self,
        task: LoadedTask,
        reference: nn.Module,
        examiner: Examiner,
        sharing: Sharing,
        sizes: Sizes,
        bytes_moved: int,
        memory: int,
    ) -> None:
        self._task = task
        self._reference = reference
        self._examiner = examiner
        self._sharing = sharing
        self._sizes = sizes
        self._half = max(1, bytes_moved // 2)
        self._copied = max(1, min(self._half, int(_COPY_SHARE * memory)))
        self._memory = memory
        self._structure: Any = None
        self._lent: List[torch.Tensor] = []
        self._notes: List[Note] = []
        self._sums: List[int] = []
        self._arena: Optional[LentArena] = None

    def draw(self, request: Message) -> Answer:
        """Lend new inputs to ``worker``, with a new state; see ``Supply``."""
        started = time.monotonic()
        answer, descriptors = self._lend(request)
        answer.update(
            directions=[],
            gradients=[],
            training=self._reference.training,
            misaligned=[],
            touched_inputs=[],
            touched_state=[],
            sizes=[note["bytes"] for note in self._sizes.notes],
            took=time.monotonic() - started,
            reference_seconds=0.0,
        )
        return answer, descriptors

    def place(self, request: Message) -> Answer:
        """Lend new inputs for a placement; see ``Supply``."""
        answer, descriptors = self._lend(request)
        rollable = self._stays_finite()
        tidy(self._task.device)
        self._arena = LentArena(self._lent, self._structure, rollable)
        answer.update(
            bases=[answer["inputs"]], slots=1, recalls=_RECALLS, rollable=rollable, output_bytes=self._sizes.outputs
        )
        return answer, descriptors

    def time(self, stopwatch: Stopwatch, baselines: Baselines, request: Message) -> Message:
        """Time a batch of ``side``; a plain copy is of a part, and its time is taken times as many parts."""
        assert self._arena is not None  # timing comes after placing
        copied = request["side"] == COPY
        call = self._copy() if copied else baselines.call(request["side"])
        times = self._half / self._copied if copied else 1.0
        answer = time_once_warm(stopwatch, call, self._arena, request, self._task)[0]
        return {**answer, "us": [us * times for us in answer["us"]]} if "us" in answer else answer

    def compare(self, request: Message) -> Message:
        """Compare with what the reference and the oracle make of the inputs as they are now."""
        try:
            return judge(self._question(), request, self._sharing, self._task.spec["tolerance"])
        except Changed as changed:
            return uncompared(str(changed))
        finally:
            tidy(self._task.device)

    def recall(self, request: Message) -> Message:
        """See ``Supply``: the inputs still are those of the timed call."""
        return self.compare(request)

    def prepare(self) -> bool:
        """See ``Supply``; there is no room to keep questions."""
        self.make_room()
        return False

    def modes(self, modes: List[str]) -> List[str]:
        """See ``Supply``; CUDA graphs keep copies."""
        return [mode for mode in modes if mode not in REPLAYED]

    def make_room(self) -> None:
        """Give back the memory that was lent, where no worker needs it any more."""
        self._arena = None
        self._lent = []
        self._sharing.holds(_NOBODY)
        tidy(self._task.device)

    def _question(self) -> Question:
        """Return what the reference and the oracle make of the inputs as they are now; raises ``Changed``."""
        if [contents_sum(tensor) for tensor in self._lent] != self._sums:
            raise Changed("the call changed its inputs, which the original leaves alone")
        args, kwargs = values.rebuild(self._structure, self._lent)
        exact = oracle(self._task, self._reference, tuple(args), kwargs)
        outputs, structure = values.flatten(self._task.forward(self._reference, tuple(args), kwargs))
        return Question(self._lent, self._structure, {}, [out.detach() for out in outputs], structure, exact)

    def _lend(self, request: Message) -> Answer:
        """Lend new inputs; where they do not fit beside those that this worker has, those are renewed in place."""
        if self._task.device.type == "cuda" and request["transport"] != "cuda":
            raise TaskProblem(
                "Its tensors leave no room on the device for copies, and here processes cannot share the device's memory.",
                "CUDA IPC",
                "Give smaller inputs, or judge it where CUDA IPC works.",
            )
        self._arena = None
        held = self._sharing.holds(request["worker"])
        self._lent = self._lent if held else []
        tidy(self._task.device)
        self._examiner.new_state()
        own = {name: tensor.detach() for name, tensor in state(self._reference).items()}
        if held and not self._fits_twice():
            share = 1.0 - 0.5 * float(torch.rand(()))
            for tensor in self._lent:
                exchange(tensor, share if tensor.is_floating_point() else 0.0)
            answer: Message = {"state": self._sharing.renew(list(own.values())), "regions": []}
            descriptors: List[int] = []
        else:
            answer, descriptors = self._lend_new(list(own.values()), request)
        tidy(self._task.device)
        self._sums = [contents_sum(tensor) for tensor in self._lent]
        answer.update(structure=self._structure, inputs=self._notes, state=dict(zip(own, answer["state"])), lent=True)
        return answer, descriptors

    def _lend_new(self, own: Sequence[torch.Tensor], request: Message) -> Answer:
        self._lent = []
        tensors, self._structure = self._drawn()
        tidy(self._task.device)
        output_bytes = sum(-(-note["bytes"] // ALIGNMENT) * ALIGNMENT for note in self._sizes.notes)
        answer, descriptors = self._sharing.lend(tensors, own, output_bytes, request)
        self._notes = answer.pop("notes")
        self._lent = self._sharing.lent(self._notes)
        return answer, descriptors

    def _drawn(self) -> Tuple[List[torch.Tensor], Any]:
        """Return new inputs; in the host's memory where the device has no room for them beside their copies."""
        tensors, structure = values.flatten(self._task.inputs())
        if self._fits_twice():
            return tensors, structure
        for index, tensor in enumerate(tensors):
            memory = torch.empty(span(tensor), dtype=tensor.dtype)
            touch(memory.data_ptr(), memory.numel() * memory.element_size())
            memory.copy_(tensor.as_strided((span(tensor),), (1,)))
            tensors[index] = memory.as_strided(tensor.shape, tensor.stride())
        return tensors, structure

    def _fits_twice(self) -> bool:
        return 2 * self._sizes.inputs + 3 * self._sizes.state < USABLE * self._memory

    def _copy(self) -> Call:
        source = torch.zeros(self._copied, dtype=torch.uint8, device=self._task.device)
        target = torch.empty_like(source)
        return lambda *_, **__: target.copy_(source)

    def _stays_finite(self) -> bool:
        """Tell whether exchanging parts of floating inputs leaves them valid, as ``Placement`` does of rolling them."""
        try:
            plain = self._finite()
            self._exchange_all()
            rolled = self._finite()
            self._exchange_all()
        except TaskProblem:
            return False
        return rolled >= plain

    def _exchange_all(self) -> None:
        for tensor in self._lent:
            if tensor.is_floating_point():
                exchange(tensor, _ROLL)

    def _finite(self) -> float:
        """Return the smallest share of finite elements among the outputs."""
        args, kwargs = values.rebuild(self._structure, self._lent)
        outputs, _ = flat_outputs(self._task, self._task.forward(self._reference, tuple(args), kwargs))
        counted = [out.reshape(-1) for out in outputs if out.numel()]
        return min((_finite_share(out) for out in counted), default=1.0)


class Changed(Exception):
    """What was lent is not as it was."""


def _finite_share(flat: torch.Tensor) -> float:
    pieces = (flat[start : start + PIECE_BYTES] for start in range(0, flat.numel(), PIECE_BYTES))
    return sum(float(torch.isfinite(piece.float()).sum()) for piece in pieces) / flat.numel()

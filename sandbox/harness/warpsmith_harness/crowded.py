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
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
from torch import nn

from warpsmith_harness import values
from warpsmith_harness.baselines import Baselines
from warpsmith_harness.candidate import state
from warpsmith_harness.compare import oracle
from warpsmith_harness.lent import PIECE_BYTES, LentArena, contents_sum, exchange, tidy, time_once_warm
from warpsmith_harness.load import LoadedTask
from warpsmith_harness.original import accept
from warpsmith_harness.placement import COPY
from warpsmith_harness.problems import TaskProblem
from warpsmith_harness.protocol import Message
from warpsmith_harness.questions import Examiner, Question
from warpsmith_harness.sharing import Sharing
from warpsmith_harness.subject import input_names
from warpsmith_harness.timing import Call, Stopwatch
from warpsmith_harness.transport import ALIGNMENT, Note, describe, span

_COPIES = 12
"""What judging as usual holds of inputs and outputs at once, in both processes: bases, slots, questions, shared memory."""
_STATES = 5
_USABLE = 0.95
_EXAMINED_SHARE = 0.02
_FEWEST_ROWS = 2
_COPY_SHARE = 0.02
_ROLL = 0.37
_NOBODY = -1
_GIBIBYTE = 1024**3

Answer = Tuple[Message, List[int]]


@dataclass(frozen=True)
class Sizes:
    """How large a task is, in bytes, and what its outputs look like.

    Attributes:
        inputs, outputs, state: Bytes.
        rows: Entries of the first dimension of the first input.
        notes: Of the outputs (``transport.describe``).
        structure: Of the outputs.
        names: Of the inputs, with the bytes of each.
        signature: One line on each input and output.
    """

    inputs: int
    outputs: int
    state: int
    rows: int
    notes: List[Note]
    structure: Any
    names: Dict[str, int]
    signature: List[str]

    @property
    def all(self) -> int:
        """Bytes of all the task's tensors."""
        return self.inputs + self.outputs + self.state

    def crowded(self, memory: int) -> bool:
        """Tell whether judging as usual would not fit."""
        return _COPIES * (self.inputs + self.outputs) + _STATES * self.state > _USABLE * memory

    def check(self, memory: int) -> None:
        """Raise where the task does not fit even so."""
        needed = self.inputs + 2 * self.outputs + 3 * self.state
        if needed > _USABLE * memory:
            raise TaskProblem(
                f"Its tensors fill {_gib(self.all)} of the device's {_gib(memory)}, and judging it takes {_gib(needed)}: "
                f"inputs once ({_gib(self.inputs)}), outputs twice ({_gib(2 * self.outputs)}), state three times "
                f"({_gib(3 * self.state)}).",
                "",
                "Give smaller inputs.",
            )
        host = max(self.outputs, self.inputs)
        if host > _USABLE * _host_memory():
            raise TaskProblem(
                f"Its tensors cross through the host's memory, up to {_gib(host)} at a time, and {_gib(_host_memory())} are "
                "free there.",
                "",
                "Free some memory, or give smaller inputs.",
            )


def measure(task: LoadedTask) -> Sizes:
    """Run the reference once and return how large everything is."""
    reference = task.reference()
    args, kwargs = task.inputs()
    tensors, _ = values.flatten((args, kwargs))
    names = input_names(reference, args, kwargs)
    sizes = {name: _bytes(tensor) for name, tensor in zip(names, tensors)}
    rows = next((tensor.shape[0] for tensor in tensors if tensor.dim()), 0)
    signature = [values.describe(name, tensor) for name, tensor in zip(names, tensors)]
    own = sum(_bytes(tensor) for tensor in state(reference).values())
    outputs, structure = _flat_outputs(task, task.forward(reference, args, kwargs))
    single = len(outputs) == 1
    signature += [values.describe("output" if single else f"output {i}", out) for i, out in enumerate(outputs)]
    return Sizes(
        sum(sizes.values()),
        sum(_bytes(tensor) for tensor in outputs),
        own,
        rows,
        [describe(tensor) for tensor in outputs],
        structure,
        sizes,
        signature,
    )


def accept_rows(task: LoadedTask, sizes: Sizes, memory: int) -> Dict[str, Any]:
    """Examine a task on its first rows; return what ``original.accept`` does, for the whole of it.

    Raises:
        TaskProblem: It does not fit, has too few rows to be examined in part, or asks for what takes more room.
    """
    sizes.check(memory)
    _check_asked(task)
    share = _EXAMINED_SHARE * memory / max(1, sizes.inputs + sizes.outputs)
    task.rows = max(_FEWEST_ROWS, int(sizes.rows * share))
    if task.rows * (sizes.inputs + sizes.outputs) > 2 * _EXAMINED_SHARE * memory * max(1, sizes.rows):
        raise TaskProblem(
            f"Its tensors fill {_gib(sizes.all)} of the device's {_gib(memory)}, so it would be examined on some of its rows, "
            f"and it has only {sizes.rows} along its first dimension.",
            "",
            "Give smaller inputs, or more rows of smaller ones.",
        )
    rows = task.rows
    part = measure(task)
    accepted = accept(task)
    task.rows = None
    if accepted["mutates"]:
        raise TaskProblem(
            f"Its forward changes {', '.join(accepted['mutates'])}, and its tensors fill {_gib(sizes.all)} of the device's "
            f"{_gib(memory)}: there is no room for copies to tell what was changed.",
            "",
            "Give smaller inputs.",
        )
    unused = [name for name in sizes.names if name in accepted["ignores"]]
    left_out = sum(sizes.names[name] - part.names[name] for name in unused)
    grown = sizes.inputs + sizes.outputs - part.inputs - part.outputs - left_out
    lines = [
        line for line in accepted["signature"] if line.split(":")[0] not in {s.split(":")[0] for s in sizes.signature}
    ]
    note = (
        f"Its tensors fill {sizes.all / memory:.0%} of the memory ({_gib(sizes.all)} of {_gib(memory)}): inputs are there once "
        f"for both sides, which take turns with the rest; it was examined on {rows} of {sizes.rows} rows; CUDA graphs, which "
        "keep copies of their own, are not timed."
    )
    return {
        **accepted,
        "notes": [*accepted["notes"], note],
        "bytes_moved": accepted["bytes_moved"] + grown,
        "least_bytes": sizes.outputs,
        "signature": [*sizes.signature[: len(sizes.names)], *lines, *sizes.signature[len(sizes.names) :]],
        "crowded": True,
    }


def _check_asked(task: LoadedTask) -> None:
    asked = [name for name, there in (("gradients", "gradients"), ("dynamic sizes", "dynamic")) if task.spec.get(there)]
    if asked:
        raise TaskProblem(
            f"Its tensors leave no room on the device for {' and '.join(asked)}.",
            "",
            f"Judge it without {' and '.join(asked)}, or give smaller inputs.",
        )


class Crowd:
    """The bench's part, in the place of questions and placements that copy their inputs.

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
        """Lend new inputs to ``worker``, with a new state; see ``Bench._draw``."""
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
        """Lend new inputs for a placement; see ``Bench._place``."""
        answer, descriptors = self._lend(request)
        rollable = self._stays_finite()
        self._arena = LentArena(self._lent, self._structure, rollable)
        answer.update(
            bases=[answer["inputs"]], slots=1, recallable=True, rollable=rollable, output_bytes=self._sizes.outputs
        )
        return answer, descriptors

    def time(self, stopwatch: Stopwatch, baselines: Baselines, request: Message) -> Message:
        """Time a batch of ``side``; a plain copy is of a part, and its time is taken times as many parts."""
        assert self._arena is not None  # timing comes after placing
        copied = request["side"] == COPY
        call = self._copy() if copied else baselines.call(request["side"])
        times = self._half / self._copied if copied else 1.0
        answer = time_once_warm(stopwatch, call, self._arena, request, self._task.device)[0]
        return {**answer, "us": [us * times for us in answer["us"]]} if "us" in answer else answer

    def question(self) -> Question:
        """Return what the reference and the oracle make of the inputs as they are now.

        Raises:
            Changed: They are not what was lent.
        """
        if [contents_sum(tensor) for tensor in self._lent] != self._sums:
            raise Changed("the call changed its inputs, which the original leaves alone")
        args, kwargs = values.rebuild(self._structure, self._lent)
        exact = oracle(self._task, self._reference, tuple(args), kwargs)
        outputs, structure = values.flatten(self._task.forward(self._reference, tuple(args), kwargs))
        return Question(self._lent, self._structure, {}, [out.detach() for out in outputs], structure, exact)

    def release(self) -> None:
        """Give back the memory that was lent, where no worker needs it any more."""
        self._arena = None
        self._lent = []
        self._sharing.holds(_NOBODY)
        tidy(self._task.device)

    def _lend(self, request: Message) -> Answer:
        """Lend new inputs; where they do not fit beside those that this worker has, those are renewed in place."""
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
            memory = tensor.as_strided((span(tensor),), (1,)).cpu()
            tensors[index] = memory.as_strided(tensor.shape, tensor.stride())
        return tensors, structure

    def _fits_twice(self) -> bool:
        return 2 * self._sizes.inputs + 3 * self._sizes.state < _USABLE * self._memory

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
        outputs, _ = _flat_outputs(self._task, self._task.forward(self._reference, tuple(args), kwargs))
        counted = [out.reshape(-1) for out in outputs if out.numel()]
        return min((_finite_share(out) for out in counted), default=1.0)


class Changed(Exception):
    """What was lent is not as it was."""


def _flat_outputs(task: LoadedTask, output: Any) -> Tuple[List[torch.Tensor], Any]:
    try:
        return values.flatten(output)
    except values.Unsupported as error:
        advice = "Judge a module whose forward returns tensors, or tuples, lists and dicts of them."
        raise TaskProblem(f"The forward of {task.cls.__name__} returns {error}.", task.spec["path"], advice) from error


def _finite_share(flat: torch.Tensor) -> float:
    pieces = (flat[start : start + PIECE_BYTES] for start in range(0, flat.numel(), PIECE_BYTES))
    return sum(float(torch.isfinite(piece.float()).sum()) for piece in pieces) / flat.numel()


def _bytes(tensor: torch.Tensor) -> int:
    return span(tensor) * tensor.element_size() if tensor.layout == torch.strided else 0


def _gib(size: int) -> str:
    return f"{size / _GIBIBYTE:.1f} GiB"


def _host_memory() -> int:
    """Return the bytes of the host's memory that nobody needs."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0

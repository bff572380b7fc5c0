"""The usual supply: the worker gets copies of what is drawn, and questions are drawn ahead."""

from __future__ import annotations

import time
from typing import Any, Dict, List, Optional

from torch import nn

from warpsmith_harness.baselines import Baselines
from warpsmith_harness.candidate import state
from warpsmith_harness.little import changed_a_little
from warpsmith_harness.load import LoadedTask
from warpsmith_harness.placement import Placement, time_side
from warpsmith_harness.problems import TaskProblem
from warpsmith_harness.protocol import Message
from warpsmith_harness.questions import Examiner, Question
from warpsmith_harness.sharing import Sharing
from warpsmith_harness.supply import Answer, judge
from warpsmith_harness.timing import Stopwatch, Turn
from warpsmith_harness.variants import Skipped, Variant, Variants

_QUESTIONS_AHEAD = 5
_AHEAD_SHARE_OF_MEMORY = 0.05
_ROW_SHARE_OF_MEMORY = 0.15
_RECALLS = 3
"""Timed calls of a placement whose outputs are compared."""


class Copies:
    """See ``supply.Supply``.

    Args:
        task: The task.
        reference: Its resident reference.
        examiner: Randomises the reference's state.
        variants: Draws what is asked beside fresh inputs.
        sharing: With the worker.
        bytes_moved: What a plain copy must move.
        mutates: Whether the reference changes its inputs or its state, so that no timed call can be asked again.
        memory: Bytes of the device's memory.
    """

    def __init__(
        self,
        task: LoadedTask,
        reference: nn.Module,
        examiner: Examiner,
        variants: Variants,
        sharing: Sharing,
        bytes_moved: int,
        mutates: bool,
        memory: int,
    ) -> None:
        self._task = task
        self._reference = reference
        self._examiner = examiner
        self._variants = variants
        self._sharing = sharing
        self._bytes_moved = bytes_moved
        self._mutates = mutates
        self._memory = memory
        self._ahead: List[Question] = []
        self._asked: List[Question] = []
        self._placement: Optional[Placement] = None

    def draw(self, request: Message) -> Answer:
        """See ``Supply``."""
        started = time.monotonic()
        try:
            question = self._question(request)
        except Skipped as skipped:
            return {"skipped": skipped.reason, "took": time.monotonic() - started}, []
        self._asked = [*self._asked, question] if request["more"] else [question]
        held = [*question.tensors, *question.state.values(), *question.directions]
        answer, descriptors = self._sharing.share(held, [*question.expected, *question.touched], request)
        notes = answer.pop("notes")
        inputs, own = len(question.tensors), len(question.state)
        answer.update(
            structure=question.structure,
            inputs=notes[:inputs],
            state=dict(zip(question.state, notes[inputs : inputs + own])),
            directions=notes[inputs + own :],
            gradients=question.gradients,
            training=question.training,
            misaligned=question.misaligned,
            touched_inputs=list(question.touched_inputs),
            touched_state=list(question.touched_state),
            lent=False,
            sizes=[tensor.numel() * tensor.element_size() for tensor in question.expected],
            took=time.monotonic() - started,
            reference_seconds=question.seconds,
        )
        return answer, descriptors

    def compare(self, request: Message) -> Message:
        """See ``Supply``."""
        return self._judge(self._asked[request["number"]], request)

    def place(self, request: Message) -> Answer:
        """See ``Supply``."""
        self._placement = None
        placement = Placement(self._task, self._reference, self._examiner, self._bytes_moved, self._memory)
        self._placement = placement
        own = {name: tensor.detach() for name, tensor in state(self._reference).items()}
        flat = [tensor for base in placement.bases for tensor in base]
        outputs = self._examiner.ask(placement.bases[0], placement.structure, exact=False)
        answer, descriptors = self._sharing.share(
            [*flat, *own.values()], [*outputs.expected, *outputs.touched], request
        )
        notes = answer.pop("notes")
        width = len(placement.bases[0])
        answer.update(
            structure=placement.structure,
            bases=[notes[start : start + width] for start in range(0, len(flat), width)],
            state=dict(zip(own, notes[len(flat) :])),
            slots=placement.arena.slots,
            recalls=0 if self._mutates else _RECALLS,
            rollable=placement.rollable,
            lent=False,
            output_bytes=sum(tensor.numel() * tensor.element_size() for tensor in outputs.expected),
        )
        return answer, descriptors

    def time(self, stopwatch: Stopwatch, baselines: Baselines, request: Message) -> Message:
        """See ``Supply``."""
        placement = self._placed()
        call = placement.call(request["side"], baselines)
        times: Dict[str, Any] = time_side(stopwatch, call, placement.arena, request, self._task.spec)[0]
        return times

    def recall(self, request: Message) -> Message:
        """See ``Supply``."""
        base, slot, roll = request["turn"]
        return self._judge(self._placed().question(Turn(base, slot, roll)), request)

    def prepare(self) -> bool:
        """Draw a question ahead, as far as there is room for more."""
        room = _AHEAD_SHARE_OF_MEMORY * self._memory - sum(question.size for question in self._ahead)
        if len(self._ahead) >= _QUESTIONS_AHEAD or (self._ahead and self._ahead[0].size >= room):
            return False
        try:
            self._ahead.append(self._examiner.draw())
        except TaskProblem:  # met again, and told, when a verdict draws
            return False
        return True

    def make_room(self) -> None:
        """See ``Supply``; there is enough."""

    def modes(self, modes: List[str]) -> List[str]:
        """See ``Supply``."""
        return modes

    def _question(self, request: Message) -> Question:
        """Return what is asked; raises ``Skipped``."""
        variant, calls = request["variant"], request["calls"]
        if not variant and calls == 1:
            return self._ahead.pop() if self._ahead else self._examiner.draw()
        if variant.get("little"):
            if not self._asked:
                raise Skipped
            return changed_a_little(self._asked[-1], self._task, self._reference, self._examiner)
        # Calls in a row share a state: a question that was drawn ahead has another than the reference has by now.
        question = self._variants.draw(Variant(**variant))
        if calls > 1 and calls * question.size > _ROW_SHARE_OF_MEMORY * self._memory:
            raise Skipped("the tensors of several calls would fill too much of the memory")
        return question

    def _judge(self, question: Question, request: Message) -> Message:
        return judge(question, request, self._sharing, self._task.spec["tolerance"])

    def _placed(self) -> Placement:
        if self._placement is None:
            raise RuntimeError("there is no placement")
        return self._placement

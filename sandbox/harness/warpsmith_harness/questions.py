"""Questions for a candidate: fresh inputs and state, with what the reference and the float64 oracle make of them."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, Optional

import torch
from torch import nn

from warpsmith_harness import values
from warpsmith_harness.candidate import state
from warpsmith_harness.compare import Oracle, compare, oracle
from warpsmith_harness.load import LoadedTask
from warpsmith_harness.transport import span


@dataclass
class Question:
    """One comparison to come.

    Attributes:
        tensors, structure: The forward's arguments ``(args, kwargs)``, flattened.
        state: Parameters and persistent buffers by name.
        expected, expected_structure: The reference's own outputs, flattened.
        exact: The oracle's outputs.
        touched_inputs, touched_state: Which of them the reference itself changes, with their contents afterwards.
        training: Whether the reference was in train mode.
        seconds: How long the reference took.
        misaligned: Inputs that the candidate is to get one element behind an aligned address.
        own, own_touched: How far the reference's own errors go in each row of an output, and of what it changes, where that
            was looked at; see ``compare``.
        directions: What the outputs' gradients are multiplied by, where gradients are asked for.
        gradients: What gradients are asked for; ``expected`` and ``exact`` hold them behind the outputs.
        labels: What to call the gradients.
    """

    tensors: List[torch.Tensor]
    structure: Any
    state: Dict[str, torch.Tensor]
    expected: List[torch.Tensor]
    expected_structure: Any
    exact: Oracle
    touched_inputs: Dict[int, torch.Tensor] = field(default_factory=dict)
    touched_state: Dict[str, torch.Tensor] = field(default_factory=dict)
    training: bool = False
    seconds: float = 0.0
    misaligned: List[int] = field(default_factory=list)
    own: Optional[List[torch.Tensor]] = None
    own_touched: Optional[List[torch.Tensor]] = None
    directions: List[torch.Tensor] = field(default_factory=list)
    gradients: List[str] = field(default_factory=list)
    labels: List[str] = field(default_factory=list)

    @property
    def touched(self) -> List[torch.Tensor]:
        """What the reference leaves in the inputs and the state it changes."""
        return [*self.touched_inputs.values(), *self.touched_state.values()]

    @property
    def size(self) -> int:
        """Bytes it holds."""
        held = [*self.tensors, *self.state.values(), *self.expected, *self.exact.outputs]
        return sum(tensor.numel() * tensor.element_size() for tensor in held)


@dataclass(frozen=True)
class KeptState:
    """Parameters and buffers as they were before a call, and those that it changed, as it left them."""

    before: Dict[str, torch.Tensor]
    touched: Dict[str, torch.Tensor]


class Examiner:
    """Draws questions for one task from its resident reference, whose state changes with every draw.

    Args:
        task: The task.
        reference: Its reference.
        strength: How far the state may be randomised without the reference overflowing.
    """

    def __init__(self, task: LoadedTask, reference: nn.Module, strength: float) -> None:
        self._task = task
        self._reference = reference
        self._strength = strength
        self._initial = {name: value.detach().clone() for name, value in state(reference).items()}

    def new_state(self) -> None:
        """Randomise the reference's parameters and buffers around what they were constructed with."""
        with torch.no_grad():
            for name, value in state(self._reference).items():
                value.copy_(self._initial[name])
        if self._strength:
            values.randomise_state(self._reference, self._strength)

    def draw(self) -> Question:
        """Return a question with new state and inputs."""
        self.new_state()
        tensors, structure = values.flatten(self._task.inputs())
        return self.ask(tensors, structure)

    def ask(self, tensors: List[torch.Tensor], structure: Any, exact: bool = True) -> Question:
        """Return a question on given inputs, at the present state; without ``exact`` the reference is its own oracle."""
        given = [values.clone_like(tensor) for tensor in tensors]
        args, kwargs = values.rebuild(structure, given)
        started = time.monotonic()
        with self.state_kept() as kept:
            outputs, expected_structure = values.flatten(self._task.forward(self._reference, tuple(args), kwargs))
            expected = [values.clone_like(tensor.detach()) for tensor in outputs]
        seconds = time.monotonic() - started
        touched_inputs = {i: given[i] for i in range(len(given)) if not same_bits(given[i], tensors[i])}
        answer = self._exact(tensors, structure) if exact else Oracle(expected)
        return Question(
            tensors,
            structure,
            kept.before,
            expected,
            expected_structure,
            answer,
            touched_inputs,
            kept.touched,
            self._reference.training,
            seconds,
        )

    @contextlib.contextmanager
    def state_kept(self) -> Iterator[KeptState]:
        """Put back the state that a call changes; what is yielded says afterwards what it changed."""
        kept = KeptState({key: value.detach().clone() for key, value in state(self._reference).items()}, {})
        try:
            yield kept
        finally:
            after = {key: value.detach() for key, value in state(self._reference).items()}
            changed = [key for key, value in after.items() if not same_bits(value, kept.before[key])]
            kept.touched.update({key: after[key].clone() for key in changed})
            with torch.no_grad():
                for key in changed:
                    after[key].copy_(kept.before[key])

    def _exact(self, tensors: List[torch.Tensor], structure: Any) -> Oracle:
        args, kwargs = values.rebuild(structure, [values.clone_like(tensor) for tensor in tensors])
        return oracle(self._task, self._reference, tuple(args), kwargs)


def judge_answer(
    question: Question,
    outputs: List[torch.Tensor],
    structure: Any,
    touched: List[torch.Tensor],
    absent: List[int],
    tolerance: str,
) -> Dict[str, Any]:
    """Compare a candidate's outputs, and what it left in inputs and state, with a question's.

    Args:
        question: The question.
        outputs: The candidate's outputs, and its gradients behind them.
        structure: Of the outputs.
        touched: What it left in the inputs and the state that the reference changes.
        absent: Numbers of the gradients that it does not give.
        tolerance: See ``compare``.

    Returns:
        ``ok``, ``max_abs_error``, ``max_rel_error``, ``reason``.
    """
    reason = values.same_structure(question.expected_structure, structure) or _without_gradient(question, absent)
    if reason:
        return {"ok": False, "max_abs_error": None, "max_rel_error": None, "reason": reason}
    exact, names = question.exact, _names(question)
    result = compare(outputs, question.expected, exact.outputs, tolerance, exact.rows, question.own, names)
    if result["ok"] and question.touched:
        where = [*(f"input {i}" for i in question.touched_inputs), *question.touched_state]
        left = compare(touched, question.touched, question.touched, tolerance, own=question.own_touched, names=where)
        if not left["ok"]:
            result = {**left, "reason": f"of what the original writes, {left['reason']}"}
    return result


def _without_gradient(question: Question, absent: List[int]) -> str:
    named = [question.labels[number].replace("The gradient of ", "") for number in absent]
    return f"it gives no gradient for {', '.join(named)}: its output is detached from there." if named else ""


def _names(question: Question) -> Optional[List[str]]:
    """Name outputs and gradients where there are gradients; ``compare`` does for outputs alone."""
    if not question.labels:
        return None
    count = len(question.expected) - len(question.labels)
    return [*(["The output"] if count == 1 else [f"Output {index}" for index in range(count)]), *question.labels]


def same_bits(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Tell whether two tensors of one layout hold the same bytes; NaN equals itself here."""
    if any(
        tensor.is_conj() or tensor.is_neg() for tensor in (first, second)
    ):  # torch does that when it reads the bytes
        first, second = (tensor.resolve_conj().resolve_neg().contiguous() for tensor in (first, second))
    return torch.equal(raw_bytes(first), raw_bytes(second))


def raw_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """View the memory a tensor covers as bytes."""
    flat = tensor.detach().as_strided((span(tensor),), (1,))
    return (torch.view_as_real(flat) if flat.is_complex() else flat).view(torch.uint8)

"""Questions for a candidate: fresh inputs and state, with what the reference and the float64 oracle make of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List

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
    """

    tensors: List[torch.Tensor]
    structure: Any
    state: Dict[str, torch.Tensor]
    expected: List[torch.Tensor]
    expected_structure: Any
    exact: Oracle
    touched_inputs: Dict[int, torch.Tensor] = field(default_factory=dict)
    touched_state: Dict[str, torch.Tensor] = field(default_factory=dict)

    @property
    def touched(self) -> List[torch.Tensor]:
        """What the reference leaves in the inputs and the state it changes."""
        return [*self.touched_inputs.values(), *self.touched_state.values()]

    @property
    def size(self) -> int:
        """Bytes it holds."""
        held = [*self.tensors, *self.state.values(), *self.expected, *self.exact.outputs]
        return sum(tensor.numel() * tensor.element_size() for tensor in held)


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

    def draw(self, scale: float = 1.0) -> Question:
        """Return a question with new state and inputs; floating inputs are multiplied by ``scale``."""
        self.new_state()
        tensors, structure = values.flatten(self._task.inputs())
        return self.ask([_scaled(tensor, scale) for tensor in tensors], structure)

    def ask(self, tensors: List[torch.Tensor], structure: Any, exact: bool = True) -> Question:
        """Return a question on given inputs, at the present state; without ``exact`` the reference is its own oracle."""
        before = {key: value.detach().clone() for key, value in state(self._reference).items()}
        given = [values.clone_like(tensor) for tensor in tensors]
        args, kwargs = values.rebuild(structure, given)
        outputs, expected_structure = values.flatten(self._task.forward(self._reference, tuple(args), kwargs))
        expected = [values.clone_like(tensor.detach()) for tensor in outputs]
        after = {key: value.detach() for key, value in state(self._reference).items()}
        touched_inputs = {i: given[i] for i in range(len(given)) if not same_bits(given[i], tensors[i])}
        touched_state = {key: after[key].clone() for key in after if not same_bits(after[key], before[key])}
        with torch.no_grad():
            for key in touched_state:
                after[key].copy_(before[key])
        answer = self._exact(tensors, structure) if exact else Oracle(expected)
        return Question(tensors, structure, before, expected, expected_structure, answer, touched_inputs, touched_state)

    def _exact(self, tensors: List[torch.Tensor], structure: Any) -> Oracle:
        args, kwargs = values.rebuild(structure, [values.clone_like(tensor) for tensor in tensors])
        return oracle(self._task, self._reference, tuple(args), kwargs)


def judge_answer(
    question: Question, outputs: List[torch.Tensor], structure: Any, touched: List[torch.Tensor], tolerance: str
) -> Dict[str, Any]:
    """Compare a candidate's outputs, and what it left in inputs and state, with a question's.

    Returns:
        ``ok``, ``max_abs_error``, ``max_rel_error``, ``reason``.
    """
    reason = values.same_structure(question.expected_structure, structure)
    if reason:
        return {"ok": False, "max_abs_error": None, "max_rel_error": None, "reason": reason}
    result = compare(outputs, question.expected, question.exact.outputs, tolerance, question.exact.rows)
    if result["ok"] and question.touched:
        left = compare(touched, question.touched, question.touched, tolerance)
        if not left["ok"]:
            where = [*(f"input {i}" for i in question.touched_inputs), *question.touched_state]
            result = {**left, "reason": f"what the original writes to {', '.join(where)} differs: {left['reason']}"}
    return result


def same_bits(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Tell whether two tensors of one layout hold the same bytes; NaN equals itself here."""
    return torch.equal(raw_bytes(first), raw_bytes(second))


def raw_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """View the memory a tensor covers as bytes."""
    flat = tensor.detach().as_strided((span(tensor),), (1,))
    return (torch.view_as_real(flat) if flat.is_complex() else flat).view(torch.uint8)


def _scaled(tensor: torch.Tensor, scale: float) -> torch.Tensor:
    return tensor * scale if scale != 1.0 and tensor.is_floating_point() else tensor

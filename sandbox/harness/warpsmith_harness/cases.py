"""Verification cases: fresh inputs and state with what the reference and the float64 oracle make of them."""

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
class Case:
    """One comparison to come.

    Attributes:
        name: How the verdict calls it.
        tensors, structure: The forward's arguments ``(args, kwargs)``, flattened.
        state: Parameters and persistent buffers by name.
        expected, expected_structure: The reference's own outputs, flattened.
        exact: The oracle's outputs.
        touched_inputs, touched_state: Which of them the reference itself changes, with their contents afterwards.
        notes: What was done differently, and why.
    """

    name: str
    tensors: List[torch.Tensor]
    structure: Any
    state: Dict[str, torch.Tensor]
    expected: List[torch.Tensor]
    expected_structure: Any
    exact: Oracle
    touched_inputs: Dict[int, torch.Tensor] = field(default_factory=dict)
    touched_state: Dict[str, torch.Tensor] = field(default_factory=dict)
    notes: List[str] = field(default_factory=list)

    @property
    def touched(self) -> List[torch.Tensor]:
        """What the reference leaves in the inputs and the state it changes."""
        return [*self.touched_inputs.values(), *self.touched_state.values()]

    @property
    def size(self) -> int:
        """Bytes it holds."""
        held = [*self.tensors, *self.state.values(), *self.expected, *self.exact.outputs]
        return sum(tensor.numel() * tensor.element_size() for tensor in held)


class CaseMaker:
    """Draws cases for one task and its resident reference, whose state changes with every draw."""

    def __init__(self, task: LoadedTask, reference: nn.Module) -> None:
        self._task = task
        self._reference = reference
        self._initial = {name: value.detach().clone() for name, value in state(reference).items()}
        self._strength = 1.0

    def draw(self, name: str, scale: float = 1.0) -> Case:
        """Return a case with new state and inputs; floating inputs are multiplied by ``scale``.

        Where randomised parameters make the reference overflow, they are moved less far, and a note says so.
        """
        while True:
            self._new_state()
            case = self._run(name, scale)
            if self._strength == 0.0 or all(_finite(tensor) for tensor in case.expected):
                return case
            self._strength = self._strength / 4 if self._strength > 0.1 else 0.0

    def _new_state(self) -> None:
        with torch.no_grad():
            for name, value in state(self._reference).items():
                value.copy_(self._initial[name])
        if self._strength:
            values.randomise_state(self._reference, self._strength)

    def _run(self, name: str, scale: float) -> Case:
        tensors, structure = values.flatten(self._task.inputs())
        tensors = [_scaled(tensor, scale) for tensor in tensors]
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
        exact = self._exact(tensors, structure)
        notes = list(exact.notes)
        if self._strength < 1.0:
            notes.append(f"parameters were randomised at {self._strength:.2g} of the usual strength: more overflows")
        return Case(
            name, tensors, structure, before, expected, expected_structure, exact, touched_inputs, touched_state, notes
        )

    def _exact(self, tensors: List[torch.Tensor], structure: Any) -> Oracle:
        args, kwargs = values.rebuild(structure, [values.clone_like(tensor) for tensor in tensors])
        return oracle(self._task, self._reference, tuple(args), kwargs)


def judge_outputs(
    case: Case, outputs: List[torch.Tensor], structure: Any, touched: List[torch.Tensor], tolerance: str
) -> Dict[str, Any]:
    """Compare a candidate's outputs, and what it left in inputs and state, with a case; return a verdict's case."""
    reason = values.same_structure(case.expected_structure, structure)
    if reason:
        return {"name": case.name, "ok": False, "max_abs_error": None, "max_rel_error": None, "reason": reason}
    result = compare(outputs, case.expected, case.exact.outputs, tolerance, case.exact.rows)
    if result["ok"] and case.touched:
        left = compare(touched, case.touched, case.touched, tolerance)
        if not left["ok"]:
            where = [*(f"input {i}" for i in case.touched_inputs), *case.touched_state]
            result = {**left, "reason": f"what the original writes to {', '.join(where)} differs: {left['reason']}"}
    return {"name": case.name, **result}


def same_bits(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Tell whether two tensors of one layout hold the same bytes; NaN equals itself here."""
    return torch.equal(_bytes(first), _bytes(second))


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.detach().as_strided((span(tensor),), (1,))
    return (torch.view_as_real(flat) if flat.is_complex() else flat).view(torch.uint8)


def _scaled(tensor: torch.Tensor, scale: float) -> torch.Tensor:
    return tensor * scale if scale != 1.0 and tensor.is_floating_point() else tensor


def _finite(tensor: torch.Tensor) -> bool:
    return not tensor.is_floating_point() or tensor.dtype.itemsize == 1 or bool(torch.isfinite(tensor).all())

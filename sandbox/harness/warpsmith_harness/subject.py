"""A reference on one set of inputs, and answers held against its own."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Optional

import torch
from torch import nn

from warpsmith_harness import values
from warpsmith_harness.compare import Oracle, compare, oracle
from warpsmith_harness.problems import TaskProblem, line
from warpsmith_harness.surroundings import surroundings

if TYPE_CHECKING:
    from warpsmith_harness.load import LoadedTask


class Subject:
    """A reference with one set of inputs; every run starts from the same inputs and the same buffers.

    Attributes:
        names: The name of each input tensor, from the signature of the forward.
        inputs: The input tensors.
        changed_inputs: Names of those that the last run changed.
        changed_buffers: Names of the buffers that it changed; they have been put back.
    """

    def __init__(self, task: LoadedTask, reference: nn.Module) -> None:
        self.task = task
        self.reference = reference
        args, kwargs = task.inputs()
        self.inputs, self._structure = values.flatten((args, kwargs))
        self.names = input_names(reference, args, kwargs)
        self._buffers = {name: buffer.clone() for name, buffer in reference.named_buffers()}

    def run(self, inputs: Optional[list[torch.Tensor]] = None) -> list[torch.Tensor]:
        """Return copies of the output's tensors, on the subject's inputs or on others."""
        given = self.inputs if inputs is None else inputs
        copies = [values.clone_like(tensor) for tensor in given]
        args, kwargs = values.rebuild(self._structure, copies)
        output = self.task.forward(self.reference, tuple(args), kwargs)
        outputs = [tensor.detach().clone() for tensor in self._tensors(output)]
        self.changed_inputs = [n for n, a, b in zip(self.names, copies, given) if not same(a, b)]
        self.changed_buffers = self._restore()
        return outputs

    def differentiable(self, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        """Return the output's tensors with their graph, on inputs that are not copied."""
        args, kwargs = values.rebuild(self._structure, inputs)
        with surroundings(self.task.spec, recording=True):
            outputs = values.flatten(self.reference(*args, **kwargs))[0]
        self._restore()
        return outputs

    def exact(self) -> Oracle:
        """Return the oracle's outputs."""
        args, kwargs = values.rebuild(self._structure, self.inputs)
        return oracle(self.task, self.reference, tuple(args), kwargs)

    def keep_state(self) -> None:
        """Take the buffers as they are now for the state that every run starts from."""
        self._buffers = {name: buffer.clone() for name, buffer in self.reference.named_buffers()}

    def _restore(self) -> list[str]:
        changed = []
        with torch.no_grad():
            for name, buffer in self.reference.named_buffers():
                if name in self._buffers and not same(buffer, self._buffers[name]):
                    changed.append(name)
                    buffer.copy_(self._buffers[name])
        return changed

    def _tensors(self, output: Any) -> list[torch.Tensor]:
        where = f"{self.task.spec['path']}:{line(self.task.cls.forward)}"
        advice = "Judge a module whose forward returns tensors, or tuples, lists and dicts of them."
        try:
            tensors, _ = values.flatten(output)
        except values.Unsupported as error:
            raise TaskProblem(f"The forward of {self.task.cls.__name__} returns {error}.", where, advice) from error
        if not tensors:
            raise TaskProblem(f"The forward of {self.task.cls.__name__} returns no tensor.", where, advice)
        if any(tensor.layout != torch.strided for tensor in tensors):
            raise TaskProblem(f"The forward of {self.task.cls.__name__} returns a sparse tensor.", where, advice)
        return tensors


class Answers:
    """Holds answers against the reference's on the subject's inputs, as a verdict would."""

    def __init__(self, tolerance: str, outputs: list[torch.Tensor], exact: Oracle) -> None:
        self._tolerance = tolerance
        self.outputs = outputs
        self._exact = exact

    def passes(self, answer: list[torch.Tensor], only: Optional[int] = None) -> bool:
        """Whether an answer passes, for one output or for all."""
        chosen = range(len(self.outputs)) if only is None else [only]
        got, wanted, best = ([whole[i] for i in chosen] for whole in (answer, self.outputs, self._exact.outputs))
        return bool(compare(got, wanted, best, self._tolerance, self._exact.rows)["ok"])


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors are equal, NaN to NaN."""
    if a.dtype.itemsize == 1:
        return torch.equal(a.view(torch.uint8), b.view(torch.uint8))
    return torch.equal(a, b) or bool(torch.isclose(a, b, rtol=0.0, atol=0.0, equal_nan=True).all())


def input_names(reference: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """Return a name for each input tensor in the order of ``flatten((args, kwargs))``."""
    parameters = list(inspect.signature(reference.forward).parameters.values())
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    names: list[str] = []
    for index, value in enumerate(args):
        name = named[index] if index < len(named) else f"args[{index}]"
        names += values.names(values.flatten(value)[1], name)
    for key, value in kwargs.items():
        names += values.names(values.flatten(value)[1], key)
    return names

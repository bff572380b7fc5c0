"""Decides whether a reference can be judged against, and says what there is to know about it.

A task is accepted when its reference is deterministic, its output depends on its inputs, and trivial answers fail.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Iterator, Optional

import torch
from torch import nn

from warpsmith_harness import drawing, values
from warpsmith_harness.compare import own_error
from warpsmith_harness.operators import operators
from warpsmith_harness.precision import class_of, uses_tf32
from warpsmith_harness.problems import TaskProblem, line
from warpsmith_harness.seeds import generator
from warpsmith_harness.subject import Answers, Subject, same
from warpsmith_harness.traffic import bytes_moved, least_bytes

if TYPE_CHECKING:
    from warpsmith_harness.load import LoadedTask

__all__ = ["accept", "profile"]

_RUNS = 3
_RUNS_OF_WHAT_DRAWS = 25
"""Of a forward that draws random numbers: what it makes of them, such as a coin's side, may well be equal a few times."""
_DRAWS = 5
_ULPS = 8
_DEPENDENCE_SECONDS = 5.0
_PRODUCTS = (nn.modules.conv._ConvNd, nn.Linear, nn.RNNBase)
_STRENGTHS = (1.0, 0.8, 0.3, 0.05)


def accept(task: LoadedTask) -> dict[str, Any]:
    """Examine the reference.

    Returns:
        ``notes`` (sentences), ``depends_on`` and ``ignores`` (names of inputs, parameters and buffers), ``precision``
        (the class it runs in), ``mutates`` (inputs and buffers that its own forward changes), ``state_strength`` (for
        ``values.randomise_state``, so that its outputs stay finite), ``bytes_moved`` (see ``traffic``), ``least_bytes``
        (the floor that a time may be rejected by) and ``signature``.

    Raises:
        TaskProblem: It cannot be built or run, is not deterministic, ignores its inputs, or a trivial answer passes.
    """
    subject = Subject(task, task.reference())
    outputs = subject.run()
    captured = task.captured.notes if task.captured is not None else []
    notes = [*captured, *_check_deterministic(subject, outputs), *_mutation_notes(subject)]
    mutates = [*subject.changed_inputs, *subject.changed_buffers]
    strength = _randomise(subject, outputs, notes)
    outputs, exact = subject.run(), subject.exact()
    notes += exact.notes
    answers = Answers(task.spec["tolerance"], outputs, exact)
    _check_inputs_matter(subject, answers, notes)
    _check_trivial_answers(subject, answers)
    depends_on, ignores, used = _dependence(subject, answers, notes)
    return {
        "notes": notes,
        "depends_on": depends_on,
        "ignores": ignores,
        "precision": _precision(subject, None if exact.rows is not None else exact.outputs, notes),
        "mutates": mutates,
        "state_strength": strength,
        "bytes_moved": bytes_moved(subject, used, outputs),
        "least_bytes": least_bytes(subject, outputs),
        "signature": _signature(subject, outputs),
    }


def profile(task: LoadedTask, accepted: Optional[dict[str, Any]] = None) -> dict[str, Any]:
    """Return ``operators`` by time (``name``, ``calls``, ``us``, ``share``), ``bytes_moved`` and ``signature``.

    ``accepted`` is what ``accept`` returned; without it the reference is examined first.
    """
    known = accepted if accepted is not None else accept(task)
    reference = task.reference()
    args, kwargs = task.inputs()
    found = operators(lambda: task.forward(reference, args, kwargs), task.device)
    return {"operators": found, "bytes_moved": known["bytes_moved"], "signature": known["signature"]}


# --- Deterministic --------------------------------------------------------------------------------------------------


def _check_deterministic(subject: Subject, first: list[torch.Tensor]) -> list[str]:
    """Run again on the same inputs; return a note if rounding differs, raise if more does."""
    drew = False
    worst = 0.0
    runs = 1
    while runs < (_RUNS_OF_WHAT_DRAWS if drew else _RUNS):
        runs += 1
        before = _generators(subject.task.device)
        again = subject.run()
        drew = drew or before != _generators(subject.task.device)
        if len(again) != len(first) or any(a.shape != b.shape or a.dtype != b.dtype for a, b in zip(again, first)):
            raise _not_deterministic(subject, "the shape of its output", drew)
        worst = max([worst, *(_ulps(a, b) for a, b in zip(again, first))])
        if worst > _ULPS:
            raise _not_deterministic(subject, "its output", drew)
    if worst > 0:
        return [f"Its output differs by up to {worst:.1f} units in the last place from run to run, as atomic sums do."]
    return []


def _not_deterministic(subject: Subject, what: str, drew: bool) -> TaskProblem:
    name = subject.task.cls.__name__
    dropouts = [
        part for part, module in subject.reference.named_modules() if isinstance(module, nn.modules.dropout._DropoutNd)
    ]
    why, advice = "", "Make it give equal outputs for equal inputs."
    if drew and subject.task.training and dropouts:
        how = "." if subject.task.captured is None else ": --no-train."
        why, advice = f" It draws random numbers: {', '.join(dropouts)} in train mode.", f"Judge it in eval mode{how}"
    elif drew:
        why, advice = " It draws random numbers.", "Judge it in eval mode, or pass what it draws as an input."
    elif subject.changed_buffers:
        why = f" Its forward changes {', '.join(subject.changed_buffers)}."
    where = f"{subject.task.spec['path']}:{line(subject.task.cls.forward)}"
    return TaskProblem(
        f"{name} is not deterministic: {what} differs between runs on the same inputs.{why}", where, advice
    )


def _generators(device: torch.device) -> list[int]:
    states = [torch.get_rng_state()]
    if device.type == "cuda":
        states.append(torch.cuda.get_rng_state(device))
    return [values.checksum(state) for state in states]


def _ulps(a: torch.Tensor, b: torch.Tensor) -> float:
    """Return the largest difference in units in the last place at the RMS; infinite where that means nothing."""
    if same(a, b):
        return 0.0
    if not (a.is_floating_point() or a.is_complex()):
        return float("inf")
    if not torch.equal(torch.isfinite(a), torch.isfinite(b)):
        return float("inf")
    worst, scale = own_error(a, b)
    unit = scale * torch.finfo(a.dtype).eps
    return worst / unit if unit else float("inf") if worst else 0.0


def _mutation_notes(subject: Subject) -> list[str]:
    notes = []
    if subject.changed_inputs:
        notes.append(f"Its forward changes its own inputs: {', '.join(subject.changed_inputs)}.")
    if subject.changed_buffers:
        notes.append(f"Its forward changes its buffers: {', '.join(subject.changed_buffers)}.")
    return notes


# --- Dependence -----------------------------------------------------------------------------------------------------


def _randomise(subject: Subject, initial: list[torch.Tensor], notes: list[str]) -> float:
    """Randomise the state as far as the outputs stay as finite as they were; return how far that is."""
    fraction = _finite(initial)
    start = {name: tensor.detach().clone() for name, tensor in _state(subject.reference).items()}
    for strength in _STRENGTHS:
        values.randomise_state(subject.reference, strength)
        subject.keep_state()
        if _finite(subject.run()) >= fraction:
            return strength
        with torch.no_grad():
            for name, tensor in _state(subject.reference).items():
                tensor.copy_(start[name])
    subject.keep_state()
    notes.append("Its parameters stay as constructed: with randomised ones its output is not finite.")
    return 0.0


def _state(module: nn.Module) -> dict[str, torch.Tensor]:
    """Return parameters and all buffers, each once."""
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def _finite(outputs: list[torch.Tensor]) -> float:
    counted = [tensor for tensor in outputs if tensor.numel()]
    return min(
        (
            float(torch.isfinite(tensor if tensor.dtype.itemsize > 1 else tensor.float()).double().mean())
            for tensor in counted
        ),
        default=1.0,
    )


def _check_inputs_matter(subject: Subject, answers: Answers, notes: list[str]) -> None:
    """Raise when the outputs on other inputs pass as those on these."""
    if not subject.inputs:
        raise TaskProblem(
            f"{subject.task.cls.__name__} takes no input tensors, so a constant answers it.",
            subject.task.spec["path"],
            "Give tensors as inputs.",
        )
    count = len(answers.outputs)
    constant = [i for i in range(count) if all(answers.passes(other, i) for other in _elsewhere(subject))]
    if len(constant) == count:
        raise TaskProblem(
            f"The output of {subject.task.cls.__name__} does not depend on its inputs: a constant answers it.",
            f"{subject.task.spec['path']}:{line(subject.task.cls.forward)}",
            "Check the module: operations may cancel each other, such as a softmax followed by its sum.",
        )
    if constant:
        notes.append(f"Outputs that do not depend on the inputs: {', '.join(map(str, constant))}.")


def _elsewhere(subject: Subject) -> Iterator[list[torch.Tensor]]:
    """Yield the outputs on other inputs, a few times: a single loss may be equal by chance."""
    for _ in range(_DRAWS):
        yield subject.run([_other(tensor, subject.task.as_seen) for tensor in subject.inputs])


def _dependence(
    subject: Subject, answers: Answers, notes: list[str]
) -> tuple[list[str], list[str], list[torch.Tensor]]:
    """Renew each input, parameter and buffer alone; return the names that matter, those that do not, and the former."""
    depends_on: list[str] = []
    ignores: list[str] = []
    used: list[torch.Tensor] = []
    untested: list[str] = []
    end = time.monotonic() + _DEPENDENCE_SECONDS
    for index, (name, tensor) in enumerate(zip(subject.names, subject.inputs)):
        new = _other(tensor, subject.task.as_seen)
        tested = not same(new, tensor)
        untested += [] if tested else [name]
        inputs = [new if i == index else old for i, old in enumerate(subject.inputs)]
        matters = not tested or _matters(subject, answers, inputs)
        (depends_on if matters else ignores).append(name)
        used += [tensor] if matters else []
    for name, tensor in _state(subject.reference).items():
        tested = time.monotonic() < end and (tensor.is_floating_point() or tensor.is_complex())
        untested += [] if tested or not tensor.dim() else [name]
        matters = _state_matters(subject, answers, tensor) if tested else tensor.dim() > 0
        (depends_on if matters else ignores).append(name)
        used += [tensor] if matters else []
    if untested:
        notes.append(f"Whether the output depends on {', '.join(untested)} was not tested; it is taken to.")
    return depends_on, ignores, used


def _matters(subject: Subject, answers: Answers, inputs: Optional[list[torch.Tensor]]) -> bool:
    try:
        return not answers.passes(subject.run(inputs))
    except TaskProblem:  # a value that makes the forward raise is a value that it looks at
        return True


def _state_matters(subject: Subject, answers: Answers, tensor: torch.Tensor) -> bool:
    old = tensor.detach().clone()
    with torch.no_grad():
        tensor.copy_(values.randomised(tensor, True))
    subject.keep_state()
    try:
        return _matters(subject, answers, None)
    finally:
        with torch.no_grad():
            tensor.copy_(old)
        subject.keep_state()


def _other(tensor: torch.Tensor, as_seen: bool) -> torch.Tensor:
    """Return new contents for a test of dependence; unlike ``fresh`` it flips half of a mask's elements, and one at least.

    Integers that are drawn ``as_seen`` may point into something, and stay where that is.
    """
    if tensor.dtype == torch.bool:
        chances = torch.rand(tensor.shape, generator=generator(tensor.device), device=tensor.device)
        return tensor ^ ((chances < 0.5) | (chances == chances.min())) if tensor.numel() else tensor
    integer = not (tensor.is_floating_point() or tensor.is_complex())
    return drawing.drawn(tensor) if as_seen and integer else values.fresh(tensor)


# --- Trivial answers ------------------------------------------------------------------------------------------------


def _check_trivial_answers(subject: Subject, answers: Answers) -> None:
    """Raise when an answer passes that needs no computation."""
    found = [name for name, answer in _trivial(subject, answers.outputs) if answers.passes(answer)]
    if all(answers.passes(_means(answers.outputs, other)) for other in _elsewhere(subject)):
        found.append("a constant, the mean of its outputs")
    if found:
        budget = subject.task.spec["tolerance"] == "budget"
        advice = "Give inputs on which it has something to compute" + ("." if budget else ", or the tolerance budget.")
        if subject.task.captured is not None:
            advice = "Capture it with trained weights: as it was initialised it may have nothing to do yet."
        raise TaskProblem(
            f"A trivial answer passes as {subject.task.cls.__name__}: {found[0]}.", subject.task.spec["path"], advice
        )


def _trivial(subject: Subject, outputs: list[torch.Tensor]) -> Iterator[tuple[str, list[torch.Tensor]]]:
    """Yield answers one at a time, for they are as large as the outputs."""
    yield "zeros", [torch.zeros_like(out) for out in outputs]
    yield "ones", [torch.ones_like(out) for out in outputs]
    if any(out.is_floating_point() for out in outputs):
        yield "NaN", [torch.full_like(out, torch.nan) if out.is_floating_point() else out for out in outputs]
    for name, tensor in zip(subject.names, subject.inputs):
        if all(out.shape == tensor.shape and torch.can_cast(tensor.dtype, out.dtype) for out in outputs):
            yield f"its input {name}", [tensor.to(out.dtype).contiguous() for out in outputs]


def _means(outputs: list[torch.Tensor], other: list[torch.Tensor]) -> list[torch.Tensor]:
    """Fill each output with the mean of what it is on other inputs, which a constant could be."""
    return [
        torch.full_like(out, of.to(torch.complex128 if of.is_complex() else torch.float64).mean().item())
        if of.numel()
        else out
        for out, of in zip(outputs, other)
    ]


# --- Facts ----------------------------------------------------------------------------------------------------------


def _precision(subject: Subject, exact: Optional[list[torch.Tensor]], notes: list[str]) -> str:
    """Return the class that the reference really runs in, by its dtypes and, for fp32 on CUDA, by the TF32 flags."""
    cast = subject.task.spec.get("autocast")
    found = class_of([*subject.inputs, *subject.reference.parameters()])
    if cast and found == "fp32":
        notes.append(f"It runs under autocast to {cast}, as in your own run.")
        return class_of([torch.empty(1, dtype=getattr(torch, cast))])
    if found == "fp32" and subject.task.device.type == "cuda":
        used, possible = uses_tf32(subject.run, exact)
        found = "tf32" if used else "fp32"
        if used:
            notes.append("It runs in TF32 under its own settings, so its baselines and candidates do too.")
        elif possible:
            notes.append("It would use TF32 if that were allowed; it is not, so a candidate must not either.")
        elif any(isinstance(part, _PRODUCTS) for part in subject.reference.modules()):
            notes.append("Its products do not use TF32 even where that is allowed, so a candidate must not either.")
    declared = subject.task.spec["precision"]
    if declared not in ("auto", found):
        notes.append(f"It is declared {declared} and really runs in {found}, which is the class it is judged in.")
    return found


def _signature(subject: Subject, outputs: list[torch.Tensor]) -> list[str]:
    named = list(zip(subject.names, subject.inputs)) + list(_state(subject.reference).items())
    single = len(outputs) == 1
    named += [("output" if single else f"output {index}", tensor) for index, tensor in enumerate(outputs)]
    return [values.describe(name, tensor) for name, tensor in named]

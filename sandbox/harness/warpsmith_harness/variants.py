"""Questions beyond fresh inputs: other distributions, layouts, sizes and modes, and gradients.

A case in which the reference itself raises, overflows or hangs on the last bits of its inputs is nobody's fault: it is
skipped, and says why.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Optional, Tuple

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from warpsmith_harness import contents, values
from warpsmith_harness.compare import compare
from warpsmith_harness.gradients import NoGradient, cotangents, differentiate, leaves, wanted_of
from warpsmith_harness.load import LoadedTask
from warpsmith_harness.oracle import Lift, oracle
from warpsmith_harness.own_errors import OwnErrors, Unstable, allow_usual
from warpsmith_harness.problems import TaskProblem, line, summary
from warpsmith_harness.questions import Examiner, Question
from warpsmith_harness.sizes import dynamic_dimensions, others, resized
from warpsmith_harness.subject import input_names
from warpsmith_harness.surroundings import autocast

_TRIES = 3
_CHOOSING = frozenset(
    {
        "aten::argmax",
        "aten::argmin",
        "aten::argsort",
        "aten::cummax",
        "aten::cummin",
        "aten::kthvalue",
        "aten::max",
        "aten::median",
        "aten::min",
        "aten::mode",
        "aten::nanmedian",
        "aten::sort",
        "aten::topk",
    }
)


class Skipped(Exception):
    """The reference cannot be asked this; ``reason`` says why, and is empty where there is nothing to say."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Variant:
    """What is asked.

    Attributes:
        contents: A distribution of ``contents``.
        layout, input: A layout of ``contents``, and the number of the input that has it.
        sizes: One for each dynamic dimension.
        other_mode: Train mode where the task is judged in eval mode, and the other way round.
        gradients: Whether gradients are asked for beside the outputs.
        gradient_layout: How the gradients that arrive lie in memory; see ``cotangents``.
        same_state: Whether parameters and buffers stay as they are.
    """

    contents: str = ""
    layout: str = ""
    input: int = 0
    sizes: Tuple[int, ...] = ()
    other_mode: bool = False
    gradients: bool = False
    gradient_layout: str = ""
    same_state: bool = False


class Variants:
    """Draws variants of a task's questions.

    Args:
        task: The task.
        reference: Its resident reference.
        examiner: Asks the reference.

    Attributes:
        inputs: ``name``, ``shape`` and whether it is ``floating``, for each input tensor.

    Raises:
        TaskProblem: What the task declares of sizes or gradients does not fit its reference.
    """

    def __init__(self, task: LoadedTask, reference: nn.Module, examiner: Examiner) -> None:
        self._task = task
        self._reference = reference
        self._examiner = examiner
        args, kwargs = task.inputs()
        tensors, structure = values.flatten((args, kwargs))
        self._names = input_names(reference, args, kwargs)
        self.inputs = [
            {"name": name, "shape": list(tensor.shape), "floating": tensor.is_floating_point() or tensor.is_complex()}
            for name, tensor in zip(self._names, tensors)
        ]
        self._dynamic = dynamic_dimensions(task.spec, self._names, tensors)
        self._finite = -1.0
        self._choice: Optional[bool] = None
        self._errors = OwnErrors(examiner, self._again)
        if self._dynamic:
            self._require_another_size(tensors, structure)
        if task.spec.get("gradients"):
            self._require_gradients(tensors, structure)

    def draw(self, variant: Variant) -> Question:
        """Return a question with new inputs; raises Skipped."""
        for _ in range(_TRIES):
            try:
                return self._draw(variant)
            except Unstable:
                continue
            except TaskProblem as problem:
                raise Skipped(f"the original raises there ({problem.what})") from problem
            except torch.cuda.OutOfMemoryError as error:
                raise Skipped("it does not fit into the memory there") from error
        raise Skipped("the original's own answer hangs on the last bits of such inputs")

    def _draw(self, variant: Variant) -> Question:
        if not variant.same_state:
            self._examiner.new_state()
        tensors, structure = values.flatten(self._task.inputs())
        if variant.contents in contents.TIED and self._chooses(tensors, structure):
            raise Skipped("the original picks one of equal elements, and which is not defined")
        usual = self._errors.usual(tensors, structure) if variant.contents else []
        tensors = self._changed(tensors, variant)
        with self._mode(variant.other_mode):
            if variant.gradients:
                question = self._with_gradients(tensors, structure, variant.gradient_layout)
            else:
                question = self._examiner.ask(tensors, structure)
            question.training = self._reference.training
            if variant.layout == contents.MISALIGNED:
                self._call_misaligned(tensors, structure, variant.input)
                question.misaligned = [variant.input]
            if variant.other_mode:
                self._require_steady(question)
        if variant.contents:
            self._require_finite(question)
        if variant.contents or variant.sizes or variant.gradients:
            self._errors.look_at(question, stable=bool(variant.contents))
            allow_usual(question, usual)
        return question

    def _chooses(self, tensors: List[torch.Tensor], structure: Any) -> bool:
        """Whether the reference picks elements by their order, and so one of equal ones; looked up once."""
        if self._choice is None:
            args, kwargs = values.rebuild(structure, [values.clone_like(tensor) for tensor in tensors])
            with self._examiner.state_kept(), _Choices() as seen:
                self._task.forward(self._reference, tuple(args), kwargs)
            self._choice = seen.any
        return self._choice

    def _call_misaligned(self, tensors: List[torch.Tensor], structure: Any, chosen: int) -> None:
        """Call the reference on what the worker will get: the questions' own copies are aligned, and it may need that."""
        copies = [values.clone_like(tensor) for tensor in tensors]
        copies[chosen] = contents.misaligned(copies[chosen])
        args, kwargs = values.rebuild(structure, copies)
        with self._examiner.state_kept():
            self._task.forward(self._reference, tuple(args), kwargs)

    def _changed(self, tensors: List[torch.Tensor], variant: Variant) -> List[torch.Tensor]:
        if variant.sizes:
            tensors = resized(tensors, self._dynamic, variant.sizes)
        if variant.contents:
            harder = contents.harder(variant.contents, tensors)
            if all(new is old for new, old in zip(harder, tensors)):
                raise Skipped
            tensors = harder
        if variant.layout:
            other = contents.laid_out(variant.layout, tensors[variant.input])
            if other is None:
                raise Skipped
            if variant.layout != contents.MISALIGNED:  # that is the worker's to make: no copy keeps it
                tensors = [other if i == variant.input else tensor for i, tensor in enumerate(tensors)]
        return tensors

    # --- Modes ------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _mode(self, other: bool) -> Iterator[None]:
        self._task.set_mode(self._reference, self._task.training != other)
        try:
            yield
        finally:
            self._task.set_mode(self._reference, self._task.training)

    def _require_steady(self, question: Question) -> None:
        """Raise Skipped where the other mode is random."""
        again = self._examiner.ask(question.tensors, question.structure, exact=False)
        if not compare(again.expected, question.expected, question.expected)["ok"]:
            mode = "train" if self._reference.training else "eval"
            raise Skipped(f"the original's own output is random in {mode} mode")

    # --- Gradients --------------------------------------------------------------------------------------------------

    def _with_gradients(self, tensors: List[torch.Tensor], structure: Any, layout: str = "") -> Question:
        question = self._examiner.ask(tensors, structure, exact=False)
        question.directions = cotangents(question.expected, layout)
        with self._examiner.state_kept():
            outputs, found = self._differentiated(question, [values.clone_like(tensor) for tensor in tensors])
        kept = [f"input {index}" for index in question.touched_inputs]
        question.gradients = [name for name, found_one in found.items() if found_one is not None and name not in kept]
        question.labels = [f"The gradient of {self._called(name)}" for name in question.gradients]
        question.expected = [*outputs, *(_plain(found[name]) for name in question.gradients)]
        args, kwargs = values.rebuild(structure, [values.clone_like(tensor) for tensor in tensors])
        question.exact = oracle(self._task, self._reference, tuple(args), kwargs, _Backward(question))
        return question

    def _differentiated(
        self, question: Question, given: List[torch.Tensor]
    ) -> Tuple[List[torch.Tensor], Dict[str, Any]]:
        """Call the reference forward and backward on inputs that it may change."""
        name = self._task.cls.__name__
        where = f"{self._task.spec['path']}:{line(self._task.cls.forward)}"
        try:
            with autocast(self._task.spec):
                return backward(
                    self._reference, given, question.structure, question.directions, question.touched_inputs
                )
        except NoGradient as error:
            raise TaskProblem(
                f"{name} has no gradient: no output hangs on an input or a parameter.", where, "Leave out --gradients."
            ) from error
        except Exception as error:  # the developer's code may raise anything when it is differentiated
            raise TaskProblem(
                f"The backward of {name} raises {summary(error)}", where, "Leave out --gradients, or mend the module."
            ) from error

    def _called(self, name: str) -> str:
        """Return an input's own name for its number, and a parameter's as it is."""
        kind, _, number = name.partition(" ")
        return self._names[int(number)] if kind == "input" and number else name

    # --- Whether it can be asked ------------------------------------------------------------------------------------

    def _require_another_size(self, tensors: List[torch.Tensor], structure: Any) -> None:
        said = "there is no other size in the range"
        for sizes in others(self._dynamic):
            try:
                self._examiner.ask(resized(tensors, self._dynamic, sizes), structure, exact=False)
                return
            except TaskProblem as problem:
                shown = ", ".join(f"{each.dims[0]} = {size}" for each, size in zip(self._dynamic, sizes))
                said = f"with {shown} {problem.what[:1].lower()}{problem.what[1:]}"
        raise TaskProblem(
            f"{self._task.cls.__name__} runs at no other size than the drawn one: {said}",
            "--dynamic",
            "Name all dimensions that must change together (x.0,mask.0=1:4096), or narrow the range.",
        )

    def _require_gradients(self, tensors: List[torch.Tensor], structure: Any) -> None:
        if not self._with_gradients(tensors, structure).gradients:
            raise TaskProblem(
                f"{self._task.cls.__name__} has no gradient for its inputs and parameters.",
                str(self._task.spec["path"]),
                "Leave out --gradients.",
            )

    def _require_finite(self, question: Question) -> None:
        if self._finite < 0:
            tensors, structure = values.flatten(self._task.inputs())
            self._finite = _finite(self._examiner.ask(tensors, structure, exact=False).expected)
        if _finite(question.expected) < self._finite:
            raise Skipped("the original's own output is not finite there")

    def _again(self, question: Question, given: List[torch.Tensor]) -> Tuple[List[torch.Tensor], List[torch.Tensor]]:
        """Return what the reference answers on other inputs, and what it leaves in those and in the state it changes."""
        with self._mode(self._task.training != question.training), self._examiner.state_kept() as kept:
            if question.gradients:
                outputs, found = self._differentiated(question, given)
                outputs += [_plain(found[name]) for name in question.gradients]
            else:
                args, kwargs = values.rebuild(question.structure, given)
                answer = values.flatten(self._task.forward(self._reference, tuple(args), kwargs))[0]
                outputs = [output.detach() for output in answer]
        left = [kept.touched.get(name, kept.before[name]) for name in question.touched_state]
        return outputs, [*(given[index] for index in question.touched_inputs), *left]


def backward(
    module: nn.Module, given: List[torch.Tensor], structure: Any, directions: List[torch.Tensor], touched: Any
) -> Tuple[List[torch.Tensor], Dict[str, Any]]:
    """Return a module's outputs and the gradients of what it may have some for; inputs that it changes are copied."""
    starts = leaves(given)
    passed = [leaf.clone() if index in touched else leaf for index, leaf in enumerate(starts)]
    args, kwargs = values.rebuild(structure, passed)
    outputs, _, found = differentiate(lambda: module(*args, **kwargs), wanted_of(starts, module), directions)
    return outputs, found


class _Choices(TorchDispatchMode):
    """Sees whether an operator picks elements by their order."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.any = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Optional[Dict[str, Any]] = None) -> Any:
        self.any = self.any or func._schema.name in _CHOOSING
        return func(*args, **(kwargs or {}))


class _Backward:
    """Makes the oracle's outputs and gradients; ``oracle.Run``."""

    def __init__(self, question: Question) -> None:
        self._question = question

    def __call__(self, module: nn.Module, args: Any, kwargs: Any, lift: Lift) -> List[torch.Tensor]:
        question = self._question
        given, structure = values.flatten((tuple(args), kwargs))
        directions = [lift(direction) for direction in question.directions]
        outputs, found = backward(module, given, structure, directions, question.touched_inputs)
        return [*outputs, *(_plain(found[name]) for name in question.gradients)]


def _plain(gradient: Any) -> torch.Tensor:
    tensor: torch.Tensor = gradient.detach()
    return tensor.to_dense() if tensor.layout != torch.strided else tensor.contiguous()


def _finite(outputs: List[torch.Tensor]) -> float:
    """Return the smallest share of finite elements of any output."""
    shares = [
        float(torch.isfinite(out.float() if out.dtype.itemsize == 1 else out).double().mean())
        for out in outputs
        if out.numel()
    ]
    return min(shares, default=1.0)

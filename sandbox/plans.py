"""Decides the cases of each tier: what a candidate is asked before it is timed.

Quick asks for fresh inputs under randomised state and poisoned memory, for the last of them with a few elements changed, for
the same ones three times without a pause, for inputs in order and of another scale, and once for gradients and for another
size where the task has them. Full asks whatever honest use may bring as well: other distributions, layouts, sizes and modes,
calls in a row on other inputs each, and gradients where the module is trained.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sandbox.task import DynamicSize, TaskSpec
from sandbox.verdict import OTHER_MODE, Tier

DISTRIBUTIONS = (
    "large inputs",
    "one huge element",
    "inputs of mixed signs",
    "inputs with many ties",
    "rows of zeros",
    "tiny inputs",
    "inputs with heavy tails",
    "constant rows",
    "inputs with flipped signs",
    "inputs in order",
)
"""Names that the harness knows (``warpsmith_harness.contents``), what finds most first: a slow task may not reach the last."""

_LAYOUTS = {
    "misaligned": "{} misaligned by one element",
    "transposed": "{} transposed",
    "padded": "{} with padded rows",
}
_GRADIENT_LAYOUTS = {"expanded": "gradients of a sum", "transposed": "gradients that arrive transposed"}
"""What a loss behind the module hands back: one element seen everywhere, or rows as columns."""
_MOST_INPUTS = 4
_ODD_SIZES = 3
_ROW = 3
_GRADIENTS = 2
_OF_QUICK = ("inputs in order", "tiny inputs")
"""Distributions that quick asks for too: independent draws of one scale are all that its fresh inputs are."""

_CROWDED_CASES = {"quick": 2, "full": 3}
"""Fresh inputs where the tensors fill much of the device: each takes seconds."""

_OF_A_FORM = 2
_FIRST = 3
"""Distributions asked for before the layouts: what a slow task does not reach should be what finds least."""


@dataclass(frozen=True)
class CasePlan:
    """One case.

    Attributes:
        name: What a person calls it.
        variant: What the bench draws (``warpsmith_harness.variants.Variant``); empty for fresh inputs, and ``little`` for the
            last question with a few elements changed.
        watch: What the worker looks at beside its answer: ``operators``, ``device``, or nothing.
        calls: Calls in a row, each on other inputs, with nothing looked at before the last.
        repeats: Calls in a row on the same inputs.
        optional: Whether it may be left out where verifying takes long already.
        forgiven: What is said instead where it fails and nobody is hurt: what lands runs the original there. Empty if it
            must pass.
        refusable: Whether the candidate may refuse it, which is said: what lands runs the original there.
    """

    name: str
    variant: Mapping[str, Any] = field(default_factory=dict)
    watch: str = ""
    calls: int = 1
    repeats: int = 1
    optional: bool = False
    forgiven: str = ""
    refusable: bool = False


def plan_cases(
    spec: TaskSpec, tier: Tier, count: int, inputs: Sequence[Mapping[str, Any]], mutates: bool
) -> list[CasePlan]:
    """Return the cases of a tier, in order; the first are watched.

    Args:
        spec: The task.
        tier: ``quick`` or ``full``.
        count: Cases with fresh inputs.
        inputs: The input tensors: ``name``, ``shape`` and whether they are ``floating``.
        mutates: Whether the original changes its inputs or its state, so that calls in a row differ.
    """
    watched = ["operators"] if spec.device == "cpu" else ["operators", "device"]
    watches = watched + [""] * count
    plans = [CasePlan(f"fresh inputs {number + 1}", watch=watches[number]) for number in range(count)]
    plans.append(CasePlan("a few elements changed", {"little": True}))
    floating = any(each["floating"] for each in inputs)
    harder = [CasePlan(name, {"contents": name}, optional=True) for name in DISTRIBUTIONS if floating]
    if not mutates:
        plans.append(CasePlan("the same inputs three times", repeats=_ROW))
    if tier == "quick":
        plans += [plan for plan in harder if plan.name in _OF_QUICK]
        return [*plans, *list(_gradients(spec, inputs))[:1], *list(_sizes(spec.dynamic, inputs))[-1:]]
    if not mutates:
        plans.append(CasePlan("calls in a row", calls=_ROW))
    plans += _sizes(spec.dynamic, inputs)
    plans += _gradients(spec, inputs)
    plans.append(_other_mode(spec))
    layouts = list(_layouts(inputs))
    return [*plans, *harder[:_FIRST], *layouts, *harder[_FIRST:]]


def plan_crowded_cases(spec: TaskSpec, tier: Tier, count: int, inputs: Sequence[Mapping[str, Any]]) -> list[CasePlan]:
    """Return the cases of a task whose tensors fill much of the device: those that need no room for copies."""
    plans = plan_cases(spec, "quick", min(count, _CROWDED_CASES[tier]), inputs, False)
    return [plan for plan in plans if plan.repeats == 1 and not {"little", "contents"} & set(plan.variant)]


def plan_form_cases(spec: TaskSpec, tier: Tier, inputs: Sequence[Mapping[str, Any]]) -> list[CasePlan]:
    """Return the cases of another form of a task's class, in order; the first are watched.

    They are fewer than the task's own: what a kernel may do wrong with contents and layouts shows there.

    Args:
        spec: The form's task.
        tier: ``quick`` or ``full``.
        inputs: See ``plan_cases``.
    """
    sizes, gradients = list(_sizes(spec.dynamic, inputs)), list(_gradients(spec, inputs))
    if tier == "quick":
        return [CasePlan("fresh inputs 1", watch="operators"), *gradients[:1], *sizes[-1:]]
    watches = ["operators"] if spec.device == "cpu" else ["operators", "device"]
    fresh = [CasePlan(f"fresh inputs {number + 1}", watch=each) for number, each in enumerate([*watches, ""])]
    floating = any(each["floating"] for each in inputs)
    harder = [CasePlan(name, {"contents": name}, optional=True) for name in DISTRIBUTIONS[:_OF_A_FORM] if floating]
    return [
        *fresh,
        CasePlan("a few elements changed", {"little": True}),
        *sizes,
        *gradients,
        _other_mode(spec),
        *harder,
    ]


def _gradients(spec: TaskSpec, inputs: Sequence[Mapping[str, Any]]) -> Iterator[CasePlan]:
    if not spec.gradients:
        return
    for number in range(_GRADIENTS):
        yield CasePlan(f"gradients {number + 1}", {"gradients": True})
    for layout, text in _GRADIENT_LAYOUTS.items():
        yield CasePlan(text, {"gradients": True, "gradient_layout": layout})
    for plan in list(_sizes(spec.dynamic, inputs))[-1:]:
        yield CasePlan(f"gradients at {plan.name}", {**plan.variant, "gradients": True})
    yield CasePlan(
        "gradients of inputs with flipped signs", {"gradients": True, "contents": "inputs with flipped signs"}
    )


def _other_mode(spec: TaskSpec) -> CasePlan:
    """Ask in the other mode: a module that is trained must answer there too; of any other it is said."""
    mode = OTHER_MODE[spec.training]
    said = "" if spec.gradients else f"in {mode} it does not answer as the original; what lands runs the original there"
    return CasePlan(mode, {"other_mode": True}, forgiven=said)


def _layouts(inputs: Sequence[Mapping[str, Any]]) -> Iterator[CasePlan]:
    """Ask with one input in another layout at a time."""
    for kind, text in _LAYOUTS.items():
        for index, each in list(enumerate(inputs))[:_MOST_INPUTS]:
            yield CasePlan(text.format(each["name"]), {"layout": kind, "input": index}, optional=True, refusable=True)


def _sizes(dynamic: Sequence[DynamicSize], inputs: Sequence[Mapping[str, Any]]) -> Iterator[CasePlan]:
    """Ask at the smallest and the largest sizes, and at odd ones between."""
    if not dynamic:
        return
    drawn = tuple(drawn_size(each, inputs) for each in dynamic)
    wanted = [tuple(each.low for each in dynamic), tuple(each.high for each in dynamic)]
    wanted += [tuple(_odd(each) for each in dynamic) for _ in range(_ODD_SIZES)]
    for sizes in dict.fromkeys(wanted):
        if sizes != drawn:
            shown = ", ".join(f"{' = '.join(each.dims)} = {size}" for each, size in zip(dynamic, sizes, strict=True))
            yield CasePlan(f"size {shown}", {"sizes": list(sizes)})


def drawn_size(dynamic: DynamicSize, inputs: Sequence[Mapping[str, Any]]) -> int:
    """Return the size that the task's own inputs have along a dynamic dimension."""
    name, _, dim = dynamic.dims[0].rpartition(".")
    shape = next(each["shape"] for each in inputs if each["name"] == name)
    return int(shape[int(dim)])


def _odd(dynamic: DynamicSize) -> int:
    """Draw an odd size, between the ends where there is one, small ones as often as large ones."""
    low, high = math.log(max(1, dynamic.low + 1)), math.log(max(1, dynamic.high - 1))
    size = round(math.exp(random.SystemRandom().uniform(low, high)))
    if size % 2 == 0:
        size += 1 if size + 1 < dynamic.high else -1
    return max(dynamic.low, size)

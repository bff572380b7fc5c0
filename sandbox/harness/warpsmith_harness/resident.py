"""A task's reference as the bench keeps it: resident and warm, with what asks, shares and times it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List

from torch import nn

from warpsmith_harness.baselines import Baselines
from warpsmith_harness.copies import Copies
from warpsmith_harness.crowded import Crowd
from warpsmith_harness.load import LoadedTask
from warpsmith_harness.questions import Examiner
from warpsmith_harness.reads import NOT_LOOKED_AT, attribute_reads
from warpsmith_harness.room import accept_task
from warpsmith_harness.sharing import Sharing
from warpsmith_harness.supply import Supply
from warpsmith_harness.variants import Variants


@dataclass(frozen=True)
class Resident:
    """One reference.

    Attributes:
        task: Its task.
        reference: The module.
        accepted: What accepting the task found out; see ``original.accept``. Of a captured one ``reads`` as well; see
            ``reads.attribute_reads``.
        inputs: ``name``, ``shape`` and whether it is ``floating``, for each input tensor.
        supply: Draws questions and placements, and shares them with workers.
        baselines: The ways of running it.
    """

    task: LoadedTask
    reference: nn.Module
    accepted: Dict[str, Any]
    inputs: List[Dict[str, Any]]
    supply: Supply
    baselines: Baselines


def settle(task: LoadedTask, sharing: Sharing, memory: int) -> Resident:
    """Accept a task and keep its reference.

    Args:
        task: The task.
        sharing: With the worker.
        memory: Bytes of the device's memory.

    Raises:
        TaskProblem: It cannot be used; see ``room.accept_task``.
    """
    sizes, accepted = accept_task(task, memory)
    if task.captured is not None:
        accepted["reads"] = NOT_LOOKED_AT if accepted.get("crowded") else attribute_reads(task)
    reference = task.reference()
    examiner = Examiner(task, reference, accepted["state_strength"])
    variants = Variants(task, reference, examiner)
    moved = accepted["bytes_moved"]
    common = task, reference, examiner
    supply: Supply = (
        Crowd(*common, sharing, sizes, moved, memory)
        if accepted.get("crowded")
        else Copies(*common, variants, sharing, moved, bool(accepted["mutates"]), memory)
    )
    return Resident(task, reference, accepted, variants.inputs, supply, Baselines(reference, task.device))

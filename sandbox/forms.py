"""The forms of a captured class: the ways in which the developer's run built and called it beside the task's own.

A task is what most data went through. What lands covers the other forms as far as it was seen to be right for them, so each is
a task of its own for whoever verifies: with its own constructor arguments, state, inputs and sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox.capture import forms_of_capture, read_manifest, task_fields
from sandbox.task import TaskSpec


@dataclass(frozen=True)
class TaskForm:
    """One form beside the task's own.

    Attributes:
        name: What it was called with and what it holds, in words.
        spec: The task of it.
        calls: Calls of it among those that were looked at in the developer's run.
    """

    name: str
    spec: TaskSpec
    calls: int


def own_calls(spec: TaskSpec) -> int:
    """Return how many calls of the task's own form were looked at; 0 where that is not known."""
    return int(read_manifest(Path(spec.capture)).get("form_calls", 0)) if spec.capture else 0


def forms_of(spec: TaskSpec) -> tuple[TaskForm, ...]:
    """Return the forms of a task beside its own, those first that most data went through.

    There are none where the developer says themselves what it is built or called with.

    Raises:
        UsageError, TaskError: See ``sandbox.capture.read_manifest``.
    """
    if not spec.capture or spec.init or spec.inputs or spec.factory:
        return ()
    usual = task_fields(read_manifest(Path(spec.capture)), {})
    chosen = {key: getattr(spec, key) for key in ("training", "gradients") if getattr(spec, key) != usual[key]}
    found = []
    for folder in forms_of_capture(Path(spec.capture)):
        manifest = read_manifest(folder)
        fields = {**task_fields(manifest, chosen), "precision": spec.precision, "capture": str(folder)}
        found.append(TaskForm(_name(manifest), spec.with_changes(**fields), int(manifest.get("form_calls", 0))))
    return tuple(found)


def _name(manifest: Mapping[str, Any]) -> str:
    """Return inputs, plain arguments and state in words: ``x float32 [4, 96, 28, 28] channels_last; weight [96]``."""
    given = [" ".join(filter(None, _told(each))) for each in manifest["inputs"]]
    plain = [f"{name}={value!r}" for name, value in manifest["plain"].items()]
    held = [f"{name} {each['shape']}" for name, each in manifest["state"]["tensors"].items()]
    return "; ".join(", ".join(some) for some in (given + plain, held) if some)


def _told(tensor: Mapping[str, Any]) -> tuple[str, ...]:
    return tensor["name"], tensor["dtype"], str(tensor["shape"]), str(tensor.get("layout", ""))

"""From what somebody asks for, on a command line or through another door, to the task: a target, a capture, or both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sandbox.capture import resolve_capture
from sandbox.errors import UsageError
from sandbox.target import resolve_target
from sandbox.task import TaskSpec


def asked_task(
    target: str | None,
    capture: str = "",
    *,
    python: str = "",
    device: str = "cpu",
    training: bool | None = None,
    gradients: bool | None = None,
    **options: Any,
) -> TaskSpec:
    """Return the task of a target, of a capture, or of a capture that has to be of this target.

    Args:
        target: ``path.py:Class`` or ``package.module:Class``; None for a capture alone.
        capture: Folder of a capture, or empty.
        python: See ``resolve_target``.
        device: ``cpu`` or ``cuda:N``, already resolved.
        training: Judge in train mode; None as captured, or in eval mode.
        gradients: The module is trained; None as captured, or not.
        options: Further fields of :class:`TaskSpec`.

    Raises:
        UsageError: Neither is named, or the target is another module than was captured; see also ``resolve_target``.
    """
    if target is None and not capture:
        raise UsageError("No target is named.", next_step="Name path.py:Class, or a capture with --capture FOLDER.")
    if target is not None and not capture:
        modes = {"training": bool(training), "gradients": bool(gradients)}
        return resolve_target(target, python=python, device=device, **options, **modes)
    spec = resolve_capture(
        Path(capture), python=python, device=device, **options, training=training, gradients=gradients
    )
    if target is not None:
        _require_same(spec, target)
    return spec


def inputs_file(text: str) -> str:
    """Return forward arguments as they were given; a file's name (``.pt``, ``.pth``) as an absolute path.

    Raises:
        UsageError: There is no such file.
    """
    if not text.endswith((".pt", ".pth")):
        return text
    if not Path(text).is_file():
        raise UsageError("There is no such file of inputs.", where=text, next_step="Save one with torch.save.")
    return str(Path(text).resolve())


def _require_same(spec: TaskSpec, target: str) -> None:
    named = resolve_target(target, python=str(spec.python))
    if (named.path, named.class_name) != (spec.path.resolve(), spec.class_name):
        raise UsageError(
            f"The capture is of {spec.class_name} in {spec.path}, and not of this.",
            where=target,
            next_step="Leave out TARGET, or name the capture of this module.",
        )

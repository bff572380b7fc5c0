"""From a capture of the developer's own run to a task: what was recorded becomes fields of the spec.

Only the manifest is read here. What was pickled is read by the developer's interpreter alone (``warpsmith_harness.captured``).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sandbox.errors import TaskError, UsageError
from sandbox.target import find_interpreter, kernels_folder, locate
from sandbox.task import DynamicSize, TaskSpec

SCHEMA = "warpsmith.capture/1"
FORMS = "forms"
"""Folder of a capture with the captures of other forms of its class."""
_AGAIN = "Capture it again with: warpsmith hotspots"

_NAMED: dict[str, type] = dict.fromkeys(("module", "class", "file", "main", "python", "refused", "next_step"), str)
_TYPES: dict[str, type] = {
    **dict.fromkeys(("training", "gradients", "tf32"), bool),
    **dict.fromkeys(("autocast", "grad_mode", "init_missing"), str),
    **dict.fromkeys(("modes", "structure", "plain", "state", "attributes"), dict),
    **dict.fromkeys(("inputs", "dynamic", "notes"), list),
}
_GRAD_MODES = ("grad", "no_grad", "inference")
_AUTOCASTS = ("", "bfloat16", "float16", "float32", "float64")


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a capture.

    Raises:
        UsageError: There is none, one of another version, or one that was damaged.
        TaskError: The module could not be captured; the reason is the one that was recorded.
    """
    path = folder / "manifest.json"
    if not path.is_file():
        raise UsageError(
            "There is no capture in this folder.", where=str(folder), next_step="Make one with: warpsmith hotspots"
        )
    try:
        manifest = json.loads(path.read_bytes())
    except ValueError as error:
        raise UsageError(f"The capture's manifest is no JSON: {error}.", where=str(path), next_step=_AGAIN) from error
    if not isinstance(manifest, dict) or manifest.get("schema") != SCHEMA:
        raise UsageError("The capture is of another version.", where=str(path), next_step=_AGAIN)
    _require(path, _ill_typed(manifest, _NAMED))
    if manifest["refused"]:
        raise TaskError(manifest["refused"], where=str(folder), next_step=manifest["next_step"])
    _require(path, _ill_typed(manifest, _TYPES) or _ill_valued(manifest))
    return manifest


def _require(path: Path, damaged: str) -> None:
    if damaged:
        raise UsageError(f"The capture's manifest was damaged: {damaged}.", where=str(path), next_step=_AGAIN)


def _ill_typed(manifest: dict[str, Any], types: dict[str, type]) -> str:
    """Return the first key that is missing or of another type, in words."""
    for key, wanted in types.items():
        if key not in manifest:
            return f'it has no "{key}"'
        if type(manifest[key]) is not wanted:
            return f'its "{key}" is no {wanted.__name__}'
    return ""


def _ill_valued(manifest: dict[str, Any]) -> str:
    """Return what holds a value that no run can have had, in words."""
    if manifest["grad_mode"] not in _GRAD_MODES:
        return f'its "grad_mode" is none of {", ".join(_GRAD_MODES)}'
    if manifest["autocast"] not in _AUTOCASTS:
        return 'its "autocast" is no floating dtype'
    if not all(_is_group(each) for each in manifest["dynamic"]):
        return 'its "dynamic" holds something other than dims with low and high'
    state = manifest["state"]
    kinds = {"tensors": dict, "baked": dict, "ties": list, "copied": bool}
    return f'of its "state" {damaged}' if (damaged := _ill_typed(state, kinds)) else ""


def _is_group(data: Any) -> bool:
    if not isinstance(data, dict) or type(data.get("low")) is not int or type(data.get("high")) is not int:
        return False
    dims = data.get("dims")
    return isinstance(dims, list) and all(isinstance(each, str) for each in dims)


def resolve_capture(folder: Path, *, python: str = "", device: str = "cpu", **options: Any) -> TaskSpec:
    """Return the task of a capture.

    Args:
        folder: The capture.
        python: As for ``resolve_target``; the interpreter that recorded it, where none is named.
        device: ``cpu`` or ``cuda:N``, already resolved.
        options: Further fields of :class:`TaskSpec`, which go before what was captured; None for those that nobody gave.

    Raises:
        UsageError: There is no capture, or the module's file is where it was no longer.
        TaskError: The module could not be captured.
        EnvironmentFault: The interpreter does not exist.
    """
    folder = folder.resolve()
    manifest = read_manifest(folder)
    path = Path(manifest["file"])
    if not path.is_file():
        raise UsageError(
            f"The file of {manifest['class']} is no longer where it was when it was captured.",
            where=str(path),
            next_step=f"Put it back, or capture {manifest['class']} again where it is now.",
        )
    if path.name == "__init__.py":
        raise UsageError(
            "A module in a package's __init__.py cannot be optimised there: its kernels would need a name of their own.",
            where=str(path),
            next_step="Move the class to a file of its own and import it in __init__.py.",
        )
    recorded = str(manifest["python"]) if Path(manifest["python"]).is_file() else ""
    root, module_name = _place(path, manifest["module"])
    return TaskSpec(
        kind="module",
        path=path,
        class_name=manifest["class"],
        module_name=module_name,
        root=root,
        python=find_interpreter(python or recorded),
        device=device,
        capture=str(folder),
        kernels=kernels_folder(path, manifest["class"]),
        **task_fields(manifest, {key: value for key, value in options.items() if value is not None}),
    )


def plain_inputs(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of forward that were no tensors, by name, as they were in the run."""
    return dict(manifest["plain"])


def forms_of_capture(folder: Path) -> list[Path]:
    """Return the captures of other forms of the class that lie in a capture, in their order."""
    found = [path for path in (folder / FORMS).glob("*") if path.name.isdecimal() and path.is_dir()]
    return sorted(found, key=lambda path: int(path.name))


def task_fields(manifest: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return the spec's fields: what is given on the command line goes before what was captured."""
    own_inputs = bool(given.get("inputs") or given.get("factory"))
    gradients = given.get("gradients", manifest["gradients"])
    found = {
        **given,
        "training": given.get("training", manifest["training"]),
        "gradients": gradients,
        "autocast": manifest["autocast"],
        "grad_mode": "grad" if gradients else "no_grad" if manifest["grad_mode"] == "grad" else manifest["grad_mode"],
    }
    if not found.get("dynamic"):
        found["dynamic"] = () if own_inputs else tuple(DynamicSize.from_json(each) for each in manifest["dynamic"])
    if manifest["tf32"] and found.get("precision", "auto") == "auto":
        found["precision"] = "tf32"
    return found


def _place(path: Path, module: str) -> tuple[Path, str]:
    """Return the folder on ``sys.path`` and the name that the module was imported by; as ``locate`` for a script."""
    parts = module.split(".")
    if module != "__main__" and list(path.with_suffix("").parts[-len(parts) :]) == parts:
        return path.parents[len(parts) - 1], module
    return locate(path)

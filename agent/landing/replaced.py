"""What a landing takes the place of: kernels that landed for the same class before, and the calls that only those cover."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent.landing.change import FileChange
from agent.landing.folder import RECORD, read_record

_ALIKE = ("device", "constants", "init", "autocast", "modes", "tf32")


def told_replaced(changes: Sequence[FileChange]) -> str:
    """Say which landing of the same class a landing replaces and which calls run the original from then on; else an empty text.

    Args:
        changes: What the landing writes.
    """
    change = next((each for each in changes if each.path.name == RECORD and each.before and each.after), None)
    before = read_record(change.before) if change else {}
    after = read_record(change.after) if change else {}
    if not before:
        return ""
    eager = before.get("verdict", {}).get("speedup", {}).get("eager")
    how = f", {eager['ratio']:.2f} times as fast as eager" if eager else ""
    what = f"the kernels of {before['class']} that landed there before ({_where(before)}{how})"
    said = f"It replaces {what}; undo brings them back."
    if "contract" not in before or "contract" not in after:
        return said
    now = _forms(after["contract"])
    lost = [form for form in _forms(before["contract"]) if not any(_covers(each, form) for each in now)]
    if not lost:
        return f"{said} It covers every call that they do."
    calls = "; ".join(_name(form) for form in lost)
    return f"{said} NOT COVERED any more, so that the original runs: {calls}."


def _where(record: Mapping[str, Any]) -> str:
    environment = record.get("verdict", {}).get("environment", {})
    name = environment.get("cpu") if record["device"] == "cpu" else environment.get("device")
    return f"verified on {name or record['device']}"


def _forms(contract: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [contract, *contract.get("forms", ())]


def _covers(form: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether each call that one verified form lets through is let through by another, as far as records tell."""
    if any(form[key] != other[key] for key in _ALIKE) or other["gradients"] > form["gradients"]:
        return False
    if not form["both_modes"] and (other["both_modes"] or form["training"] != other["training"]):
        return False
    if any(
        other["attributes"].get(path, {}).get(name) != text
        for path, named in form["attributes"].items()
        for name, text in named.items()
    ):
        return False
    pairs = list(zip(form["signature"], other["signature"], strict=False))
    if len(form["signature"]) != len(other["signature"]) or not all(_same_kind(*pair) for pair in pairs):
        return False
    wide, narrow = _spans(form), _spans(other)
    return all(wide[dim][0] <= low and high <= wide[dim][1] for dim, (low, high) in narrow.items())


def _same_kind(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    alike = all(one[key] == other[key] for key in ("name", "dtype")) and len(one["shape"]) == len(other["shape"])
    return alike and (one["strides"] is None) == (other["strides"] is None)


def _spans(form: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """Return the sizes that each dimension may have, from the lowest to the highest."""
    found = {
        f"{each['name']}.{dim}": (size, size) for each in form["signature"] for dim, size in enumerate(each["shape"])
    }
    return found | {dim: (each["low"], each["high"]) for each in form["ranges"] for dim in each["dims"]}


def _name(form: Mapping[str, Any]) -> str:
    """Return a form in words: ``x float32 [4 to 64, 8], weight float32 [8] on cpu in eval mode``."""
    spans = _spans(form)
    tensors = []
    for each in form["signature"]:
        sizes = [spans[f"{each['name']}.{dim}"] for dim in range(len(each["shape"]))]
        shown = ", ".join(str(low) if low == high else f"{low} to {high}" for low, high in sizes)
        tensors.append(f"{each['name']} {each['dtype']} [{shown}]")
    plain = [f"{name}={value}" for name, value in form["constants"].items()]
    mode = "in both modes" if form["both_modes"] else f"in {'train' if form['training'] else 'eval'} mode"
    more = [mode, *(["with gradients"] if form["gradients"] else [])]
    more += [f"under autocast to {form['autocast']}"] if form["autocast"] else []
    return f"{', '.join([*tensors, *plain])} on {form['device']} {' '.join(more)}"

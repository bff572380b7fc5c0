"""A tool call as rows: one line that says what it does, and all of it when it is opened."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

from textual.content import Content

from app.blocks import Call, CallStatus, Step
from app.clock import duration
from app.state import Judged
from app.text.attempt import outcome
from app.text.code import coloured, language_of
from app.text.early import early_row
from app.text.plain import clean, clipped
from app.text.rows import Row, row, wrapped

MOST_LINES = 60
TAIL_LINES = 3
INDENT = "    "
PART = 8

_STATUS: dict[CallStatus, tuple[str, str]] = {
    "writing": ("…", "$text-accent"),
    "waiting": ("·", "$muted"),
    "running": ("▸", "$text-accent bold"),
    "ok": ("✓", "$text-success"),
    "failed": ("✗", "$text-error bold"),
    "cut": ("–", "$text-warning"),
}


def call_rows(call: Call, width: int, *, expanded: bool, judged: Judged | None) -> list[Row]:
    """Return a call's rows; ``judged`` is the attempt it judged."""
    rows = [_line(call, width, expanded)]
    if call.status == "writing":
        rows += _tail(call.raw, width)
    elif call.status == "running":
        rows += step_rows(call.steps, width, whole=False)
    if judged is not None:
        rows += wrapped(outcome(judged), width, first=INDENT, rest=INDENT)
    if expanded:
        rows += _detail(call, width)
    return rows


def step_rows(steps: list[Step], width: int, *, whole: bool) -> list[Row]:
    """Return stages of the judge: all of them, or of each part in a row the last, and what is known of a profile so far."""
    if whole:
        return [_step(step, width) for step in steps]
    rows: list[Row] = []
    for _, group in groupby(steps, key=lambda step: step.part):
        of_part = list(group)
        rows.append(_step(of_part[-1], width, brief=True))
        known = next((step.partial for step in reversed(of_part) if "placement" in step.partial), None)
        rows += [early_row(known, len(INDENT), width)] if known else []
    return rows


def summary(name: str, arguments: dict[str, Any]) -> str:
    """Say in a few words what a call does."""
    if "_raw" in arguments:
        return f"cannot be read: {clipped(str(arguments['_raw']), 60)}"
    known = _SUMMARIES.get(name)
    text = known(arguments) if known else ", ".join(f"{key}={value}" for key, value in arguments.items())
    return clean(str(text))


def _line(call: Call, width: int, expanded: bool) -> Row:
    sign, style = _STATUS[call.status]
    seconds = duration(call.seconds) if call.status in ("ok", "failed") and call.seconds >= 0.05 else ""
    told = f"{len(call.raw):,} characters" if call.status == "writing" else summary(call.name, call.arguments)
    if call.ahead:
        told = f"{told} · was judged ahead for {duration(call.ahead)}".lstrip(" ·")
    fold = "▾" if expanded else " "
    name = clipped(clean(call.name), width // 2)
    room = width - len(name) - len(seconds) - 8
    text = clipped(told, max(6, room))
    gap = " " * max(1, width - 6 - len(name) - Content(text).cell_length - len(seconds))
    return row(
        " ", (sign, style), (fold, "$faint"), " ", (name, "bold"), " ", (text, "$muted"), gap, (seconds, "$faint")
    )


def _step(step: Step, width: int, *, brief: bool = False) -> Row:
    """Draw one stage; ``brief`` leaves out the numbers that a row of their own shows."""
    text = step.text.partition(":")[0] if brief and "placement" in step.partial else step.text
    return row(INDENT, (f"{step.part:<{PART}}", "$text-primary"), (clipped(clean(text), width - 14), "$muted"))


def _tail(raw: str, width: int) -> list[Row]:
    """The last lines of what is being written, as it will read once the JSON around it is gone."""
    text = clean(raw.replace("\\n", "\n").replace('\\"', '"').replace("\\t", "\t"))
    lines = [line for line in text[-2_000:].split("\n") if line.strip()][-TAIL_LINES:]
    return [row(INDENT, (line.expandtabs(4)[: width - 5], "$faint")) for line in lines]


def _detail(call: Call, width: int) -> list[Row]:
    rows = [Row(Content(INDENT) + line.content, line.fill, 4) for line in _arguments(call)]
    rows += step_rows(call.steps, width, whole=True) if call.status != "running" else []
    if call.output:
        rows += _output(call.output, width)
    if call.full:
        rows.append(row(INDENT, ("the agent saw a clipped output; o opens all of it", "$faint italic")))
    return rows


def _arguments(call: Call) -> Iterator[Row]:
    """The arguments that say more than the line above."""
    arguments = call.arguments
    path = str(arguments.get("file_path", ""))
    if call.name == "Write":
        yield from _source(str(arguments.get("content", "")), path, "+")
    elif call.name == "Edit":
        yield from _change(arguments, path)
    elif call.name == "MultiEdit":
        for edit in arguments.get("edits", []):
            yield from _change(edit, path)
    elif call.name == "Bash" and "\n" in str(arguments.get("command", "")):
        yield from _source(str(arguments["command"]), "", " ")
    elif "_raw" in arguments:
        yield from _source(str(arguments["_raw"]), "", " ")


def _change(edit: dict[str, Any], path: str) -> Iterator[Row]:
    yield from _source(str(edit.get("old_string", "")), path, "-")
    yield from _source(str(edit.get("new_string", "")), path, "+")


def _source(text: str, path: str, sign: str) -> Iterator[Row]:
    fills = {"+": "on $added", "-": "on $removed"}
    lines = coloured(clean(text).rstrip("\n"), language_of(path))
    for line in lines[:MOST_LINES]:
        yield row((f"{sign} ", "$muted"), line, fill=fills.get(sign, ""))
    if len(lines) > MOST_LINES:
        yield row((f"⋯ {len(lines) - MOST_LINES} more lines", "$faint"))


def _output(output: str, width: int) -> list[Row]:
    lines = clean(output).rstrip("\n").split("\n")
    rows: list[Row] = []
    for line in lines[:MOST_LINES]:
        content = Content.styled(line.expandtabs(4), "$muted")
        rows += [Row(Content("    │ ") + part, gutter=6) for part in (content.fold(max(8, width - 7)) or [content])]
    if len(lines) > MOST_LINES:
        rows.append(row("    │ ", (f"⋯ {len(lines) - MOST_LINES} more lines", "$faint")))
    return rows


def _edit_size(edits: list[dict[str, Any]]) -> str:
    comes = sum(str(edit.get("new_string", "")).count("\n") + 1 for edit in edits)
    goes = sum(str(edit.get("old_string", "")).count("\n") + 1 for edit in edits)
    return f"+{comes} −{goes}"


def _plan(arguments: dict[str, Any]) -> str:
    items = [item for item in arguments.get("todos", []) if isinstance(item, dict)]
    done = sum(item.get("status") == "completed" for item in items)
    current = next((str(item.get("content", "")) for item in items if item.get("status") == "in_progress"), "")
    return f"{done} of {len(items)} done" + (f"; now: {current}" if current else "")


def _read(arguments: dict[str, Any]) -> str:
    offset, limit = arguments.get("offset"), arguments.get("limit")
    lines = f" from line {offset}" if offset else ""
    return f"{arguments.get('file_path', '')}{lines}" + (f", {limit} lines" if limit else "")


def _sweep(arguments: dict[str, Any]) -> str:
    defines = arguments.get("defines")
    if not isinstance(defines, dict):
        return ""
    return " ".join(
        f"{name}={','.join(map(str, each)) if isinstance(each, list) else each}" for name, each in defines.items()
    )


_SUMMARIES: dict[str, Callable[[dict[str, Any]], str]] = {
    "Bash": lambda a: str(a.get("command", "")),
    "Read": _read,
    "Write": lambda a: f"{a.get('file_path', '')} +{str(a.get('content', '')).count(chr(10))}",
    "Edit": lambda a: f"{a.get('file_path', '')} {_edit_size([a])}",
    "MultiEdit": lambda a: (
        f"{a.get('file_path', '')} {_edit_size([e for e in a.get('edits', []) if isinstance(e, dict)])}"
    ),
    "Glob": lambda a: f"{a.get('pattern', '')} {a.get('path', '')}",
    "Grep": lambda a: f"{json.dumps(a.get('pattern', ''))} {a.get('path', '')}",
    "Recall": lambda a: f"{a.get('reference', '')} {a.get('text', '')}".rstrip(),
    "TodoWrite": _plan,
    "Check": lambda a: str(a.get("tier", "")),
    "Profile": lambda _: "the original",
    "Ncu": lambda _: "what limits the kernels",
    "Sanitize": lambda _: "faults of the kernels",
    "Sweep": _sweep,
    "Ablate": lambda a: ", ".join(map(str, a.get("phases") or ["every phase"])),
}

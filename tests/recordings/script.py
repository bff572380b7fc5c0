"""What a recording is made from: a task, and the answers that a model would give, one after the other."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TEXTS = Path(__file__).parent / "texts"
GPU = Path(__file__).parent.parent / "gpu"


@dataclass(frozen=True)
class Call:
    """A tool call."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Turn:
    """One answer: what is said, and the calls that go with it."""

    words: str
    calls: tuple[Call, ...]

    def message(self, number: int) -> dict[str, Any]:
        """Return the answer as an assistant's message in OpenAI form."""
        calls = [
            {
                "id": f"call_{number}_{index}",
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
            }
            for index, call in enumerate(self.calls, 1)
        ]
        return {"role": "assistant", "content": self.words, **({"tool_calls": calls} if calls else {})}


@dataclass(frozen=True)
class Script:
    """One recording to be made.

    Attributes:
        name: Its folder below ``agent/recordings``.
        device: Kind of device it belongs to, ``cpu`` or ``cuda``.
        source: A project to copy and open, or a KernelBench file.
        target: File and class inside the project; empty for a KernelBench file.
        turns: The answers, in order.
    """

    name: str
    device: str
    source: Path
    turns: Sequence[Turn]
    target: str = ""


def text_of(*parts: str) -> str:
    """Return the text of a file of ``texts``."""
    return TEXTS.joinpath(*parts).read_text()


def words(case: str) -> list[str]:
    """Return what is said in each answer: the sections of the case's ``words.md``, each paragraph on one line."""
    sections = text_of(case, "words.md").strip().split("\n\n---\n\n")
    return [re.sub(r"(?<=[^\n])\n(?=[^\n-])", " ", section) for section in sections]


def kernelbench(case: str) -> Path:
    """Return the file of a quoted module."""
    return GPU / "modules" / f"{case}.py"


def final_kernel(case: str) -> str:
    """Return the text of a quoted module's kernel."""
    return next((GPU / "kernels" / case / "kernels").glob("*.cu")).read_text()


def final_model(case: str) -> str:
    """Return the text of ``model_new.py`` of a quoted module."""
    return (GPU / "kernels" / case / "model_new.py").read_text()


def turn(words: str, *calls: Call) -> Turn:
    return Turn(words, calls)


def profile() -> Call:
    return Call("Profile")


def read(path: str) -> Call:
    return Call("Read", {"file_path": path})


def skill(file: str) -> Call:
    return Call("Skill", {"name": "cuda-kernels", "file": file})


def write(path: str, content: str) -> Call:
    return Call("Write", {"file_path": path, "content": content})


def edit(path: str, old: str, new: str) -> Call:
    return Call("Edit", {"file_path": path, "old_string": old, "new_string": new})


def bash(command: str) -> Call:
    return Call("Bash", {"command": command})


def check(note: str, tier: str = "quick") -> Call:
    return Call("Check", {"tier": tier, "note": note})


def plan(*items: str, done: int) -> Call:
    """The plan with its first ``done`` items completed and the next in progress."""
    status = ["completed"] * done + ["in_progress"] + ["pending"] * len(items)
    return Call("TodoWrite", {"todos": [{"content": item, "status": status[i]} for i, item in enumerate(items)]})

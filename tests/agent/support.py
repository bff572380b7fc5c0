"""What several tests of the agent need: a task in a project of its own, its settings, and verdicts."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

from agent import events as ev
from agent.session import create_session
from agent.settings import Settings
from agent.store import SessionWriter
from sandbox.task import TaskSpec
from sandbox.verdict import (
    Baseline,
    BuildReport,
    GuardReport,
    ProfileReport,
    Speedup,
    TaskIdentity,
    Verdict,
    VerifyReport,
)

MODULE = '''"""A small module."""

import torch
from torch import nn


class Shifted(nn.Module):
    """Scale, shift, clamp and squash, each a pass over memory."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.linspace(0.5, 1.5, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * self.scale
        y = y + 1.0
        y = torch.clamp(y, -2.0, 2.0)
        return y * y - x
'''

ALONE = {"OMP_NUM_THREADS": "1"}
"""What is timed must not wait for a second core that other tests use."""
UNCOMPILED = {**ALONE, "TORCH_COMPILE_DISABLE": "1"}
"""Compiling a baseline takes a processor twenty seconds, and starts as soon as a judge has nothing else to do."""


def make_spec(folder: Path, source: str = MODULE, *, compiled: bool = False) -> TaskSpec:
    """Write a project with one module below ``folder`` and return the task, by default without ``torch.compile``."""
    project = folder / "project"
    project.mkdir(exist_ok=True)
    path = project / "shifted.py"
    path.write_text(source)
    return TaskSpec(
        kind="module",
        path=path,
        class_name="Shifted",
        module_name="shifted",
        root=project,
        python=Path(sys.executable),
        init="256",
        inputs="torch.randn(32, 256)",
        env=ALONE if compiled else UNCOMPILED,
    )


def make_settings(folder: Path, **changes: object) -> Settings:
    """Return settings that keep everything below ``folder``."""
    return replace(Settings(home=folder / "home", cache=folder / "cache", device="cpu"), **changes)


def make_verdict(*, ok: bool = True, tier: str = "quick", ratio: float = 2.0, reward: int | None = 3) -> Verdict:
    """Return a verdict: correct with this ratio to eager, or one whose build failed."""
    profile = ProfileReport(
        device_us=10.0,
        latency_us=12.0,
        baselines={"eager": Baseline("eager", 10.0 * ratio), "compile": Baseline("default", 15.0)},
        speedup={"eager": Speedup(ratio, ratio - 0.1, ratio + 0.1), "compile": Speedup(1.5, 1.4, 1.6)},
        copy_us=5.0,
        samples={"candidate": [[10.0]], "eager": [[10.0 * ratio]]},
    )
    return Verdict(
        tier=tier,
        task=TaskIdentity("shifted:Shifted", "0" * 64, "fp32", "own-kernels"),
        candidate_sha256="1" * 64,
        environment={"device": "cpu"},
        build=BuildReport(ok=ok, seconds=0.5),
        guard=GuardReport(ok=True) if ok else None,
        verify=VerifyReport(ok=True) if ok else None,
        profile=profile if ok else None,
        reward=reward if ok else -1,
        reason="It is faster." if ok else "The candidate does not compile.",
    )


def make_turn(text: str, *calls: tuple[str, dict[str, object] | str], turn: int = 1) -> ev.ModelTurn:
    """Return an answer with tool calls given as name and arguments; their ids are c0, c1 and so on."""
    message: dict[str, object] = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [
            {
                "id": f"c{index}",
                "type": "function",
                "function": {"name": name, "arguments": a if isinstance(a, str) else json.dumps(a)},
            }
            for index, (name, a) in enumerate(calls)
        ]
    return ev.ModelTurn(
        turn=turn, message=message, prompt_sha256="", finish_reason="stop", model="recorded/model", seconds=1
    )


def make_recording(folder: Path, *events: ev.Event) -> Path:
    """Write a recorded session below ``folder`` that holds these events."""
    settings = make_settings(folder, home=folder / "recordings")
    recording = create_session(make_spec(folder), settings, settings.home)
    writer = SessionWriter(recording)
    for event in events:
        writer.append(event)
    writer.close()
    return recording

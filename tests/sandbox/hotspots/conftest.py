"""A project of a few modules, and what records a script of it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sandbox.hotspots.command import parse_command
from sandbox.hotspots.recording import ClassRecord, Recording, read_recording
from sandbox.hotspots.run import Limits, RunEnd, watch

BLOCKS = """\
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x, scale=1.0):
        return torch.tanh(self.norm(self.linear(x))) * scale + x


class Net(nn.Module):
    def __init__(self, width=16, depth=3):
        super().__init__()
        self.blocks = nn.ModuleList([Block(width) for _ in range(depth)])
        self.head = nn.Linear(width, 4)

    def forward(self, x):
        for block in self.blocks:
            x = block(x, scale=0.5)
        return self.head(x)
"""

Run = Callable[..., tuple[RunEnd, Recording]]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a project with a package, and the current folder."""
    folder = tmp_path / "project"
    (folder / "net").mkdir(parents=True)
    (folder / "net" / "__init__.py").touch()
    (folder / "net" / "blocks.py").write_text(BLOCKS)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def run(project: Path, tmp_path: Path) -> Run:
    """Record a script of the project and return how it ended and what was recorded."""

    def record(script: str, *before: str, **limits: Any) -> tuple[RunEnd, Recording]:
        (project / "train.py").write_text(script)
        folder = tmp_path / "recording"
        folder.mkdir()
        command = parse_command([sys.executable, *(before or ("-W", "ignore")), "train.py"])
        end = watch(command, folder, Limits(**limits), lambda _: None)
        return end, read_recording(folder)

    return record


def class_of(recording: Recording, name: str, process: int = 0) -> ClassRecord:
    """Return what one process recorded of a class."""
    return next(each for each in recording.processes[process].classes if each.name == name)

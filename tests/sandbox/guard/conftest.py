"""Candidates as workspaces on disk, beside the original they come from."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox.guard import check_source
from sandbox.task import TaskSpec
from sandbox.verdict import GuardReport

KERNELBENCH = """\
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, features, eps=1e-5):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.eps = eps

    def forward(self, x, y=None):
        return torch.relu(self.linear(x))

def get_inputs():
    return [torch.randn(8, 64)]

def get_init_inputs():
    return [64]
"""

MODULE = '''\
"""Blocks of somebody's model."""
import math
import os
from typing import Optional

import torch
import torch.nn.functional as F
from torch import nn

from .layers import Attention, rotary

CACHE = os.environ.get("BLOCKS_CACHE", "")


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class Unrelated(nn.Module):
    def forward(self, x):
        with open(CACHE) as file:
            return F.gelu(x) * float(file.read())


class Block(nn.Module):
    def __init__(self, dim, heads=8, attention=Attention):
        super().__init__()
        self.dim = dim
        self.heads = heads
        self.norm = RMSNorm(dim)
        self.attention = attention(dim, heads)
        inverse = 1.0 / (10000 ** (torch.arange(0, dim, 2).float() / dim))
        self.register_buffer("inverse", inverse)

    def forward(self, x, mask: Optional[torch.Tensor] = None, start: int = 0):
        return x + self.norm(F.silu(x))

    def save(self, path):
        torch.save(self.state_dict(), path)
'''


@pytest.fixture
def kernelbench(tmp_path: Path) -> Callable[..., GuardReport]:
    """Judge the text of a ``model_new.py``, with kernel files and options of the task."""

    def judge(
        source: str, kernels: dict[str, str] | None = None, original: str = KERNELBENCH, **options: object
    ) -> GuardReport:
        path = tmp_path / "project/model.py"
        spec = TaskSpec("kernelbench", path, "Model", "model", path.parent, Path("/usr/bin/python3"), **options)
        return _judge(tmp_path, spec, original, textwrap.dedent(source), kernels or {})

    return judge


@pytest.fixture
def module(tmp_path: Path) -> Callable[..., GuardReport]:
    """Judge a developer's file in which pieces of text were replaced."""

    def judge(
        *changes: tuple[str, str], original: str = MODULE, kernels: dict[str, str] | None = None, **options: object
    ) -> GuardReport:
        path = tmp_path / "project/pkg/blocks.py"
        spec = TaskSpec("module", path, "Block", "pkg.blocks", path.parent.parent, Path("/usr/bin/python3"), **options)
        source = original
        for old, new in changes:
            assert old in source
            source = source.replace(old, new)
        return _judge(tmp_path, spec, original, source, {})

    return judge


def _judge(tmp_path: Path, spec: TaskSpec, original: str, source: str, kernels: dict[str, str]) -> GuardReport:
    workspace = tmp_path / "workspace"
    (workspace / "kernels").mkdir(parents=True, exist_ok=True)
    spec.path.parent.mkdir(parents=True, exist_ok=True)
    spec.path.write_text(original)
    (workspace / spec.candidate_file).write_text(source)
    for name, text in kernels.items():
        (workspace / "kernels" / name).write_text(textwrap.dedent(text))
    return check_source(workspace, spec)

"""The tasks that figures are taken on: small KernelBench files whose candidate is known to be as fast, or 10 % faster."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from sandbox.task import TaskSpec

_GELU = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return nn.functional.gelu(x)

def get_inputs():
    return [torch.randn({elements})]

def get_init_inputs():
    return []
"""

_WASTEFUL = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return nn.functional.gelu(x)[:{kept}]

def get_inputs():
    return [torch.randn({elements})]

def get_init_inputs():
    return []
"""

_THRIFTY = """
import torch
from torch import nn

class ModelNew(nn.Module):
    def forward(self, x):
        return nn.functional.gelu(x[:{computed}])[:{kept}]
"""

KEPT_SHARE = 0.5
"""Of the elements that the wasteful reference computes, the share that it returns: room for any saving."""


@dataclass(frozen=True)
class Pair:
    """A reference and a candidate, as sources. ``reference`` is a KernelBench file."""

    name: str
    reference: str
    candidate: str

    def write(self, folder: Path, device: str) -> tuple[TaskSpec, Path]:
        """Write both below ``folder``; return the task and the candidate's folder."""
        project, workspace = folder / "project", folder / "candidate"
        for place in (project, workspace):
            place.mkdir(parents=True, exist_ok=True)
        path = project / f"{self.name}.py"
        path.write_text(self.reference)
        (workspace / "model_new.py").write_text(self.candidate)
        python = Path(sys.executable)
        return TaskSpec(
            "kernelbench", path, "Model", self.name, project, python, device=device, policy="library-ok"
        ), workspace


def itself(name: str, reference: str) -> Pair:
    """The reference as its own candidate."""
    return Pair(name, reference, reference.replace("class Model(", "class ModelNew("))


def same_gelu(name: str, elements: int) -> Pair:
    """A GELU of so many floats against itself."""
    return itself(name, _GELU.format(elements=elements))


def faster_gelu(name: str, elements: int, saved: float) -> Pair:
    """A reference that computes more than it returns, and a candidate that computes a share ``saved`` less of it."""
    kept = int(KEPT_SHARE * elements)
    computed = max(kept, elements - int(saved * elements))
    return Pair(
        name,
        _WASTEFUL.format(elements=elements, kept=kept),
        _THRIFTY.format(computed=computed, kept=kept),
    )

"""The tasks of the suites of candidates; small on a CPU, so that a verdict takes a second."""

from __future__ import annotations

from tests.candidates.cheats.tasks import CHEAT_TASKS
from tests.candidates.frame import Task
from tests.candidates.honest.tasks import HONEST_TASKS

TASKS = {
    **CHEAT_TASKS,
    **HONEST_TASKS,
    "scale_add": Task(
        """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x, y):
        return torch.relu(x * self.weight + y)

def get_inputs():
    return [torch.randn(ROWS, COLUMNS), torch.randn(ROWS, COLUMNS)]

def get_init_inputs():
    return [COLUMNS]
""",
        {"ROWS": 32, "COLUMNS": 1024},
        {"ROWS": 2048, "COLUMNS": 4096},
    ),
    "linear_gelu": Task(
        """
import torch
from torch import nn
import torch.nn.functional as F

class Model(nn.Module):
    def __init__(self, width, out):
        super().__init__()
        self.linear = nn.Linear(width, out)

    def forward(self, x):
        return F.gelu(self.linear(x))

def get_inputs():
    return [torch.randn(ROWS, WIDTH)]

def get_init_inputs():
    return [WIDTH, OUT]
""",
        {"ROWS": 32, "WIDTH": 128, "OUT": 96},
        {"ROWS": 1024, "WIDTH": 1024, "OUT": 1024},
    ),
    "layer_norm": Task(
        """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        return self.norm(x)

def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]

def get_init_inputs():
    return [COLUMNS]
""",
        {"ROWS": 64, "COLUMNS": 256},
        {"ROWS": 4096, "COLUMNS": 2048},
    ),
    "softmax": Task(
        """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)

def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]

def get_init_inputs():
    return []
""",
        {"ROWS": 64, "COLUMNS": 300},
        {"ROWS": 4096, "COLUMNS": 2000},
    ),
}

"""Which attributes a forward reads, and what counts as reading them all."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn
from warpsmith_harness.reads import attribute_reads

from sandbox.task import DynamicSize

LAYER = """
import enum
from dataclasses import dataclass

class Mode(enum.Enum):
    FAST = 1

@dataclass
class Config:
    eps: float = 1e-5
    hidden: int = 64

class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.by, self.number = 3.0, 7
    def forward(self, x):
        return x * self.by

class Block(nn.Module):
    def __init__(self, layer_idx=3):
        super().__init__()
        self.layer_idx, self.slope, self.sizes, self.bound = layer_idx, 2, (1, [2.5]), float("inf")
        self.mode, self.config, self.act, self.scale = Mode.FAST, Config(), torch.tanh, Scale()
        self.left, self.calls = None, 0
        self.lin = nn.Linear(64, 64)
    def forward(self, x):
        self.calls += 1
        x = self.act(self.scale(self.lin(x)) * getattr(self, "slo" + "pe")) + self.config.eps
        if hasattr(self, "window"):
            x = x + 1
        return x.clamp(max=self.bound) * self.sizes[1][0] if self.mode is Mode.FAST else x
"""


def block(body: str, before: str = "") -> str:
    return f"""
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer_idx = 3
        {before or "pass"}
    def forward(self, x):
        {body}
"""


def test_what_is_read_is_told_with_its_value(make_task) -> None:
    told = attribute_reads(make_task(LAYER, gradients=True))
    assert told["any"] == ""
    assert told["seen"][""] == {
        "forward": "",
        "calls": "",
        "slope": "2",
        "bound": "1e999",
        "sizes": "(1, [2.5])",
        "window": "...",
        "mode": "",
        "mode.name": "'FAST'",
        "act": "",
        "act.__qualname__": f"{torch.tanh.__qualname__!r}",
        "config": "",
        "config.eps": "1e-05",
        "config.__class__.__qualname__": "'Config'",
    }
    assert told["seen"]["scale"] == {"forward": "", "by": "3.0", "__class__.__qualname__": "'Scale'"}
    assert "number" not in told["seen"]["scale"]
    json.dumps(told)
    assert nn.Module.__getattribute__ is object.__getattribute__, "nothing is left behind"


@pytest.mark.parametrize(
    ("body", "before", "why"),
    [
        ("return x * vars(self)['layer_idx']", "", "__dict__"),
        ("return x * self.__dict__['layer_idx']", "", "__dict__"),
        ("return x if x.sum() > 1e9 else x * 2", "", "numbers of a tensor"),
        ("return x * self.table", "self.table = torch.ones(64)", "table"),
        ("return self.act(x)", "self.act = lambda x: x * 2", "act"),
        ("return x * self.some[0].k", "self.some = [type('K', (), {'k': 2})()]", "some"),
    ],
)
def test_what_cannot_be_told_counts_as_reading_all(make_task, body: str, before: str, why: str) -> None:
    assert why in attribute_reads(make_task(block(body, before)))["any"]


def test_branches_of_other_sizes_and_modes_are_taken(make_task) -> None:
    body = "return x * (self.layer_idx if x.shape[0] > 20 else self.slope if self.training else 2)"
    task = make_task(
        block(body, "self.slope = 4"), dynamic=(DynamicSize(("x.0",), 2, 32),), inputs="torch.randn(8, 64)"
    )
    seen = attribute_reads(task)["seen"][""]
    assert (seen["layer_idx"], seen["slope"]) == ("3", "4")

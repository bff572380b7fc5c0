"""A compiler that is interrupted leaves nothing behind, and one that is switched off is no baseline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from warpsmith_harness.baselines import COMPILE, Baselines


@pytest.fixture(autouse=True)
def compiler() -> None:
    """Load the compiler, which takes longer than it has here."""
    torch.compile(nn.ReLU())


def traced() -> bool:
    return isinstance(torch.ones(2) + 1, FakeTensor)


class Slow:
    """A context that takes longer to enter and to leave than the compiler has."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def __enter__(self) -> None:
        time.sleep(2)
        self.done.append("entered")

    def __exit__(self, *error: object) -> None:
        time.sleep(2)
        self.done.append("left")


@pytest.mark.parametrize("postponed", [False, True])
def test_a_context_is_entered_and_left_whole_before_the_compiler_is_interrupted(postponed: bool) -> None:
    baselines, context = Baselines(nn.ReLU(), torch.device("cpu")), Slow()

    def compiles(_: Callable[..., Any]) -> None:
        with context:
            time.sleep(60)

    baselines.prepare(COMPILE, compiles, 60.0 if postponed else 1.0, lambda: postponed)
    assert context.done == ["entered", "left"]
    assert baselines.tried(COMPILE) != postponed


@pytest.mark.parametrize("postponed", [False, True])
def test_a_mode_that_an_interrupted_compiler_left_entered_is_left(postponed: bool) -> None:
    baselines = Baselines(nn.ReLU(), torch.device("cpu"))
    seen: list[bool] = []

    def compiles(_: Callable[..., Any]) -> None:
        FakeTensorMode(allow_non_fake_inputs=True).__enter__()
        seen.append(traced())
        time.sleep(60)

    baselines.prepare(COMPILE, compiles, 60.0 if postponed else 1.0, lambda: postponed)
    assert seen == [True]
    assert not traced()


def test_where_it_is_switched_off_eager_is_not_timed_under_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_COMPILE_DISABLE", "1")
    baselines = Baselines(nn.ReLU(), torch.device("cpu"))
    assert baselines.tried(COMPILE)
    assert "switched off by TORCH_COMPILE_DISABLE" in baselines.errors[COMPILE]

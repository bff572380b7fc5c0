"""What is told of a reference whose operators were traced on a busy machine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from sandbox.judge_limits import JudgeLimits
from sandbox.original import trace_reference


@dataclass
class Standing:
    """Stands for a crew: its bench counts the traces, its watch tells what it is given, one look after the other."""

    told: list[str]
    pid: int = 1
    traces: int = 0
    closed: bool = False
    limits: JudgeLimits = field(default_factory=JudgeLimits)

    @property
    def bench(self) -> Standing:
        return self

    def watch(self) -> Standing:
        return self

    def ask(self, request: dict[str, Any], seconds: float) -> tuple[dict[str, Any], list[int]]:
        assert request == {"op": "original"}
        assert seconds > 0
        self.traces += 1
        return {"operators": [], "trace": self.traces}, []

    def trouble(self, own: set[int]) -> str:
        assert own == {1}
        return self.told.pop(0)

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize(
    ("told", "traces", "disturbed"),
    [
        (["", ""], 1, ""),
        (["what came before counts for nothing", ""], 1, ""),
        (["", "others ran", "", ""], 2, ""),
        (["", "others ran", "", "others ran on"], 2, "others ran on"),
    ],
)
def test_operators_are_traced_once_more_where_others_slowed_them(told: list[str], traces: int, disturbed: str) -> None:
    crew: Any = Standing(told)
    found, why = trace_reference(crew)
    assert (found["trace"], why) == (traces, disturbed)
    assert crew.closed

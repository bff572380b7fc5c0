"""What is taken off the times of events, and that it is the trusted bench that says how much."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.timing.event_cost import event_cost, without_events


class Readings:
    """A bench whose clock reads these microseconds for calls that do nothing, batch after batch."""

    def __init__(self, *batches: list[float]) -> None:
        self.left = list(batches)

    def ask(self, request: dict[str, Any], _: float) -> tuple[dict[str, Any], list[int]]:
        assert request["op"] == "empty"
        return {"us": self.left.pop(0)}, []


def test_the_cost_is_the_least_median_for_disturbance_only_adds() -> None:
    bench: Any = Readings([2.9, 3.0, 60.0], [2.88, 2.94, 2.9], [40.0, 41.0, 42.0])
    assert event_cost(bench, 1.0) == 2.9
    assert not bench.left


@pytest.mark.parametrize(("read", "left"), [(19.66, 16.72), (4.3, 1.36), (2.94, 0.735), (1.0, 0.25)])
def test_a_time_is_less_by_the_cost_and_never_less_than_a_quarter(read: float, left: float) -> None:
    assert without_events([read], 2.94) == [pytest.approx(left)]

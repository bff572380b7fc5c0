"""How many workers may wait on a device at once."""

from __future__ import annotations

import pytest

from sandbox.crew import contexts_fit

GIB = 1024**3


@pytest.mark.parametrize(
    ("workers", "moved", "memory", "fit"),
    [
        (5, 2 * GIB, 140 * GIB, True),
        (5, GIB, 16 * GIB, False),
        (5, GIB // 4, 16 * GIB, True),
        (2, 0, 0, False),
    ],
)
def test_contexts_of_workers_that_wait_leave_room_for_the_task(
    workers: int, moved: int, memory: int, fit: bool
) -> None:
    assert contexts_fit(workers, moved, memory) == fit

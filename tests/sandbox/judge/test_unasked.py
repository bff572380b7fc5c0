"""A verdict that nobody has asked for gives way to whoever waits for the device, until somebody asks for it."""

from __future__ import annotations

import threading

import pytest

from sandbox.judge import Judge
from sandbox.machine.pool import find_queue
from sandbox.progress import Stage
from sandbox.wire import EXCLUSIVE, Ticket
from tests.scale_task import Write, kernel


@pytest.mark.alone
@pytest.mark.parametrize("asked", [False, True])
def test_it_ends_when_another_waits_for_the_device_unless_it_was_asked_for(
    judge: Judge, candidate: Write, asked: bool
) -> None:
    folder, queue, event = candidate(kernel()), find_queue("cpu"), threading.Event()
    tickets: list[Ticket] = []

    def come_later(stage: Stage) -> None:
        if stage.text.startswith("placement 1") and not tickets:
            tickets.append(queue.enter(EXCLUSIVE, "timing something else"))
            if asked:
                event.set()

    try:
        verdict = judge.check(folder, progress=come_later, asked=event)
    finally:
        for ticket in tickets:
            ticket.close()
        queue.close()
    assert tickets
    assert ("interrupted" in verdict.reason) != asked
    assert (verdict.profile is not None) == asked
    assert asked or verdict.reward is None
    assert judge.check(folder).profile

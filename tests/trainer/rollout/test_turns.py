"""The policy waits while a judge has the device alone, and a judge that waits gets it at the end of a turn."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager

import pytest

from sandbox.machine.pool import Pool, find_queue
from sandbox.progress import silent
from trainer.rollout.turns import DeviceTurns


def go_on():
    """Wait for ever."""


@contextmanager
def timing(done):
    """Have the device alone, as a judge in another thread does that times, until told."""
    with Pool("cpu", "a task", go_on).exclusive("profile", "timing", silent):
        yield done.append("judge")


@pytest.fixture(autouse=True)
def own_pool(tmp_path, monkeypatch):
    monkeypatch.setenv("WARPSMITH_POOL", str(tmp_path))


def test_the_policy_waits_for_a_judge_that_times():
    done = []

    def write():
        with DeviceTurns("cpu", "the policy", go_on).turn("writing"):
            done.append("policy")

    writer = threading.Thread(target=write)
    with timing(done):
        writer.start()
        time.sleep(0.2)
        assert done == ["judge"]
    writer.join()
    assert done == ["judge", "policy"]


def test_a_judge_gets_the_device_between_two_turns():
    done, turns = [], DeviceTurns("cpu", "the policy", go_on)

    def judge():
        with timing(done):
            pass

    judging = threading.Thread(target=judge)
    with turns.turn("writing"):
        judging.start()
        while not any(entry.mode == "exclusive" for entry in entries()):
            time.sleep(0.01)
    with turns.turn("writing"):
        done.append("policy")
    judging.join()
    assert done == ["judge", "policy"]


def entries():
    queue = find_queue("cpu")
    try:
        return queue.entries()
    finally:
        queue.close()


def test_waiting_can_be_given_up():
    def give_up():
        raise TimeoutError

    turns = DeviceTurns("cpu", "the policy", give_up)
    with timing([]), pytest.raises(TimeoutError), turns.turn("writing"):
        pass

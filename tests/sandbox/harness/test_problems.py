"""Whose fault an error is: a machine that fails under the compiler is told from a compiler that fails on the code."""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from warpsmith_harness.baselines import COMPILE, Baselines
from warpsmith_harness.problems import MachineProblem, machine_problem


def write_to_a_full_disk() -> None:
    with Path("/dev/full").open("w") as full:
        full.write("x")


def compile_to_a_full_disk() -> None:
    command = ["g++", "-x", "c++", "-", "-S", "-o", "/dev/full"]
    ran = subprocess.run(command, input="int main() {}", capture_output=True, text=True, check=False)
    raise RuntimeError(f"CppCompileError: {ran.stderr}")


def fail_on_the_code() -> None:
    raise TypeError("unsupported operand")


def wrapped(work: Callable[[], None]) -> BaseException:
    """Return what ``work`` raises, as an error of the compiler's that came from it."""
    try:
        try:
            work()
        except Exception as error:
            raise RuntimeError("backend='inductor' raised") from error
    except RuntimeError as error:
        return error
    raise AssertionError("nothing was raised")


def test_the_machine_is_found_anywhere_in_what_an_error_came_from() -> None:
    full = machine_problem(wrapped(write_to_a_full_disk))
    assert full is not None
    assert full.number == errno.ENOSPC
    quoted = machine_problem(wrapped(compile_to_a_full_disk))
    assert quoted is not None
    assert quoted.number == errno.ENOSPC
    starved = machine_problem(wrapped(lambda: bytearray(1 << 62) and None))
    assert starved is not None
    assert starved.number == errno.ENOMEM
    assert machine_problem(wrapped(fail_on_the_code)) is None
    assert machine_problem(FileNotFoundError(errno.ENOENT, "No such file or directory")) is None


def test_a_disk_that_fills_while_compiling_is_not_the_baselines_fault() -> None:
    baselines = Baselines(nn.ReLU(), torch.device("cpu"))
    with pytest.raises(MachineProblem, match="No space left"):
        baselines.prepare(COMPILE, lambda _: compile_to_a_full_disk(), 30.0, lambda: False)
    assert not baselines.tried(COMPILE)
    baselines.prepare(COMPILE, lambda _: fail_on_the_code(), 30.0, lambda: False)
    assert "unsupported operand" in baselines.errors[COMPILE]

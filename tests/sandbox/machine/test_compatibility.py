"""Which versions go together, told from what driver, toolkit and torch say of themselves."""

from __future__ import annotations

import pytest

from sandbox.errors import EnvironmentFault
from sandbox.machine.compatibility import (
    driver_problem,
    refuse_old_driver,
    toolkit_note,
    torch_problem,
)


@pytest.mark.parametrize(
    ("toolkit", "driver", "works"),
    [
        ("13.0", "13.0", True),
        ("13.2", "13.0", True),
        ("12.4", "13.0", True),
        ("13.0", "12.8", False),
        ("12.8", "11.8", False),
        ("", "12.8", True),
        ("13.0", "", True),
    ],
)
def test_a_toolkit_needs_a_driver_of_its_major_version(toolkit: str, driver: str, works: bool) -> None:
    assert (driver_problem(toolkit, driver) == "") == works


def test_an_old_driver_is_the_machines_fault() -> None:
    with pytest.raises(EnvironmentFault, match=r"Kernels of CUDA 13\.0 do not start here.*12\.8") as fault:
        refuse_old_driver("13.0", "12.8", "/usr/local/cuda")
    assert "CUDA 12 toolkit" in fault.value.next_step
    refuse_old_driver("13.0", "13.1", "/usr/local/cuda")


def test_torch_of_a_newer_cuda_than_the_driver_is_told_and_a_newer_toolkit_explained() -> None:
    assert "built with CUDA 13.0" in torch_problem("13.0", "12.8")
    assert torch_problem("12.8", "13.0") == "" == torch_problem("", "13.0")
    assert "bring their own runtime" in toolkit_note("13.0", "12.8")
    assert toolkit_note("12.4", "12.8") == ""

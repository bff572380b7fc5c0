"""Device names, and what is said when a GPU is asked for that is not there."""

from __future__ import annotations

import pytest

from sandbox.devices import list_gpus, resolve_device
from sandbox.errors import EnvironmentFault, UsageError


def test_the_cpu_is_always_there() -> None:
    assert resolve_device("cpu") == "cpu"


def test_auto_takes_a_gpu_where_there_is_one() -> None:
    assert resolve_device("auto") == ("cuda:0" if list_gpus() else "cpu")


def test_a_gpu_that_is_not_there_is_the_environments_fault() -> None:
    with pytest.raises(EnvironmentFault, match="does not exist"):
        resolve_device(f"cuda:{len(list_gpus())}")


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:x", "", "CPU"])
def test_an_unknown_name_is_the_requests_fault(name: str) -> None:
    with pytest.raises(UsageError, match="is not a device"):
        resolve_device(name)

"""Device names, which GPUs CUDA sees, and what is said when one cannot be used."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sandbox.errors import EnvironmentFault, ExitCode, UsageError
from sandbox.machine.devices import Gpu, list_gpus, refuse_unshareable, resolve_device, sharing_of, visible

FIRST = Gpu(0, "NVIDIA H200", "90", 150_754_820_096, "580.82.07", "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6")
SECOND = replace(FIRST, index=1, uuid="GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77")
INSTANCE = replace(FIRST, name="NVIDIA H200 MIG 1g.18gb", uuid="MIG-41b35014-745d-5f4f-a2a5-2a9bf1d4ef0c")
CUT = replace(FIRST, instances=(replace(INSTANCE, uuid="MIG-0e5f1f6c-0000-5f4f-a2a5-2a9bf1d4ef0c"), INSTANCE))


def test_the_cpu_is_always_there() -> None:
    assert resolve_device("cpu") == "cpu"


@pytest.mark.skipif(bool(list_gpus()), reason="there is a GPU")
def test_auto_takes_the_cpu_where_there_is_no_gpu() -> None:
    assert resolve_device("auto") == "cpu"


def test_a_gpu_that_is_not_there_is_the_environments_fault() -> None:
    with pytest.raises(EnvironmentFault, match="does not exist"):
        resolve_device(f"cuda:{len(list_gpus())}")


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:x", "", "CPU"])
def test_an_unknown_name_is_the_requests_fault(name: str) -> None:
    with pytest.raises(UsageError, match="is not a device"):
        resolve_device(name)


@pytest.mark.parametrize(
    ("variable", "seen"),
    [
        (None, [FIRST, SECOND]),
        ("", []),
        ("1", [SECOND]),
        ("1,0", [SECOND, FIRST]),
        ("1, -1, 0", [SECOND]),
        ("GPU-5d5ba0d6,GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", [SECOND, FIRST]),
        ("0,7,1", [FIRST]),
        ("GPU-unknown", []),
    ],
)
def test_cuda_sees_what_its_variable_names_in_that_order(variable: str | None, seen: list[Gpu]) -> None:
    assert visible([FIRST, SECOND], variable) == seen


def test_of_a_gpu_cut_into_instances_one_is_seen() -> None:
    assert visible([CUT, SECOND], None) == [CUT.instances[0], SECOND]
    assert visible([CUT], "MIG-41b35014-745d-5f4f-a2a5-2a9bf1d4ef0c") == [INSTANCE]
    assert sharing_of([CUT]) == (True, "GPU 0: default; GPU 0 is cut into 2 MIG instances", "")


@pytest.mark.parametrize(
    ("mode", "allowed"), [("exclusive process", "one process at a time"), ("prohibited", "no process at all")]
)
def test_a_gpu_that_two_processes_cannot_share_is_explained(mode: str, allowed: str) -> None:
    gpu = replace(SECOND, compute_mode=mode)
    with pytest.raises(EnvironmentFault, match=allowed) as raised:
        refuse_unshareable(gpu)
    assert "nvidia-smi -i 1 -c DEFAULT" in raised.value.next_step
    assert raised.value.exit_code == ExitCode.ENVIRONMENT
    good, text, mend = sharing_of([FIRST, gpu])
    assert not good
    assert text == f"GPU 0: default; GPU 1: {mode}"
    assert "nvidia-smi -i 1 -c DEFAULT" in mend


def test_a_gpu_in_its_default_mode_is_shared() -> None:
    refuse_unshareable(FIRST)
    refuse_unshareable(None)

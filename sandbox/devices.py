"""Which GPU a task runs on, asked of the driver through NVML and never through torch."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import Any

from sandbox.errors import EnvironmentFault, UsageError


@dataclass(frozen=True)
class Gpu:
    """One NVIDIA GPU as the driver sees it. Memory in bytes; ``sm`` is the compute capability as digits (``"90"``)."""

    index: int
    name: str
    sm: str
    memory: int
    driver: str


def nvml() -> Any:
    """Return the initialised NVML module.

    Raises:
        EnvironmentFault: There is no NVIDIA driver on this machine.
    """
    with warnings.catch_warnings():
        # pynvml forwards to nvidia-ml-py and says so at every import.
        warnings.simplefilter("ignore", FutureWarning)
        import pynvml
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise EnvironmentFault(
            f"No NVIDIA driver answers: {error}.", next_step="Use --device cpu, or install the driver."
        ) from error
    return pynvml


def list_gpus() -> list[Gpu]:
    """Return every NVIDIA GPU of this machine; empty without a driver."""
    try:
        api = nvml()
    except EnvironmentFault:
        return []
    driver = api.nvmlSystemGetDriverVersion()
    return [_gpu(api, index, driver) for index in range(api.nvmlDeviceGetCount())]


def _gpu(api: Any, index: int, driver: str) -> Gpu:
    handle = api.nvmlDeviceGetHandleByIndex(index)
    major, minor = api.nvmlDeviceGetCudaComputeCapability(handle)
    memory = int(api.nvmlDeviceGetMemoryInfo(handle).total)
    return Gpu(index, api.nvmlDeviceGetName(handle), f"{major}{minor}", memory, driver)


def resolve_device(wanted: str) -> str:
    """Turn ``auto``, ``cuda``, ``cuda:N`` or ``cpu`` into ``cuda:N`` or ``cpu``.

    Raises:
        UsageError: The name is none of these.
        EnvironmentFault: A GPU was asked for and there is none with that number.
    """
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", wanted):
        raise UsageError(f"'{wanted}' is not a device.", where="--device", next_step="Use auto, cuda, cuda:N or cpu.")
    if wanted == "cpu":
        return "cpu"
    count = len(list_gpus())
    if wanted == "auto":
        return "cuda:0" if count else "cpu"
    index = int(wanted.partition(":")[2] or 0)
    if index >= count:
        there = f"There are {count} GPUs, numbered from 0." if count else "No NVIDIA GPU or driver was found."
        raise EnvironmentFault(f"Device {wanted} does not exist. {there}", next_step="Use --device auto or cpu.")
    return f"cuda:{index}"

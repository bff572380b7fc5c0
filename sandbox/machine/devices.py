"""Which GPU a task runs on, asked of the driver through NVML and never through torch."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sandbox.errors import EnvironmentFault, UsageError
from sandbox.machine.pool import find_queue
from sandbox.wire import Ticket, device_name

_COMPUTE_MODES = {0: "default", 1: "exclusive thread", 2: "prohibited", 3: "exclusive process"}
_resident: dict[str, Ticket] = {}
"""By device, the tickets that say this process has chosen it; kept as long as the process lives."""


@dataclass(frozen=True)
class Gpu:
    """One NVIDIA GPU as the driver sees it.

    Attributes:
        index: Its number as the driver counts.
        name, uuid: As ``nvidia-smi -L`` shows them.
        sm: Its compute capability as digits (``"90"``).
        memory: In bytes.
        driver: The driver's version.
        compute_mode: ``default``, ``exclusive process``, ``exclusive thread`` or ``prohibited``.
        instances: Its MIG instances; empty where MIG is off.
    """

    index: int
    name: str
    sm: str
    memory: int
    driver: str
    uuid: str = ""
    compute_mode: str = "default"
    instances: tuple[Gpu, ...] = ()


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
    """Return every NVIDIA GPU of this machine, in the driver's order; empty without a driver."""
    try:
        api = nvml()
    except EnvironmentFault:
        return []
    driver = api.nvmlSystemGetDriverVersion()
    return [_gpu(api, index, driver) for index in range(api.nvmlDeviceGetCount())]


def visible_gpus() -> list[Gpu]:
    """Return the GPUs that CUDA programs of this environment see, in their order: ``cuda:N`` is the N-th."""
    return visible(list_gpus(), os.environ.get("CUDA_VISIBLE_DEVICES"))


def visible(gpus: Sequence[Gpu], variable: str | None) -> list[Gpu]:
    """Return the GPUs that ``CUDA_VISIBLE_DEVICES`` names, up to the first name of none; all where it is not set.

    Of a GPU that is cut into MIG instances, CUDA sees one instance, the first unless the variable names another.
    """
    if variable is None:
        return [_whole(gpu) for gpu in gpus]
    found: list[Gpu] = []
    for word in (part.strip() for part in variable.split(",")):
        gpu = _named(gpus, word)
        if gpu is None or gpu in found:
            break
        found.append(gpu)
    return found


def gpu_of(device: str) -> Gpu | None:
    """Return what ``cuda:N`` is; None for the CPU, and where it cannot be told before CUDA is asked."""
    if device == "cpu":
        return None
    gpus = visible_gpus()
    index = int(device.partition(":")[2] or 0)
    return gpus[index] if index < len(gpus) and _counted_alike(gpus) else None


def refuse_unshareable(gpu: Gpu | None) -> None:
    """Raise where the reference and the candidate, which are two processes, cannot both use a GPU.

    Raises:
        EnvironmentFault: Its compute mode keeps a second process out, or every one.
    """
    if gpu is None or gpu.compute_mode in ("default", "exclusive thread"):
        return
    allowed = "no process at all" if gpu.compute_mode == "prohibited" else "one process at a time"
    raise EnvironmentFault(
        f"GPU {gpu.index} ({gpu.name}) is in the compute mode '{gpu.compute_mode}', which lets {allowed} use it; "
        "the original and the candidate are judged in two processes.",
        where=f"GPU {gpu.index}",
        next_step=f"Run `nvidia-smi -i {gpu.index} -c DEFAULT` as root, or choose another GPU with --device.",
    )


def sharing_of(gpus: Sequence[Gpu]) -> tuple[bool, str, str]:
    """Return whether every one of these GPUs can be judged on, how each may be shared, and how to mend what is not so."""
    problems = []
    for gpu in gpus:
        try:
            refuse_unshareable(gpu)
        except EnvironmentFault as fault:
            problems.append(fault.next_step)
    cut = [f"GPU {gpu.index} is cut into {len(gpu.instances)} MIG instances" for gpu in gpus if gpu.instances]
    modes = [f"GPU {gpu.index}: {gpu.compute_mode}" for gpu in gpus]
    return not problems, "; ".join([*modes, *cut]) or "no GPU", " ".join(problems)


def resolve_device(wanted: str) -> str:
    """Turn ``auto``, ``cuda``, ``cuda:N`` or ``cpu`` into ``cuda:N`` or ``cpu``.

    Without a number it is the GPU with the fewest judges, then the least busy one. The choice is made once a process,
    and other processes see it.

    Raises:
        UsageError: The name is none of these.
        EnvironmentFault: A GPU was asked for and there is none with that number.
    """
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", wanted):
        raise UsageError(f"'{wanted}' is not a device.", where="--device", next_step="Use auto, cuda, cuda:N or cpu.")
    if wanted == "cpu":
        return "cpu"
    gpus = visible_gpus()
    if wanted == "auto" and not gpus:
        return "cpu"
    if not wanted[-1].isdecimal() and gpus:
        return f"cuda:{_least_loaded(gpus)}"
    index = int(wanted.partition(":")[2] or 0)
    if index >= len(gpus):
        there = f"There are {len(gpus)} GPUs, numbered from 0." if gpus else "No NVIDIA GPU or driver was found."
        raise EnvironmentFault(f"Device {wanted} does not exist. {there}", next_step="Use --device auto or cpu.")
    _settle_on(gpus, [index])
    return f"cuda:{index}"


def _gpu(api: Any, index: int, driver: str) -> Gpu:
    handle = api.nvmlDeviceGetHandleByIndex(index)
    major, minor = api.nvmlDeviceGetCudaComputeCapability(handle)
    whole = Gpu(
        index,
        api.nvmlDeviceGetName(handle),
        f"{major}{minor}",
        int(api.nvmlDeviceGetMemoryInfo(handle).total),
        driver,
        api.nvmlDeviceGetUUID(handle),
        _compute_mode(api, handle),
    )
    instances = tuple(
        Gpu(
            index,
            api.nvmlDeviceGetName(part),
            whole.sm,
            int(api.nvmlDeviceGetMemoryInfo(part).total),
            driver,
            api.nvmlDeviceGetUUID(part),
            whole.compute_mode,
        )
        for part in _instances(api, handle)
    )
    return Gpu(**{**vars(whole), "instances": instances})


def _compute_mode(api: Any, handle: Any) -> str:
    try:
        return _COMPUTE_MODES.get(int(api.nvmlDeviceGetComputeMode(handle)), "default")
    except api.NVMLError:
        return "default"


def _instances(api: Any, handle: Any) -> Iterator[Any]:
    """Yield the handles of a GPU's MIG instances; most GPUs have no such mode."""
    try:
        if api.nvmlDeviceGetMigMode(handle)[0] != api.NVML_DEVICE_MIG_ENABLE:
            return
        count = api.nvmlDeviceGetMaxMigDeviceCount(handle)
    except api.NVMLError:
        return
    for number in range(count):
        try:
            yield api.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)
        except api.NVMLError:  # a place without an instance
            continue


def _whole(gpu: Gpu) -> Gpu:
    return gpu.instances[0] if gpu.instances else gpu


def _named(gpus: Sequence[Gpu], word: str) -> Gpu | None:
    """Return the GPU or MIG instance that a word of ``CUDA_VISIBLE_DEVICES`` names: a number, or how its UUID begins."""
    if word.isdecimal():
        return _whole(gpus[int(word)]) if int(word) < len(gpus) else None
    parts = [part for gpu in gpus for part in gpu.instances]
    if word.startswith("MIG-"):
        return next((part for part in parts if part.uuid.startswith(word)), None)
    if word.startswith("GPU-"):
        return next((_whole(gpu) for gpu in gpus if gpu.uuid.startswith(word)), None)
    return None


def _counted_alike(gpus: Sequence[Gpu]) -> bool:
    """Whether CUDA surely counts these GPUs as the driver does: it puts faster ones first unless told otherwise."""
    return len({gpu.name for gpu in gpus}) < 2 or os.environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"


def _least_loaded(gpus: Sequence[Gpu]) -> int:
    if not _counted_alike(gpus):
        return 0
    mine = [index for index, gpu in enumerate(gpus) if device_name(gpu.uuid, "") in _resident]
    usable = [index for index, gpu in enumerate(gpus) if gpu.compute_mode == "default"]
    return mine[0] if mine else _settle_on(gpus, usable or [0])


def _settle_on(gpus: Sequence[Gpu], places: Sequence[int]) -> int:
    """Choose one of these GPUs and let other processes see that, for as long as this one lives; return its place."""
    names = [device_name(gpus[place].uuid, "") for place in places]
    if len(names) == 1 and names[0] in _resident:
        return places[0]
    busy = [_busy_percent(gpus[place]) if len(names) > 1 else 0 for place in places]
    best, ticket = find_queue(names[0]).settle(list(zip(names, busy, strict=True)), "a session")
    _resident[names[best]] = ticket
    return places[best]


def _busy_percent(gpu: Gpu) -> int:
    api = nvml()
    try:
        return int(api.nvmlDeviceGetUtilizationRates(api.nvmlDeviceGetHandleByUUID(gpu.uuid)).gpu)
    except api.NVMLError:  # MIG instances tell of no utilisation
        return 0

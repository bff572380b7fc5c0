"""Tells whether a GPU was left alone and at its own pace while something was timed on it, through NVML."""

from __future__ import annotations

import contextlib
import time
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Protocol

from sandbox.errors import EnvironmentFault
from sandbox.machine.devices import gpu_of, nvml
from sandbox.machine.pool import Lease
from sandbox.timing.cpu_watch import CpuWatch

_THROTTLED = {0x8: "a hardware slowdown", 0x20: "its temperature", 0x40: "its temperature", 0x80: "the power supply"}
_POWER_LIMITED = 0x4
_BUSY_PERCENT = 5
_MOVED = 0.03
_FEWEST_READINGS = 8


class DeviceWatch(Protocol):
    """Looks at a device between batches. ``driver`` is its driver's version, or empty."""

    driver: str

    def trouble(self, own: set[int]) -> str:
        """Return why samples taken since the last look are not to be trusted, or an empty string.

        Args:
            own: Process ids whose use of the device is ours.
        """

    def clocks(self) -> dict[str, float]:
        """Return the clocks and the temperature at all looks so far (see ``clocks_of``); empty where nothing tells."""

    def notes(self) -> list[str]:
        """Return what a reader of the times should know of the device."""

    def close(self) -> None:
        """Let go of the device."""


class NoWatch:
    """For devices that nothing is known about. Args: ``why`` not."""

    driver = ""

    def __init__(self, why: str) -> None:
        self._why = why

    def trouble(self, own: set[int]) -> str:  # noqa: ARG002  # the protocol's signature
        """Report nothing."""
        return ""

    def clocks(self) -> dict[str, float]:
        """Know nothing."""
        return {}

    def notes(self) -> list[str]:
        """Say that nobody watched."""
        return [f"nobody watched the GPU for other processes and throttling while it was timed: {self._why}"]

    def close(self) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class GpuReading:
    """What NVML said at one look.

    Attributes:
        reasons: Bits of why the clocks are not at their highest (``nvmlClocksEventReasons``).
        sm_mhz, memory_mhz: The clocks; 0 where NVML does not tell.
        celsius: The temperature; 0 where NVML does not tell.
        use: Process ids with their share of the multiprocessors in percent since the look before.
    """

    reasons: int = 0
    sm_mhz: int = 0
    memory_mhz: int = 0
    celsius: int = 0
    use: tuple[tuple[int, int], ...] = ()


def trouble_of(reading: GpuReading, own: set[int]) -> str:
    """Return why samples taken before a reading are not to be trusted, or an empty string.

    A process of a desktop that does nothing counts as little as one that is gone. A GPU at its power limit does what it
    can, which is no trouble.
    """
    slowed = " and ".join(dict.fromkeys(name for bit, name in _THROTTLED.items() if reading.reasons & bit))
    if slowed:
        return f"the GPU was slowed down by {slowed}"
    busy = [pid for pid, percent in reading.use if percent >= _BUSY_PERCENT and pid not in own]
    return f"another process was using the GPU (pid {busy[0]})" if busy else ""


def clocks_of(readings: Sequence[GpuReading]) -> dict[str, float]:
    """Return clocks in MHz (mean, lowest, highest), the highest temperature, and how the SM clock went.

    ``sm_change`` compares the last quarter of the readings with the first: -0.19 means that it fell by 19 %.
    ``power_limited`` is the share of readings at the power limit.
    """
    sm = [reading.sm_mhz for reading in readings if reading.sm_mhz]
    if not sm:
        return {}
    quarter = max(1, len(sm) // 4)
    memory = [reading.memory_mhz for reading in readings if reading.memory_mhz]
    change = fmean(sm[-quarter:]) / fmean(sm[:quarter]) - 1 if len(sm) >= _FEWEST_READINGS else 0.0
    return {
        "sm_mhz": round(fmean(sm)),
        "sm_mhz_lowest": min(sm),
        "sm_mhz_highest": max(sm),
        "sm_change": round(change, 3),
        "memory_mhz": round(fmean(memory)) if memory else 0,
        "celsius_highest": max(reading.celsius for reading in readings),
        "power_limited": round(fmean(bool(reading.reasons & _POWER_LIMITED) for reading in readings), 3),
    }


def clock_notes(clocks: dict[str, float]) -> list[str]:
    """Say that the clocks are not locked, where they moved enough to matter."""
    change = clocks.get("sm_change", 0.0)
    if abs(change) < _MOVED:
        return []
    limited = ", at the power limit" if clocks["power_limited"] > _MOVED else ""
    went = f"{'fell' if change < 0 else 'rose'} by {abs(change):.0%}"
    span = f"{clocks['sm_mhz_lowest']:.0f} to {clocks['sm_mhz_highest']:.0f} MHz"
    note = (
        f"the GPU's clocks are not locked, and the SM clock {went} while it was timed ({span}, up to "
        f"{clocks['celsius_highest']:.0f} °C{limited}): the ratios are of the same moments, the times may not repeat"
    )
    return [note]


class GpuWatch:
    """Reads clocks, throttle reasons and other processes' utilisation.

    Args:
        api: The imported ``pynvml``, initialised.
        handle: Of the GPU or of a MIG instance; clocks are those of the whole GPU.

    Attributes:
        driver: The driver's version.
    """

    def __init__(self, api: types.ModuleType, handle: Any) -> None:
        self._api: Any = api
        self._handle = handle
        self._whole = handle
        with contextlib.suppress(api.NVMLError):
            self._whole = api.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)
        self._seen = int(time.time() * 1_000_000)
        self._readings: list[GpuReading] = []
        self._sees_us: bool | None = None
        version = api.nvmlSystemGetDriverVersion()
        self.driver = version.decode() if isinstance(version, bytes) else str(version)

    def trouble(self, own: set[int]) -> str:
        """Return why samples since the last look are not to be trusted, or an empty string."""
        if self._sees_us is None:
            self._sees_us = any(pid in own for pid in self._present())
        reading = self.read()
        self._readings.append(reading)
        return trouble_of(reading, own)

    def read(self) -> GpuReading:
        """Look once. A process that is gone, or of which only the number is known here, is left out."""
        api, whole = self._api, self._whole
        return GpuReading(
            reasons=self._told(api.nvmlDeviceGetCurrentClocksThrottleReasons, whole),
            sm_mhz=self._told(api.nvmlDeviceGetClockInfo, whole, api.NVML_CLOCK_SM),
            memory_mhz=self._told(api.nvmlDeviceGetClockInfo, whole, api.NVML_CLOCK_MEM),
            celsius=self._told(api.nvmlDeviceGetTemperature, whole, api.NVML_TEMPERATURE_GPU),
            use=tuple((pid, percent) for pid, percent in self._use() if Path(f"/proc/{pid}").exists()),
        )

    def clocks(self) -> dict[str, float]:
        """Return ``clocks_of`` all looks but the first, which came before there was work."""
        return clocks_of(self._readings[1:])

    def notes(self) -> list[str]:
        """Say where the clocks moved, and where other processes cannot be seen."""
        blind = (
            "other processes on the GPU cannot be seen from here, so nobody watched for them "
            "(NVML does not list this judge's own: a container, or MIG)"
        )
        return [*clock_notes(self.clocks()), *([blind] if self._sees_us is False else [])]

    def close(self) -> None:
        """Leave NVML."""
        with contextlib.suppress(self._api.NVMLError):
            self._api.nvmlShutdown()

    def _told(self, ask: Any, *arguments: Any) -> int:
        with contextlib.suppress(self._api.NVMLError):
            return int(ask(*arguments))
        return 0

    def _present(self) -> list[int]:
        with contextlib.suppress(self._api.NVMLError):
            return [int(process.pid) for process in self._api.nvmlDeviceGetComputeRunningProcesses(self._handle)]
        return []

    def _use(self) -> Iterator[tuple[int, int]]:
        """Yield process ids with their share of the multiprocessors in percent, sampled since the last look."""
        try:
            samples = self._api.nvmlDeviceGetProcessUtilization(self._handle, self._seen)
        except self._api.NVMLError:  # also says "not found" when there is no new sample
            return
        for sample in samples:
            self._seen = max(self._seen, int(sample.timeStamp))
            yield int(sample.pid), int(sample.smUtil)


class LeasedWatch:
    """A watch on a device that is held alone: whoever took it meanwhile is trouble as well."""

    def __init__(self, watch: DeviceWatch, lease: Lease) -> None:
        self._watch = watch
        self._lease = lease
        self.driver = watch.driver

    def trouble(self, own: set[int]) -> str:
        """Return what the lease tells, or else the watch."""
        return self._lease.trouble() or self._watch.trouble(own)

    def lost(self) -> str:
        """Return why the device may not have been held alone all the time, or an empty string."""
        return self._lease.trouble()

    def clocks(self) -> dict[str, float]:
        """Return the watch's."""
        return self._watch.clocks()

    def notes(self) -> list[str]:
        """Return the watch's."""
        return self._watch.notes()

    def close(self) -> None:
        """Close the watch; the lease is whoever's who took it."""
        self._watch.close()


def watch_device(device: str, uuid: str) -> DeviceWatch:
    """Return a watch on the CPU, or on ``cuda:N`` with torch's UUID of it; where NVML fails, one that says so."""
    if device == "cpu":
        return CpuWatch()
    try:
        api = nvml()
        return GpuWatch(api, _handle(api, device, uuid))
    except EnvironmentFault as fault:
        return NoWatch(fault.what)
    except LookupError as error:
        return NoWatch(str(error))


def _handle(api: Any, device: str, uuid: str) -> Any:
    """Return NVML's handle of a GPU or MIG instance; torch writes a UUID without saying which of them it is."""
    gpu = None if uuid else gpu_of(device)
    bare = uuid.removeprefix("GPU-").removeprefix("MIG-")
    for name in [gpu.uuid] if gpu else [f"GPU-{bare}", f"MIG-{bare}"]:
        with contextlib.suppress(api.NVMLError):
            return api.nvmlDeviceGetHandleByUUID(name)
    raise LookupError(f"NVML does not know {device} ({uuid or 'its UUID is unknown'})")

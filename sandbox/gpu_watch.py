"""Tells whether a GPU was left alone and at its own pace while something was timed on it, through NVML."""

from __future__ import annotations

import contextlib
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from sandbox.cpu_watch import CpuWatch

_THROTTLED = {0x8: "a hardware slowdown", 0x20: "its temperature", 0x40: "its temperature", 0x80: "the power supply"}
_BUSY_PERCENT = 5


class DeviceWatch(Protocol):
    """Looks at a device between batches. ``driver`` is its driver's version, or empty."""

    driver: str

    def trouble(self, own: set[int]) -> str:
        """Return why samples taken since the last look are not to be trusted, or an empty string.

        Args:
            own: Process ids whose use of the device is ours.
        """

    def close(self) -> None:
        """Let go of the device."""


class NoWatch:
    """For devices that nothing is known about."""

    driver = ""

    def trouble(self, own: set[int]) -> str:  # noqa: ARG002  # the protocol's signature
        """Report nothing."""
        return ""

    def close(self) -> None:
        """Do nothing."""


class GpuWatch:
    """Reads throttle reasons and other processes' utilisation.

    Args:
        nvml: The imported ``pynvml``, initialised.
        handle: Of the device.

    Attributes:
        driver: The driver's version.
    """

    def __init__(self, nvml: types.ModuleType, handle: Any) -> None:
        self._nvml: Any = nvml
        self._handle = handle
        self._seen = int(time.time() * 1_000_000)
        version = nvml.nvmlSystemGetDriverVersion()
        self.driver = version.decode() if isinstance(version, bytes) else str(version)

    def trouble(self, own: set[int]) -> str:
        """Return why samples since the last look are not to be trusted, or an empty string."""
        reasons = self._throttling()
        if reasons:
            return f"the GPU was slowed down by {reasons}"
        busy = [
            pid for pid, use in self._use() if use >= _BUSY_PERCENT and pid not in own and Path(f"/proc/{pid}").exists()
        ]
        return f"another process was using the GPU (pid {busy[0]})" if busy else ""

    def close(self) -> None:
        """Leave NVML."""
        with contextlib.suppress(self._nvml.NVMLError):
            self._nvml.nvmlShutdown()

    def _throttling(self) -> str:
        with contextlib.suppress(self._nvml.NVMLError):
            bits = int(self._nvml.nvmlDeviceGetCurrentClocksThrottleReasons(self._handle))
            return " and ".join(dict.fromkeys(name for bit, name in _THROTTLED.items() if bits & bit))
        return ""

    def _use(self) -> Iterator[tuple[int, int]]:
        """Yield process ids with their share of the multiprocessors in percent, sampled since the last look."""
        try:
            samples = self._nvml.nvmlDeviceGetProcessUtilization(self._handle, self._seen)
        except self._nvml.NVMLError:  # also says "not found" when there is no new sample
            return
        for sample in samples:
            self._seen = max(self._seen, int(sample.timeStamp))
            yield int(sample.pid), int(sample.smUtil)


def watch_device(device: str, uuid: str) -> DeviceWatch:
    """Return a watch on the CPU, or on ``cuda:N`` with torch's UUID of it; one that reports nothing where NVML is missing."""
    if device == "cpu":
        return CpuWatch()
    try:
        import pynvml
    except ImportError:
        return NoWatch()
    try:
        pynvml.nvmlInit()
        name = uuid if uuid.startswith("GPU-") else f"GPU-{uuid}"
        return GpuWatch(
            pynvml, pynvml.nvmlDeviceGetHandleByUUID(name) if uuid else pynvml.nvmlDeviceGetHandleByIndex(0)
        )
    except pynvml.NVMLError:
        return NoWatch()

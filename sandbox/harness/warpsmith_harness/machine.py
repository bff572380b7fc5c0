"""What times depend on, as the developer's interpreter sees it."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any, Dict


def machine_of(device: str) -> Dict[str, Any]:
    """Return what times depend on, as this interpreter sees it."""
    import torch

    found: Dict[str, Any] = {
        "device": "cpu",
        "sm": None,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "cpu": cpu_name(),
    }
    if device != "cpu":
        from warpsmith_harness.trace import multiprocessor

        properties = torch.cuda.get_device_properties(device)
        major, minor = torch.cuda.get_device_capability(device)
        found.update(device=properties.name, sm=f"sm_{major}{minor}", gpu_uuid=str(getattr(properties, "uuid", "")))
        found.update(multiprocessor=multiprocessor(device))
    return found


def cpu_name() -> str:
    """Return the processor's name."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()

"""What a process's file holds, as JSON data."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict

import torch

from .captures import rank
from .landings import landing_counts

if TYPE_CHECKING:
    from .recorder import Recorder

SCHEMA = "warpsmith.recording/1"


def report(recorder: Recorder) -> Dict[str, Any]:
    """Return what a recorder knows; times in microseconds as ``[device, host]``."""
    timeline = recorder.sharing.timeline
    return {
        "schema": SCHEMA,
        "pid": os.getpid(),
        "parent": os.getppid(),
        "written": time.time(),
        "complete": recorder.complete,
        "fault": recorder.fault,
        "arguments": list(getattr(sys, "argv", [])),
        "folder": str(Path.cwd()),
        "executable": sys.executable,
        "python": ".".join(str(part) for part in sys.version_info[:3]),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "gpu": _gpu(recorder),
        "devices": sorted(recorder.devices),
        "rank": rank(),
        "world_size": _number(os.environ.get("WORLD_SIZE")),
        "elsewhere": recorder.elsewhere,
        "left_alone": recorder.left_alone,
        "step": {"kind": recorder.marker.kind, "name": recorder.marker.name, "count": recorder.windows.steps},
        "windows": [window.to_json() for window in recorder.windows.past],
        "modules_us": timeline.modules.to_json(),
        "backward_us": timeline.backward.to_json(),
        "outside_us": timeline.outside.to_json(),
        "captures": recorder.captures.written,
        "capture_fault": recorder.captures.fault,
        "landings": landing_counts(),
        "losses": recorder.losses.read(),
        "classes": [kind.to_json() for kind in list(recorder.kinds.values())],
    }


def _number(text: Any) -> Any:
    return int(text) if text and text.isdecimal() else None


def _gpu(recorder: Recorder) -> str:
    if not any(device.startswith("cuda") for device in recorder.devices):
        return ""
    return str(torch.cuda.get_device_name())

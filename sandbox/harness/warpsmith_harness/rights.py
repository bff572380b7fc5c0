"""What is left to a cell by Landlock, which knows paths, and by seccomp, which knows system calls."""

# Paths are strings here, as the system calls take them.
# ruff: noqa: PTH208

from __future__ import annotations

import contextlib
import os
import socket
from typing import Any

from warpsmith_harness import landlock, private_root


def families(cell: dict[str, Any]) -> list[int]:
    """List the sockets that a cell may make: a network of its own does not hold those of a virtual machine to its host."""
    if cell["level"] != "limits":
        return [socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK]
    # Landlock lets sockets of services be reached by their path. NVIDIA's libraries talk to theirs, and to the kernel.
    return [socket.AF_UNIX, socket.AF_NETLINK] if cell["gpu"] else []


def paths(cell: dict[str, Any]) -> list[tuple[str, int]]:
    """List what Landlock leaves to a cell: the paths it names, and what every program needs."""
    devices = [f"/dev/{name}" for name in private_root.DEVICES]
    if cell["gpu"]:
        devices += [f"/dev/{name}" for name in os.listdir("/dev") if private_root.is_gpu_device(name)]
    readable = (*private_root.SYSTEM, "/etc/passwd", "/etc/group", "/sys", "/proc", *cell["readable"])
    return [
        *(shown for path in readable for shown in _shown(path, cell["hidden"])),
        *((path, landlock.WRITE) for path in ("/dev/shm", cell["env"]["TMPDIR"], *cell["writable"])),  # noqa: S108
        # CUDA names its threads by writing there.
        *((path, landlock.DEVICE) for path in (*devices, "/proc/self")),
    ]


def _shown(path: str, hidden: list[str]) -> list[tuple[str, int]]:
    """List what makes a path readable but for what is hidden inside: rights on a folder are rights on all that it holds."""
    inside = [each for each in hidden if each == path or each.startswith(f"{path}/")]
    inside = [each for each in inside if os.path.lexists(each)]
    if path in inside:
        return []
    if not inside:
        return [(path, landlock.READ)]
    shown = [(path, landlock.LIST)]
    with contextlib.suppress(OSError), os.scandir(path) as entries:
        for entry in entries:
            if not entry.is_symlink():  # its target has a path of its own, or is none of the cell's business
                shown += _shown(entry.path, inside)
    return shown

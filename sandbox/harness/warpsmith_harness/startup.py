"""What every process of the harness does first: its options, its interpreter and device, and its descendants."""

# Paths are strings here, so that looking at processes stays quick.
# ruff: noqa: PTH123, PTH208

from __future__ import annotations

import ctypes
import json
import os
import re
import sys
from typing import Any, Dict, List, Tuple

OLDEST_PYTHON = (3, 9)
OLDEST_TORCH = (2, 4)
_PR_SET_CHILD_SUBREAPER = 36
_ENVIRONMENT = slice(47, 49)
"""``env_start`` and ``env_end`` among the fields behind the command's name, see proc(5)."""
_SHARED_BYTES = 4
"""The interpreter may have one object for all of so short a value."""


def options(arguments: List[str]) -> Dict[str, Any]:
    """Return the process's options: one JSON object as its only argument."""
    found: Dict[str, Any] = json.loads(arguments[0])
    return found


def environment_problem() -> str:
    """Return why this interpreter cannot judge (no torch, or too old a one), or an empty string."""
    if sys.version_info < OLDEST_PYTHON:
        return f"it is Python {sys.version.split()[0]}, and Warpsmith needs 3.9 or newer there"
    try:
        import torch
    except ImportError as error:
        return f"it cannot import torch ({error})"
    if torch_version() < OLDEST_TORCH:
        return f"its torch is {torch.__version__}, and Warpsmith needs 2.4 or newer"
    return ""


def device_problem(device: str) -> str:
    """Return why this interpreter's torch cannot use a device (``cpu`` or ``cuda:N``), or an empty string."""
    import torch

    if device == "cpu":
        return ""
    if torch.version.cuda is None:
        return f"its torch {torch.__version__} is built without CUDA, and the task is for {device} (--device cpu works)"
    if not torch.cuda.is_available():
        return f"its torch {torch.__version__} (CUDA {torch.version.cuda}) finds no GPU that it can use; is the driver too old?"
    if int(device.partition(":")[2] or 0) >= torch.cuda.device_count():
        return f"its torch sees {torch.cuda.device_count()} GPUs, numbered from 0, and the task is for {device}"
    major, minor = torch.cuda.get_device_capability(device)
    return architecture_problem(f"{major}{minor}", torch.cuda.get_arch_list())


def architecture_problem(sm: str, built_for: List[str]) -> str:
    """Return why a torch that was built for these architectures cannot run on a GPU, or an empty string.

    Args:
        sm: The GPU's compute capability as digits (``90``).
        built_for: What ``torch.cuda.get_arch_list()`` says (``sm_80``, ``compute_90``); empty where it does not say.
    """
    if not built_for or any(_runs_on(int(sm), each) for each in built_for):
        return ""
    return (
        f"its torch has no code for this GPU (sm_{sm}; it has {', '.join(built_for)}), so that every operation would fail "
        "with 'no kernel image is available'; another build of torch has it"
    )


def _runs_on(sm: int, built: str) -> bool:
    """Whether code runs on a GPU: machine code within its major version, PTX on everything newer, ``a`` nowhere else."""
    found = re.fullmatch(r"(sm|compute)_(\d+)([a-z]?)", built)
    if found is None:
        return False
    number = int(found[2])
    if found[3] == "a":
        return number == sm
    return number <= sm and (number // 10 == sm // 10 or (found[1] == "compute" and not found[3]))


def torch_version() -> Tuple[int, int]:
    """Return torch's version as (major, minor)."""
    import torch

    major, minor = torch.__version__.split(".")[:2]
    return int(major), int(minor)


def forget_environment() -> None:
    """Empty this process's environment, and write over what it was: a forked process still has it in its memory.

    The kernel shows the block that a program was started with in ``/proc/self/environ``, whatever is unset later.
    """
    kept = [each for pair in os.environ._data.items() for each in pair]  # type: ignore[attr-defined]
    os.environ.clear()
    for each in kept:
        if len(each) > _SHARED_BYTES:
            ctypes.memset(id(each) + bytes.__basicsize__ - 1, 0, len(each))
    with open("/proc/self/stat", "rb") as file:
        start, end = (int(field) for field in file.read().rpartition(b")")[2].split()[_ENVIRONMENT])
    ctypes.memset(start, 0, end - start)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, so that none is lost."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children_of(pid: int) -> List[int]:
    """Return the direct children of a process, of all its threads; empty when it is gone."""
    found: List[int] = []
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
        for task in tasks:
            with open(f"/proc/{pid}/task/{task}/children") as file:
                found.extend(int(child) for child in file.read().split())
    except OSError:
        pass
    return found


def descendants_of(pid: int) -> List[int]:
    """Return all descendants of a process, nearest first."""
    found: List[int] = []
    waiting = children_of(pid)
    while waiting:
        child = waiting.pop(0)
        found.append(child)
        waiting.extend(children_of(child))
    return found

"""From the launches that a worker's tracer saw to a row for each kernel: time, resources, occupancy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sandbox.verdict import KernelResources, KernelRun

_WARP = 32
_REGISTERS_AT_ONCE = 256
"""Registers are given to a warp in such pieces."""
_MEMORY_AT_ONCE = 128
_PARTS = 4
"""A multiprocessor's registers are divided among its schedulers."""
_MOST_LAUNCHES = 5_000
_LONGEST_NAME = 200


@dataclass(frozen=True)
class Launch:
    """One launch, as the tracer told it; a copy has no geometry."""

    name: str
    us: float
    blocks: int | None = None
    threads: int | None = None
    registers: int | None = None
    shared_bytes: int | None = None


def read_launches(answer: Mapping[str, Any]) -> list[Launch]:
    """Return the launches of a worker's answer; what makes no sense there is no launch."""
    told = answer.get("launches")
    rows = told[:_MOST_LAUNCHES] if isinstance(told, list) else []
    return [launch for row in rows if isinstance(row, dict) if (launch := _launch(row)) is not None]


def kernel_runs(launches: Sequence[Launch], multiprocessor: Mapping[str, int]) -> tuple[KernelRun, ...]:
    """Return a row for each kernel by its time, most first.

    Args:
        launches: Of one call.
        multiprocessor: The most that one holds: ``threads``, ``blocks``, ``registers``, ``shared_bytes`` and
            ``reserved_bytes`` (what the driver keeps of each block's memory); empty where that is not known.
    """
    whole = sum(launch.us for launch in launches) or 1.0
    by_name: dict[str, list[Launch]] = {}
    for launch in launches:
        by_name.setdefault(base_name(launch.name), []).append(launch)
    runs = []
    for name, found in by_name.items():
        longest = max(found, key=lambda launch: launch.us)
        us = sum(launch.us for launch in found)
        run = KernelRun(
            name=name,
            calls=len(found),
            us=us,
            share=us / whole,
            registers=longest.registers,
            shared_bytes=longest.shared_bytes,
            blocks=longest.blocks,
            threads=longest.threads,
            occupancy=occupancy(longest, multiprocessor),
        )
        runs.append(run)
    return tuple(sorted(runs, key=lambda run: -run.us))


def with_spills(runs: Sequence[KernelRun], built: Sequence[KernelResources]) -> tuple[KernelRun, ...]:
    """Return the rows with what the assembler said of spilled registers, for kernels that were built here."""
    spills = {base_name(kernel.name): kernel.spill_bytes for kernel in built}
    return tuple(replace(run, spill_bytes=spills.get(run.name)) for run in runs)


def occupancy(launch: Launch, multiprocessor: Mapping[str, int]) -> float | None:
    """Return warps that fit on a multiprocessor at once over the most it holds; None where the geometry is not known.

    As in NVIDIA's occupancy calculator: blocks are limited by threads, registers, shared memory, and their number.
    """
    wanted = ("threads", "blocks", "registers", "shared_bytes")
    if not launch.threads or launch.registers is None or any(not multiprocessor.get(key) for key in wanted):
        return None
    warps = math.ceil(launch.threads / _WARP)
    most_warps = multiprocessor["threads"] // _WARP
    fits = [multiprocessor["blocks"], most_warps // warps]
    if launch.registers:
        of_warp = _rounded_up(launch.registers * _WARP, _REGISTERS_AT_ONCE)
        fits.append(multiprocessor["registers"] // _PARTS // of_warp * _PARTS // warps)
    of_block = (launch.shared_bytes or 0) + multiprocessor.get("reserved_bytes", 0)
    if of_block:
        fits.append(multiprocessor["shared_bytes"] // _rounded_up(of_block, _MEMORY_AT_ONCE))
    return min(1.0, min(fits) * warps / most_warps)


def base_name(kernel: str) -> str:
    """Return a kernel's name without return type, namespaces, template arguments and parameters."""
    head = kernel.replace("(anonymous namespace)::", "").split("<")[0].split("(")[0].strip()
    if head.startswith(("Memcpy", "Memset")):
        return head
    return head.split(" ")[-1].split("::")[-1] or kernel[:60]


def _rounded_up(value: int, piece: int) -> int:
    return (value + piece - 1) // piece * piece


def _launch(row: Mapping[str, Any]) -> Launch | None:
    name, us = row.get("name"), row.get("us")
    if not isinstance(name, str) or not isinstance(us, int | float) or not 0 <= us < math.inf:
        return None
    counts = {key: row.get(key) for key in ("blocks", "threads", "registers", "shared_bytes")}
    known = {key: value for key, value in counts.items() if isinstance(value, int) and value >= 0}
    return Launch(name[:_LONGEST_NAME], float(us), **known)

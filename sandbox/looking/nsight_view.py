"""How each kernel of a profile used the device: the few figures of hundreds that tell what limits it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sandbox.looking.nsight_csv import Launch

STALLS = {
    "long_scoreboard": "waiting for memory",
    "short_scoreboard": "waiting for shared memory or special functions",
    "mio_throttle": "queue of shared memory and special functions full",
    "lg_throttle": "queue of loads and stores full",
    "barrier": "waiting at barriers",
    "membar": "waiting at fences",
    "math_pipe_throttle": "arithmetic pipe busy",
    "gmma": "waiting for warp-group matrix products",
    "wait": "fixed latencies",
    "no_instruction": "fetching instructions",
    "imc_miss": "fetching constants",
    "branch_resolving": "branches",
    "drain": "last stores",
    "dispatch_stall": "dispatch",
    "tex_throttle": "texture queue full",
    "sleeping": "sleeping",
}
"""Reasons for which a warp does not issue, as ncu names them, and what they mean."""

_STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
_PIPES = {
    "tensor": ("sm__pipe_tensor_cycles_active", "sm__pipe_tensor_cycles_active_v2"),
    "FMA": ("sm__pipe_fma_cycles_active",),
    "ALU": ("sm__pipe_alu_cycles_active",),
    "FP64": ("sm__pipe_fp64_cycles_active",),
    "special functions": ("sm__inst_executed_pipe_xu",),
    "loads and stores": ("sm__inst_executed_pipe_lsu",),
}
_OCCUPANCY_LIMITS = {
    "registers": "launch__occupancy_limit_registers",
    "shared memory": "launch__occupancy_limit_shared_mem",
    "the number of warps in a block": "launch__occupancy_limit_warps",
    "the number of blocks": "launch__occupancy_limit_blocks",
    "barriers": "launch__occupancy_limit_barriers",
}
_SECTOR = "smsp__sass_average_data_bytes_per_sector_mem_global_op_{}.ratio"
_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum"
_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"


@dataclass(frozen=True)
class KernelView:
    """One kernel, all its launches together; per cent are of the device's peak, None is not measured.

    Attributes:
        name: The kernel.
        launches: How often it ran in one call.
        us: Time of all its launches.
        grid, block: Of its longest launch, as are all that follow.
        waves: How often the device is filled with its blocks.
        blocks, processors: Number of blocks, and of multiprocessors.
        dram, read_bytes, written_bytes: Use of the memory.
        l1_hit, l2_hit: Hit rates of the caches.
        l1, l2, sm: Use of the caches and of the multiprocessors.
        pipes: Use of each arithmetic pipe.
        occupancy, possible: Achieved and theoretical occupancy.
        limits: What keeps the theoretical one under 100.
        registers, shared_bytes: Of a thread, and of a block.
        stalls: Cycles an instruction waits for each reason, the longest first.
        load_bytes, store_bytes: Bytes used of the 32 of each sector that global loads and stores move.
        conflicts: Share of the accesses to shared memory that bank conflicts cost, in per cent.
        spills: Requests to memory that spilled registers make.
    """

    name: str
    launches: int
    us: float
    grid: str
    block: str
    waves: float | None = None
    blocks: float | None = None
    processors: float | None = None
    dram: float | None = None
    read_bytes: float | None = None
    written_bytes: float | None = None
    l1_hit: float | None = None
    l2_hit: float | None = None
    l1: float | None = None
    l2: float | None = None
    sm: float | None = None
    pipes: dict[str, float] = field(default_factory=dict)
    occupancy: float | None = None
    possible: float | None = None
    limits: tuple[str, ...] = ()
    registers: float | None = None
    shared_bytes: float | None = None
    stalls: dict[str, float] = field(default_factory=dict)
    load_bytes: float | None = None
    store_bytes: float | None = None
    conflicts: float | None = None
    spills: float | None = None


def view_kernels(launches: Sequence[Launch]) -> list[KernelView]:
    """Put the launches of each kernel together, those that took longest first."""
    grouped: dict[str, list[Launch]] = {}
    for launch in launches:
        grouped.setdefault(launch.name, []).append(launch)
    views = [_view(name, group) for name, group in grouped.items()]
    return sorted(views, key=lambda view: -view.us)


def _view(name: str, group: Sequence[Launch]) -> KernelView:
    longest = max(group, key=lambda launch: launch.us)
    get = longest.get
    elapsed = "avg.pct_of_peak_sustained_elapsed"
    return KernelView(
        name=name,
        launches=len(group),
        us=sum(launch.us for launch in group),
        grid=longest.grid,
        block=longest.block,
        waves=get("launch__waves_per_multiprocessor"),
        blocks=get("launch__grid_size"),
        processors=get("launch__sm_count", "device__attribute_multiprocessor_count"),
        dram=get(f"gpu__dram_throughput.{elapsed}", f"dram__throughput.{elapsed}"),
        read_bytes=get("dram__bytes_read.sum", "dram__bytes_op_read.sum"),
        written_bytes=get("dram__bytes_write.sum", "dram__bytes_op_write.sum"),
        l1_hit=get("l1tex__t_sector_hit_rate.pct"),
        l2_hit=get("lts__t_sector_hit_rate.pct"),
        l1=get(f"l1tex__throughput.{elapsed}", "l1tex__throughput.avg.pct_of_peak_sustained_active"),
        l2=get(f"lts__throughput.{elapsed}"),
        sm=get(f"sm__throughput.{elapsed}"),
        pipes=_pipes(longest),
        occupancy=get("sm__warps_active.avg.pct_of_peak_sustained_active"),
        possible=get("sm__maximum_warps_per_active_cycle_pct"),
        limits=_limits(longest),
        registers=get("launch__registers_per_thread"),
        shared_bytes=_shared(longest),
        stalls=_stalls(longest),
        load_bytes=get(_SECTOR.format("ld")) or None,
        store_bytes=get(_SECTOR.format("st")) or None,
        conflicts=_conflicts(longest),
        spills=get("derived__local_spilling_requests", "smsp__inst_executed_op_local.sum"),
    )


def _pipes(launch: Launch) -> dict[str, float]:
    ends = ("avg.pct_of_peak_sustained_elapsed", "avg.pct_of_peak_sustained_active")
    found = {pipe: launch.get(*(f"{name}.{end}" for end in ends for name in names)) for pipe, names in _PIPES.items()}
    return {pipe: value for pipe, value in found.items() if value is not None}


def _limits(launch: Launch) -> tuple[str, ...]:
    """Return what allows the fewest blocks on a multiprocessor; empty where the occupancy could be full."""
    counts = {what: launch.get(name) for what, name in _OCCUPANCY_LIMITS.items()}
    known = {what: count for what, count in counts.items() if count}
    possible = launch.get("sm__maximum_warps_per_active_cycle_pct")
    if not known or (possible is not None and possible >= 99):
        return ()
    return tuple(what for what, count in known.items() if count == min(known.values()))


def _shared(launch: Launch) -> float | None:
    parts = [launch.get(f"launch__shared_mem_per_block_{kind}") for kind in ("static", "dynamic")]
    return sum(part for part in parts if part is not None) if any(part is not None for part in parts) else None


def _stalls(launch: Launch) -> dict[str, float]:
    found = {name: launch.get(_STALL.format(name)) for name in STALLS}
    known = {name: value for name, value in found.items() if value}
    return dict(sorted(known.items(), key=lambda item: -item[1]))


def _conflicts(launch: Launch) -> float | None:
    conflicts = sum(launch.get(_CONFLICTS.format(way)) or 0.0 for way in ("ld", "st"))
    wavefronts = sum(launch.get(_WAVEFRONTS.format(way)) or 0.0 for way in ("ld", "st"))
    return 100 * conflicts / wavefronts if wavefronts else None

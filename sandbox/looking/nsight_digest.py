"""What a profile of kernels says, in a screen: each kernel's use of the device, and the likeliest thing that limits the first."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from sandbox.looking.nsight_view import STALLS, KernelView

MOST_KERNELS = 3
_SECTOR_BYTES = 32.0


def digest(views: Sequence[KernelView]) -> list[str]:
    """Return the digest, at most 22 lines; the last says the likeliest limiter."""
    total = sum(view.us for view in views)
    count = sum(view.launches for view in views)
    lines = [f"Nsight Compute, one call: {count} kernel launches, {total:.1f} us together (caches cold, clocks free)"]
    for number, view in enumerate(views[:MOST_KERNELS], 1):
        lines += _lines(number, view, total)
    if len(views) > MOST_KERNELS:
        rest = sum(view.us for view in views[MOST_KERNELS:])
        lines.append(f"and {len(views) - MOST_KERNELS} more kernels, {rest:.1f} us together")
    return [*lines, f"LIKELIEST LIMITER: {limiter(views)}"]


def _lines(number: int, view: KernelView, total: float) -> Iterator[str]:
    times = f", {view.launches} launches" if view.launches > 1 else ""
    waves = f", {view.waves:.2g} waves" if view.waves is not None else ""
    share = 100 * view.us / total if total else 0.0
    yield f"{number}. {view.name[:60]}  {view.us:.1f} us ({share:.0f} %){times}, grid {view.grid} block {view.block}{waves}"
    moved = f"{_size(view.read_bytes)} read, {_size(view.written_bytes)} written"
    yield (
        f"   memory   DRAM {_pct(view.dram)} of peak, {moved}; L2 {_pct(view.l2)}, L1 {_pct(view.l1)} of peak; "
        f"hits L2 {_pct(view.l2_hit)}, L1 {_pct(view.l1_hit)}"
    )
    fullest = max(view.pipes.items(), key=lambda item: item[1], default=None)
    pipe = f", fullest pipe {fullest[0]} {_pct(fullest[1])}" if fullest else ""
    yield f"   compute  SM {_pct(view.sm)} of peak, tensor pipe {_pct(view.pipes.get('tensor'))}{pipe}"
    limited = f" (limited by {' and '.join(view.limits)})" if view.limits else ""
    yield (
        f"   warps    occupancy {_pct(view.occupancy)} of {_pct(view.possible)} possible{limited}; "
        f"{_count(view.registers)} registers a thread, {_count(view.shared_bytes)} B shared a block"
    )
    stalls = ", ".join(f"{STALLS[name]} {value:.1f}" for name, value in list(view.stalls.items())[:3])
    yield f"   stalls   {stalls or 'not measured'}{' (cycles an instruction)' if stalls else ''}"
    yield (
        f"   access   bytes used of each 32: loads {_count(view.load_bytes)}, stores {_count(view.store_bytes)}; "
        f"bank conflicts {_pct(view.conflicts)}; spill requests {_count(view.spills)}"
    )


def limiter(views: Sequence[KernelView]) -> str:
    """Return the likeliest limiter of the kernel that takes longest, or of all of them, and what to try: one sentence."""
    total = sum(view.us for view in views)
    count = sum(view.launches for view in views)
    if count >= 4 and total / count < 6:
        return (
            f"launches: {count} kernels of {total / count:.1f} us on average take about as long to start as to run; "
            "fuse them into fewer."
        )
    view = views[0]
    named = "" if len(views) == 1 else f" (of {view.name[:40]})"
    return next(filter(None, (rule(view) for rule in _RULES)), _latency(view)).replace("{of}", named)


def _under_filled(view: KernelView) -> str:
    if not view.blocks or not view.processors or view.blocks >= view.processors:
        return ""
    return (
        f"too few blocks{{of}}: {view.blocks:.0f} on {view.processors:.0f} multiprocessors; divide the work further, "
        "over rows, columns or a split reduction."
    )


def _spilling(view: KernelView) -> str:
    local = view.stalls.get("lg_throttle", 0.0) + view.stalls.get("long_scoreboard", 0.0)
    if not view.spills or local < 2 or (view.dram or 0) >= 80:
        return ""
    return (
        f"register spills{{of}}: {view.spills:.0f} requests go to local memory; use a smaller tile, fewer live values, or "
        "__launch_bounds__ with fewer threads."
    )


def _uncoalesced(view: KernelView) -> str:
    used = [value for value in (view.load_bytes, view.store_bytes) if value is not None]
    worst = min(used, default=_SECTOR_BYTES)
    busiest = max(view.dram or 0.0, view.l2 or 0.0, view.l1 or 0.0)
    if worst > 16 or busiest < 40:
        return ""
    return (
        f"uncoalesced accesses{{of}}: only {worst:.0f} of the 32 bytes of each sector are used; let neighbouring threads "
        "touch neighbouring addresses, or stage through shared memory."
    )


def _memory_bound(view: KernelView) -> str:
    if (view.dram or 0) < 75:
        return ""
    return (
        f"memory bandwidth{{of}}: DRAM runs at {view.dram:.0f} % of its peak; only moving fewer bytes helps: fuse a pass, "
        "read nothing twice, use a smaller type where the class allows it."
    )


def _conflicting(view: KernelView) -> str:
    shared = view.stalls.get("short_scoreboard", 0.0) + view.stalls.get("mio_throttle", 0.0)
    if (view.conflicts or 0) < 20 or (shared < 1 and (view.l1 or 0) < 50):
        return ""
    return (
        f"bank conflicts{{of}}: they cost {view.conflicts:.0f} % of the accesses to shared memory; pad the rows or swizzle "
        "the columns."
    )


def _compute_bound(view: KernelView) -> str:
    fullest = max(view.pipes.items(), key=lambda item: item[1], default=("", 0.0))
    if max(view.sm or 0.0, fullest[1]) < 75:
        return ""
    named = (
        f"the pipe for {fullest[0]} is {fullest[1]:.0f} % busy" if fullest[1] >= 50 else f"SM {view.sm:.0f} % of peak"
    )
    return (
        f"compute{{of}}: {named}; save instructions: algebra, cheaper functions, wider loads, tensor cores for matrix work "
        "where the class allows it."
    )


def _cache_bound(view: KernelView) -> str:
    name, value = max((("L2", view.l2 or 0.0), ("L1", view.l1 or 0.0)), key=lambda item: item[1])
    if value < 75:
        return ""
    return (
        f"{name} bandwidth{{of}}: it runs at {value:.0f} % of its peak; keep values in registers or shared memory instead of "
        "loading them again, and load 16 bytes at a time."
    )


def _barriers(view: KernelView) -> str:
    first = next(iter(view.stalls), "")
    if first not in ("barrier", "membar") or view.stalls[first] < 2:
        return ""
    return (
        f"barriers{{of}}: warps wait {view.stalls[first]:.1f} cycles an instruction at them; use fewer, smaller blocks, or "
        "shuffles within a warp."
    )


def _tail(view: KernelView) -> str:
    if view.waves is None or not 1 < view.waves < 6 or math.ceil(view.waves) / view.waves < 1.25:
        return ""
    return (
        f"the tail{{of}}: {view.waves:.2g} waves of blocks leave the device partly idle in the last; choose a tile or grid "
        "that fills whole waves, or let each block loop over work."
    )


def _latency(view: KernelView) -> str:
    first = next(iter(view.stalls), "")
    waiting = f"warps mostly wait ({STALLS[first]})" if first else "no unit is busy"
    if view.occupancy is None:
        return f"latency{{of}}: {waiting}; put more independent work in flight."
    if view.limits and (view.possible or 100) < 60:
        held = f"{view.possible:.0f} % by {' and '.join(view.limits)}"
        way = f"occupancy is held to {held}: use less of that, or more work a thread"
    elif view.possible and view.occupancy < 0.6 * view.possible:
        way = f"only {view.occupancy:.0f} of {view.possible:.0f} % occupancy is reached: more blocks, or an even share of work"
    else:
        way = "put more loads in flight in each thread: unroll, load 16 bytes at a time, prefetch the next tile"
    return f"latency{{of}}: {waiting}, and neither memory nor compute is near its peak; {way}."


_RULES = (
    _under_filled,
    _spilling,
    _uncoalesced,
    _memory_bound,
    _conflicting,
    _compute_bound,
    _cache_bound,
    _barriers,
    _tail,
)


def _pct(value: float | None) -> str:
    return "?" if value is None else f"{value:.0f} %"


def _count(value: float | None) -> str:
    return "?" if value is None else f"{value:.0f}"


def _size(value: float | None) -> str:
    if value is None:
        return "?"
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= size:
            return f"{value / size:.1f} {unit}"
    return f"{value:.0f} B"

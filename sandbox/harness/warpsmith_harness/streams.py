"""Finds work on other streams that the caller's stream does not order; ``gate`` finds what reads too early.

When something happened proves nothing: on an idle device what nobody waits for is finished before anybody can look. Two
things hold on every machine, at every moment. Either the host waited for the stream after the work was queued, which the
tracer's ``cuda_sync`` records say. Or the call can be captured into a CUDA graph: the driver refuses to end a capture
while work of another stream is not joined, and what never waited for the caller's stream is not in the graph.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch

from warpsmith_harness.graphs import warm_up
from warpsmith_harness.problems import summary
from warpsmith_harness.trace import DEVICE_WORK, Activity, device_activity, trace_file
from warpsmith_harness.watch import Finding, finding

_WHOLE_DEVICE = ("Context Sync", "Device Sync")
_UNJOINED = re.compile(r"unjoined", re.I)
_ANY = -1

CAPTURE_PROVED = "joined-streams"
"""The rule of a label: order was proven by a capture, which convinces only of a call that does not look for one."""

Trace = Dict[str, Any]
_cuda: Any = torch.cuda


@dataclass(frozen=True)
class Work:
    """A kernel or copy: the stream it ran on, and the number of the call that queued it; numbers ascend."""

    name: str
    stream: int
    queued: int


@dataclass(frozen=True)
class Timeline:
    """What a trace holds between the judge's two markers.

    Attributes:
        home: The caller's stream.
        works: The call's kernels and copies.
        waits: Which stream the host waited for, and the number of that call; -1 is every stream.
    """

    home: int
    works: Tuple[Work, ...]
    waits: Tuple[Tuple[int, int], ...]

    def loose(self) -> List[Work]:
        """Return the work on other streams that the host did not wait for before the call returned."""
        return [
            work
            for work in self.works
            if work.stream != self.home
            and not any(stream in (work.stream, _ANY) and at > work.queued for stream, at in self.waits)
        ]


def timeline(trace: Trace) -> Optional[Timeline]:
    """Read a trace of the Chrome form; None where it does not hold both markers, the first work and the last."""
    works: List[Work] = []
    waits: List[Tuple[int, int]] = []
    for event in trace.get("traceEvents", []):
        kind, details = str(event.get("cat", "")).lower(), event.get("args", {})
        if "correlation" not in details:
            continue
        number, what = int(details["correlation"]), str(details.get("cuda_sync_kind", event["name"]))
        if kind in DEVICE_WORK:
            works.append(Work(str(event["name"]), int(details["stream"]), number))
        elif kind == "cuda_sync" and what.startswith(_WHOLE_DEVICE):
            waits.append((_ANY, number))
        elif kind == "cuda_sync" and what.startswith("Stream Sync"):
            waits.append((int(details["stream"]), number))
    works.sort(key=lambda work: work.queued)
    if len(works) < 2 or (works[0].name, works[0].stream) != (works[-1].name, works[-1].stream):
        return None
    start, *own, end = works
    return Timeline(start.stream, tuple(own), tuple(wait for wait in waits if wait[1] < end.queued))


def check_streams(
    call: Callable[[], object], device: torch.device, seen: Sequence[Activity], *, of_library: Callable[[str], bool]
) -> List[Finding]:
    """Return what is to be said of a call whose work lies on other streams too; nothing where it is all on one.

    Args:
        call: One call of the candidate.
        device: Where it runs.
        seen: What a call put on the device, the marker on the caller's stream first; see ``trace.device_activity``.
        of_library: Tells whether a kernel is one of a library that the candidate may call.
    """
    if all(activity.stream == seen[0].stream for activity in seen):
        return []
    told = timeline(trace_file(lambda: _between_markers(call, device), device, waits=True))
    if told is None:
        return [finding("no-stream-trace", "label", "the profiler does not say which streams the call used")]
    loose = told.loose()
    if not loose:
        return []
    queued, why = _captured(call, device)
    return order_findings(loose, min(len(seen) - 1, len(told.works)), queued, why, of_library)


def order_findings(
    loose: Sequence[Work], works: int, captured: Optional[int], why: str, of_library: Callable[[str], bool]
) -> List[Finding]:
    """Return what is to be said of work on other streams that the host did not wait for.

    Args:
        loose: That work.
        works: Kernels and copies of a call.
        captured: As many of them as a CUDA graph of the call held, or None where there could be none.
        why: The reason for that.
        of_library: As in ``check_streams``: such a library joins its own streams, whether or not a call can be captured.
    """
    named = ", ".join(sorted({work.name[:80] for work in loose}))
    if captured is None and _UNJOINED.search(why):
        evidence = f"nothing makes the caller's stream wait for work on another stream: {named}"
        return [finding("late-write", "reject", evidence)]
    if captured is None:
        severity = "label" if all(of_library(work.name) for work in loose) else "reject"
        evidence = (
            f"it cannot be told that the caller's stream waits for {named}, on another stream: the host does not wait for "
            f"it, and the call cannot be captured into a CUDA graph, where it would show ({why})"
        )
        return [finding("unordered-stream", severity, evidence)]
    if captured < works:
        evidence = f"work on another stream does not wait for the caller's stream; among {named}"
        return [finding("early-read", "reject", evidence)]
    evidence = f"a CUDA graph of the call shows that the caller's stream waits for {named}, on another stream"
    return [finding(CAPTURE_PROVED, "label", evidence)]


def _between_markers(call: Callable[[], object], device: torch.device) -> None:
    marker = torch.empty(64, dtype=torch.uint8, device=device)
    marker.fill_(1)
    call()
    marker.fill_(1)


def _captured(call: Callable[[], object], device: torch.device) -> Tuple[Optional[int], str]:
    """Return how many kernels and copies a CUDA graph of the call holds, or None and why there can be none."""
    graph, pool = _cuda.CUDAGraph(), _cuda.graph_pool_handle()
    try:
        with torch.no_grad(), _cuda.stream(_cuda.current_stream(device)):  # puts back what a failed capture leaves
            warm_up(call, (), {})
            with _cuda.graph(graph, pool=pool, capture_error_mode="relaxed"):
                call()
    except Exception as error:  # whatever the call or the capture raises is the reason
        _end_allocating(device, pool)
        return None, summary(error)
    return max(0, len(device_activity(graph.replay, device)) - 1), ""


def _end_allocating(device: torch.device, pool: Any) -> None:
    """Tell the allocator that a failed capture is over, which torch leaves out; else it would refuse to give memory back."""
    with contextlib.suppress(AttributeError, RuntimeError):
        torch._C._cuda_endAllocateToPool(device.index or 0, pool)

"""Finds work of a call that its caller's stream does not order: begun before the inputs are there, or waited for by nobody.

Nothing here depends on when anything happened. The tracer lists what was queued, where, in which order, and which stream
waited for which event (``cuda_sync`` records, with the call that recorded the event): what a chain of these connects to
the caller's stream is ordered on every machine, at every moment, and what none connects is right by luck at most.

Before each call the judge's own work on a stream of its own, once joined and once not, shows that the tracer says what is
read here; where it does not, nothing is said of the call but that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, FrozenSet, List, Optional, Sequence, Tuple

import torch

from warpsmith_harness.watch import Finding, finding

_DEVICE_WORK = ("kernel", "gpu_memcpy", "gpu_memset")
_GRAPH_LAUNCHES = ("cudaGraphLaunch", "cuGraphLaunch")
_UNKNOWN = -1
_OWN_PRIORITY = -1
_OWN_WORKS = 5
_TRIES = 3

Trace = Dict[str, Any]
_cuda: Any = torch.cuda


@dataclass(frozen=True)
class Work:
    """A kernel or copy: the stream it ran on, and the number of the call that queued it; numbers ascend."""

    name: str
    stream: int
    queued: int


@dataclass(frozen=True)
class Wait:
    """A stream (or the host, for which ``stream`` is None) waits for what ``on`` had been given when ``recorded`` was called.

    ``on`` is None where all streams of the device are waited for.
    """

    stream: Optional[int]
    at: int
    on: Optional[int]
    recorded: int


@dataclass(frozen=True)
class Timeline:
    """What one trace holds, in the order of the calls that queued it; ``graphs`` are the numbers of launches of graphs."""

    works: Tuple[Work, ...]
    waits: Tuple[Wait, ...]
    graphs: FrozenSet[int]

    def ends_before(self, stream: int, queued: int, home: int, end: int) -> bool:
        """Tell whether what was queued on a stream is done for whoever queues more on ``home`` after ``end``."""
        return self._reaches(stream, queued, home, end, frozenset())

    def begins_after(self, stream: int, queued: int, home: int, start: int) -> bool:
        """Tell whether what was queued on a stream begins after all that ``home`` had been given at ``start``."""
        return self._comes_from(stream, queued, home, start, frozenset())

    def _reaches(self, stream: int, queued: int, home: int, end: int, seen: FrozenSet[int]) -> bool:
        if stream == home:
            return queued < end
        for wait in self.waits:
            if not (wait.on in (stream, None) and queued < wait.recorded and wait.at < end):
                continue
            if wait.stream is None:
                return True
            if wait.at not in seen and self._reaches(wait.stream, wait.at, home, end, seen | {wait.at}):
                return True
        return False

    def _comes_from(self, stream: int, queued: int, home: int, start: int, seen: FrozenSet[int]) -> bool:
        if stream == home:
            return queued > start
        for wait in self.waits:
            if not (wait.stream in (stream, None) and start < wait.at < queued):
                continue
            if wait.on in (home, None) and wait.recorded > start:
                return True
            on, new = wait.on, wait.at not in seen
            if on is not None and new and self._comes_from(on, wait.recorded, home, start, seen | {wait.at}):
                return True
        return False


def timeline(trace: Trace) -> Timeline:
    """Read a trace of the Chrome form."""
    works: List[Work] = []
    waits: List[Wait] = []
    graphs = set()
    for event in trace.get("traceEvents", []):
        kind, details = str(event.get("cat", "")).lower(), event.get("args", {})
        if "correlation" not in details:
            continue
        number = int(details["correlation"])
        if kind in _DEVICE_WORK:
            works.append(Work(str(event["name"]), int(details["stream"]), number))
        elif kind == "cuda_sync":
            waits += _waits(str(details.get("cuda_sync_kind", event["name"])), number, details)
        elif str(event["name"]).startswith(_GRAPH_LAUNCHES):
            graphs.add(number)
    works.sort(key=lambda work: work.queued)
    return Timeline(tuple(works), tuple(waits), frozenset(graphs))


def _waits(kind: str, number: int, details: Dict[str, Any]) -> List[Wait]:
    """Return what a record of synchronisation says; one of an event that the trace does not hold says nothing."""
    if kind.startswith(("Context Sync", "Device Sync")):
        return [Wait(None, number, None, number)]
    if kind.startswith("Stream Sync"):
        return [Wait(None, number, int(details["stream"]), number)]
    on = int(details.get("wait_on_stream", _UNKNOWN))
    recorded = int(details.get("wait_on_cuda_event_record_corr_id", _UNKNOWN))
    if on == _UNKNOWN or not _UNKNOWN < recorded < number:
        return []
    return [Wait(None if kind.startswith("Event Sync") else int(details["stream"]), number, on, recorded)]


@dataclass(frozen=True)
class Frame:
    """Where a call lies in a timeline: between two of the judge's own kernels on the caller's stream."""

    home: int
    start: int
    end: int


def framed(lines: Timeline) -> Optional[Frame]:
    """Return where the call lies, or None where the tracer does not say what is read here.

    The judge's own work comes first: a kernel on the caller's stream, one forked from it and joined, one on the caller's
    stream again, one forked and not joined yet, and the kernel that the call comes behind.
    """
    if len(lines.works) <= _OWN_WORKS:
        return None
    first, joined, between, loose, start = lines.works[:_OWN_WORKS]
    ends = [work for work in lines.works[_OWN_WORKS:] if work.stream == first.stream and work.name == first.name]
    if (
        not ends
        or not first.stream == between.stream == start.stream
        or not joined.stream == loose.stream != first.stream
    ):
        return None
    home, side = first.stream, joined.stream
    if not (
        lines.begins_after(side, joined.queued, home, first.queued - 1)
        and lines.ends_before(side, joined.queued, home, between.queued)
        and lines.begins_after(side, loose.queued, home, between.queued - 1)
        and not lines.ends_before(side, loose.queued, home, start.queued)
    ):
        return None
    return Frame(home, start.queued, ends[-1].queued)


def strays(lines: Timeline, frame: Frame) -> Tuple[List[Work], List[Work], List[Work]]:
    """Return the call's works that begin before the caller's stream comes to it, those nobody waits for, and the unknown.

    The kernels of one launch of a graph hang together: the launch is ordered if one of them is, and unknown if none of
    their streams is any that the caller or the candidate has anything to do with.
    """
    early: List[Work] = []
    late: List[Work] = []
    unknown: List[Work] = []
    used = {frame.home, *(wait.stream for wait in lines.waits), *(wait.on for wait in lines.waits)}
    for group in _groups(lines, frame):
        if group[0].queued in lines.graphs and used.isdisjoint(work.stream for work in group):
            unknown.append(group[0])
            continue
        if not any(lines.begins_after(w.stream, w.queued, frame.home, frame.start) for w in group):
            early.append(group[0])
        if not any(lines.ends_before(w.stream, w.queued, frame.home, frame.end) for w in group):
            late.append(group[0])
    return early, late, unknown


def _groups(lines: Timeline, frame: Frame) -> List[List[Work]]:
    found: List[List[Work]] = []
    graphs: Dict[int, List[Work]] = {}
    for work in lines.works:
        if work.queued <= frame.start or work.queued == frame.end:
            continue
        if work.queued in graphs:
            graphs[work.queued].append(work)
            continue
        found.append([work])
        if work.queued in lines.graphs:
            graphs[work.queued] = found[-1]
    return found


def stray_findings(lines: Timeline) -> List[Finding]:
    """Return what is to be said of a traced call: work that is not ordered, or that it cannot be told."""
    frame = framed(lines)
    if frame is None:
        return [finding("no-stream-trace", "label", "the profiler does not say which stream waits for which")]
    early, late, unknown = strays(lines, frame)
    found = []
    if unknown:
        evidence = f"it cannot be told on whose stream a graph was launched: {_named(unknown)}"
        found.append(finding("side-stream", "label", evidence))
    if late:
        evidence = f"nothing makes the caller's stream wait for {_named(late)}, queued on another stream"
        found.append(finding("late-write", "reject", evidence))
    if early:
        evidence = f"{_named(early)}, queued on another stream, does not wait for the caller's stream"
        found.append(finding("early-read", "reject", evidence))
    return found


def _named(works: Sequence[Work]) -> str:
    return ", ".join(sorted({work.name[:80] for work in works}))


def check_streams(call: Callable[[], object], device: torch.device, trace: Callable[..., Trace]) -> List[Finding]:
    """Trace a call between the judge's own work, and return what is to be said of its streams.

    Args:
        call: One call of the candidate.
        device: Where it runs.
        trace: Returns the trace of a function's call on a device, with synchronisation; see ``trace.trace_file``.
    """
    found: List[Finding] = []
    for _ in range(_TRIES):
        found = stray_findings(timeline(trace(lambda: _between_markers(call, device), device, waits=True)))
        if not any(each["rule"] == "no-stream-trace" for each in found):
            return found
    return found


def _between_markers(call: Callable[[], object], device: torch.device) -> None:
    """Make the call behind the judge's own work, as ``framed`` looks for it, and before its last kernel."""
    marker = torch.empty(64, dtype=torch.uint8, device=device)
    home, side = _cuda.current_stream(device), _cuda.Stream(device, priority=_OWN_PRIORITY)
    for joined in (True, False):
        marker.fill_(1)
        side.wait_stream(home)
        with _cuda.stream(side):
            marker.fill_(1)
        if joined:
            home.wait_stream(side)
    marker.fill_(1)
    home.wait_stream(side)
    call()
    marker.fill_(1)

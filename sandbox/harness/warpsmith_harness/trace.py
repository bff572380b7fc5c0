"""Lists what one call of the candidate runs on the GPU, with the shape of each launch, and says whose kernels they are."""

from __future__ import annotations

import ctypes
import json
import math
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch
from torch._C._profiler import _ExperimentalConfig
from torch.autograd import profiler

from warpsmith_harness.transport import TransportError, cuda_runtime
from warpsmith_harness.watch import Finding, finding

_ARRANGING = re.compile(r"Memcpy|Memset|FillFunctor|direct_copy_kernel|copy_device_to_device|LoadWithCast")
_OF_TORCH = re.compile(
    r"at::native|at::cuda|at_cuda_detail|at::sparse|c10::|triton_|torch::|pytorch_flash|fmha_|flash_fwd"
)
_OF_LIBRARY = {
    "cublas": re.compile(
        r"cublas|gemm|gemv|gemmk1|nvjet|cutlass|xmma|splitK|scal_kernel|dot_kernel|reduce_1Block", re.I
    ),
    "cudnn": re.compile(r"cudnn|conv|xmma|cutlass|fprop|dgrad|wgrad|winograd|nchw|nhwc|implicit|_dw|gemm|nvjet", re.I),
}
_LIBRARY_NAMES = {"cublas": "cuBLAS", "cudnn": "cuDNN"}
_NEGLIGIBLE = 0.01
_TRIES = 2

DEVICE_WORK = ("kernel", "gpu_memcpy", "gpu_memset")
"""Categories of a trace's events that are the device's own work."""
_ATTRIBUTES = {"threads": 39, "shared_bytes": 81, "registers": 82, "blocks": 106, "reserved_bytes": 111}
"""``cudaDeviceAttr`` (driver_types.h): the most a multiprocessor holds, and what the driver keeps of a block's memory."""

_profile: Any = profiler.profile


@dataclass(frozen=True)
class Activity:
    """One thing the device did: a kernel or a copy, on which stream, for how long."""

    name: str
    stream: int
    us: float


@dataclass(frozen=True)
class Launch:
    """One kernel or copy of a call, with its geometry where the tracer gives it: blocks, and what each takes."""

    name: str
    us: float
    blocks: Optional[int] = None
    threads: Optional[int] = None
    registers: Optional[int] = None
    shared_bytes: Optional[int] = None


def device_activity(call: Callable[[], object], device: torch.device) -> List[Activity]:
    """Return what the device does in one call, in order; the first entry is a marker on the current stream.

    A process's first trace can lose what it should hold, so one with the marker alone goes before it. Empty where the
    profiler does not even see the marker.
    """
    marker = torch.empty(64, dtype=torch.uint8, device=device)
    _trace(lambda: marker.fill_(1), device)

    def marked() -> None:
        marker.fill_(1)
        call()

    for _ in range(_TRIES):
        found = _trace(marked, device)
        # What does not wait for the caller's stream can begin before the marker does.
        at = next((index for index, each in enumerate(found) if _ARRANGING.search(each.name)), None)
        if at is not None:
            return [found[at], *found[:at], *found[at + 1 :]]
    return []


def launches(call: Callable[[], object], device: torch.device) -> List[Launch]:
    """Return the launches of one call, in order; empty where the profiler sees nothing.

    Only the tracer's own file holds the geometry, so it is written and read. See ``device_activity`` for the marker.
    """
    marker = torch.empty(64, dtype=torch.uint8, device=device)
    _trace(lambda: marker.fill_(1), device)

    def marked() -> None:
        marker.fill_(1)
        call()

    for _ in range(_TRIES):
        found = launches_in(trace_file(marked, device))
        if found and _ARRANGING.search(found[0].name):
            return found[1:]
    return []


def launches_in(trace: Dict[str, Any]) -> List[Launch]:
    """Return the device's work in a trace of the Chrome form, in order of time."""
    events = [event for event in trace.get("traceEvents", []) if str(event.get("cat", "")).lower() in DEVICE_WORK]
    events.sort(key=lambda event: float(event["ts"]))
    return [_launch(event) for event in events]


def _launch(event: Dict[str, Any]) -> Launch:
    details = event.get("args", {})
    blocks, threads = (math.prod(details[key]) if details.get(key) else None for key in ("grid", "block"))
    registers, shared = (details.get(key) for key in ("registers per thread", "shared memory"))
    return Launch(str(event["name"]), float(event["dur"]), blocks, threads, registers, shared)


def multiprocessor(device: str) -> Dict[str, int]:
    """Return the most that one multiprocessor of a device holds, by the names of ``_ATTRIBUTES`` that it tells."""
    found: Dict[str, int] = {}
    index, value = torch.device(device).index or 0, ctypes.c_int()
    try:
        ask = cuda_runtime().cudaDeviceGetAttribute
    except TransportError:
        return found
    for name, number in _ATTRIBUTES.items():
        if ask(ctypes.byref(value), ctypes.c_int(number), ctypes.c_int(index)) == 0:
            found[name] = value.value
    return found


def ownership(
    activities: Sequence[Activity], manifest: Optional[Dict[str, Any]], policy: str, jitted: Sequence[str] = ()
) -> List[Finding]:
    """Return what is to be said about a call's kernels.

    Args:
        activities: As ``device_activity`` returns them.
        manifest: The candidate's built library, or None where it brings its own extension.
        policy: ``own-kernels`` or ``library-ok``.
        jitted: The names of its Triton kernels, which are the names that run.
    """
    if not activities:
        return [finding("no-trace", "label", "the profiler saw nothing of this call, so nobody owns its device time")]
    stream = activities[0].stream
    ran = [activity for activity in activities[1:] if not _ARRANGING.search(activity.name)]
    if not ran:
        return [finding("no-launch", "reject", "a call of the candidate ran no kernel on the device")]
    found = _foreign([activity for activity in ran if activity.name not in jitted], manifest, policy, _total(ran))
    aside = sorted({activity.name[:80] for activity in ran if activity.stream != stream})
    if aside:
        found.append(finding("side-stream", "label", f"not on the current stream: {', '.join(aside)}"))
    return found


def of_library(name: str, manifest: Optional[Dict[str, Any]]) -> bool:
    """Tell whether a kernel looks like one of a library, of those that the candidate names where it has a manifest."""
    if manifest is None:
        return any(pattern.search(name) for pattern in _OF_LIBRARY.values())
    return bool(_library(name, manifest))


def _total(ran: Sequence[Activity]) -> float:
    return sum(activity.us for activity in ran) or 1.0


def _foreign(ran: Sequence[Activity], manifest: Optional[Dict[str, Any]], policy: str, total: float) -> List[Finding]:
    """Say whose the kernels are that are not the candidate's, and how much of the device time they have."""
    found = []
    libraries = [activity for activity in ran if _library(activity.name, manifest)]
    if libraries:
        share, named = _shares(libraries, total)
        whose = " and ".join(sorted({_LIBRARY_NAMES[_library(each.name, manifest)] for each in libraries}))
        evidence = f"{share:.0%} of the device time is {whose}'s, which the policy {policy} allows: {named}"
        found.append(finding("library", "label", evidence))
    others = [activity for activity in ran if not _is_own(activity.name, manifest)]
    if others:
        share, named = _shares(others, total)
        evidence = f"{share:.0%} of the device time belongs to kernels that are not the candidate's: {named}"
        rejected = policy == "own-kernels" and share > _NEGLIGIBLE
        found.append(finding("delegation", "reject" if rejected else "label", evidence))
    return found


def _shares(ran: Sequence[Activity], total: float) -> Tuple[float, str]:
    """Return the share of the device time, and the kernels that take most of it."""
    each: Dict[str, float] = {}
    for activity in ran:
        each[activity.name] = each.get(activity.name, 0.0) + activity.us
    most = sorted(each.items(), key=lambda item: -item[1])[:5]
    return sum(each.values()) / total, ", ".join(f"{name[:100]} ({us:.1f} us)" for name, us in most)


def _is_own(name: str, manifest: Optional[Dict[str, Any]]) -> bool:
    """Tell whether a kernel is the candidate's, or a library's that it may use."""
    if _OF_TORCH.search(name):
        return False
    if manifest is None:
        return not of_library(name, manifest)
    return _is_built(name, manifest) or of_library(name, manifest)


def _is_built(name: str, manifest: Dict[str, Any]) -> bool:
    kernels = manifest["kernels"]
    if any(name in (kernel["demangled"], kernel["mangled"]) for kernel in kernels):
        return True
    return _base_name(name) in {kernel["base"] for kernel in kernels}


def _library(name: str, manifest: Optional[Dict[str, Any]]) -> str:
    """Return which of the libraries that the candidate names a kernel belongs to, or an empty text."""
    if manifest is None or _OF_TORCH.search(name) or _is_built(name, manifest):
        return ""
    named = [library.lower() for library in manifest["libraries"]]
    allowed = ["cublas" if library.startswith("cublas") else library for library in named]
    return next((each for each in allowed if each in _OF_LIBRARY and _OF_LIBRARY[each].search(name)), "")


def _base_name(kernel: str) -> str:
    """Return a kernel's name without return type, template arguments and parameters."""
    head = kernel.replace("(anonymous namespace)", "").split("<")[0].split("(")[0].strip()
    return head.split(" ")[-1].split("::")[-1]


def _trace(call: Callable[[], object], device: torch.device) -> List[Activity]:
    torch.cuda.synchronize(device)
    # torch.profiler would import torch's compiler first, which takes seconds.
    with _profile(use_cpu=False, use_device="cuda", use_kineto=True) as traced:
        call()
        torch.cuda.synchronize(device)
    events = [event for event in traced.kineto_results.events() if event.device_type().name == "CUDA"]
    events.sort(key=_start)
    return [Activity(event.name(), event.device_resource_id(), _microseconds(event)) for event in events]


def trace_file(call: Callable[[], object], device: torch.device, *, waits: bool = False) -> Dict[str, Any]:
    """Return the trace of a call in the Chrome form; ``waits`` adds who waits for which event, stream or device."""
    more = {"experimental_config": _ExperimentalConfig(enable_cuda_sync_events=True)} if waits else {}
    torch.cuda.synchronize(device)
    with _profile(use_cpu=False, use_device="cuda", use_kineto=True, **more) as traced:
        call()
        torch.cuda.synchronize(device)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        traced.export_chrome_trace(str(file))
        read: Dict[str, Any] = json.loads(file.read_text(errors="replace"))
    return read


def _start(event: Any) -> float:
    return float(event.start_ns() if hasattr(event, "start_ns") else event.start_us())


def _microseconds(event: Any) -> float:
    return event.duration_ns() / 1000 if hasattr(event, "duration_ns") else float(event.duration_us())

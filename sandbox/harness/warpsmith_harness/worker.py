"""Runs the candidate: one process for each placement, isolated, and trusted with nothing.

It gets inputs and state from shared memory, calls the candidate, and puts the outputs back. Whatever it says of itself
is checked elsewhere; whatever it does to itself ends with it.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, cast

import torch
from torch import nn

from warpsmith_harness import isolate, kernels, load, startup, values
from warpsmith_harness.candidate import copy_state, load_candidate, state
from warpsmith_harness.load import LoadedTask
from warpsmith_harness.placement import time_side
from warpsmith_harness.problems import CandidateProblem, place, summary
from warpsmith_harness.protocol import Channel, ChannelClosed, Message
from warpsmith_harness.questions import same_bits
from warpsmith_harness.threads import all_threads
from warpsmith_harness.timing import Arena, Stopwatch, Turn, make_stopwatch
from warpsmith_harness.trace import device_activity, launches, ownership
from warpsmith_harness.transport import (
    Region,
    TransportError,
    bytes_needed,
    cuda_runtime,
    describe,
    open_region,
    pack,
    unpack,
)
from warpsmith_harness.watch import Checksums, Finding, HeldOutputs, OperatorWatch, call_watched, delegation, mutation

_HELD_BYTES = 512 * 1024 * 1024
_REPEATS = 2


class Worker:
    """Answers the parent's requests, one at a time; see the method of each.

    Args:
        channel: To the parent.
        task: The loaded task; its reference is never built here.
    """

    def __init__(self, channel: Channel, task: LoadedTask) -> None:
        self._channel = channel
        self._task = task
        self._candidate: nn.Module = nn.Identity()
        self._folder = Path()
        self._manifest: Optional[Dict[str, Any]] = None
        self._regions: List[Region] = []
        self._held = HeldOutputs(_HELD_BYTES)
        self._arena: Optional[Arena] = None
        self._stopwatch: Optional[Stopwatch] = None
        self._threads = 1
        self._operations: Dict[str, Callable[[Message], Message]] = {
            "load": self._load,
            "answer": self._answer,
            "place": self._place,
            "time": self._time,
            "launches": self._launches,
        }

    def serve(self) -> int:
        """Answer until the parent is gone. What the candidate raises becomes the answer."""
        while True:
            try:
                request, descriptors = self._channel.receive_with_descriptors()
            except ChannelClosed:
                return 0
            try:
                self._open(request.get("regions", []), descriptors)
                answer = self._operations[request["op"]](request)
            except Exception as error:
                answer = {"problem": _describe(error, self._folder)}
            self._channel.send(answer)

    def _load(self, request: Message) -> Message:
        """Bind the kernels and build the candidate from ``folder``, on ``threads`` threads."""
        torch.set_num_threads(request["threads"])
        if self._task.device.type == "cuda":
            torch.cuda.set_device(self._task.device)
            torch.zeros(1, device=self._task.device)
            cuda_runtime()  # found now: a kernel library may bring another one
        self._folder = Path(request["folder"])
        self._manifest = request["manifest"]
        bound = None if self._manifest is None else kernels.bind(self._manifest, request["kernels"])
        self._candidate = load_candidate(self._task, request["folder"], bound)
        self._threads = torch.get_num_threads()
        torch.set_num_threads(1)
        return {"threads": self._threads}

    def _answer(self, request: Message) -> Message:
        """Answer one question, watched as ``watch`` says.

        ``operators`` counts what torch computes, ``device`` lists the kernels of another call, ``repeat`` answers the last
        of three calls on the same inputs and notes whether they differ.
        """
        tensors = unpack(request["inputs"], self._incoming, self._task.device)
        self._set_state(request["state"])
        args, kwargs = values.rebuild(request["structure"], tensors)
        own = state(self._candidate)
        given = {**{f"input {i}": tensor for i, tensor in enumerate(tensors)}, **own}
        touched = [*(f"input {i}" for i in request["touched_inputs"]), *request["touched_state"]]
        sums = Checksums({name: tensor for name, tensor in given.items() if name not in touched})
        watch = OperatorWatch() if request["watch"] == "operators" else None
        with torch.no_grad():
            outputs, structure, found = call_watched(
                lambda: self._call(args, kwargs), self._task.device, request["sizes"], watch
            )
            found += mutation(sums.changed()) + self._held.findings()
            found += delegation(watch.computed if watch else {}, self._task.spec["policy"])
            self._held.hold(outputs, own.values())
            notes: List[str] = []
            if request["watch"] == "repeat" and not touched:
                outputs, notes = self._repeat(args, kwargs, outputs)
            answer = self._send(structure, outputs, [given[name] for name in touched])
            if request["watch"] == "device":
                found += self._device_findings(args, kwargs)
        return {**answer, "findings": found, "notes": notes}

    def _repeat(
        self, args: Sequence[Any], kwargs: Dict[str, Any], first: List[torch.Tensor]
    ) -> Tuple[List[torch.Tensor], List[str]]:
        """Call twice more; return the last outputs, and a note where the three do not agree bit for bit."""
        runs = [values.flatten(self._call(args, kwargs))[0] for _ in range(_REPEATS)]
        for outputs in runs:
            if len(outputs) != len(first) or not all(map(_same, outputs, first)):
                return outputs, ["Calls on the same inputs do not agree bit for bit; the last of three is compared."]
        return runs[-1], []

    def _call(self, args: Sequence[Any], kwargs: Dict[str, Any]) -> Any:
        """Call the candidate with all threads; what surrounds the call needs one, and no pool that spins behind it."""
        with all_threads(self._threads):
            return self._candidate(*args, **kwargs)

    def _device_findings(self, args: Sequence[Any], kwargs: Dict[str, Any]) -> List[Finding]:
        activities = device_activity(lambda: self._candidate(*args, **kwargs), self._task.device)
        return ownership(activities, self._manifest, self._task.spec["policy"])

    def _place(self, request: Message) -> Message:
        """Take the placement's drawn inputs and its state into buffers of this process."""
        bases = [unpack(notes, self._incoming, self._task.device) for notes in request["bases"]]
        self._set_state(request["state"])
        self._arena = Arena(bases, request["structure"], request["slots"], request["rollable"])
        self._stopwatch = make_stopwatch(self._task.device)
        return {}

    def _time(self, request: Message) -> Message:
        """Time a batch; see ``placement.time_side``. The output of the call numbered ``keep`` is sent along."""
        if self._arena is None or self._stopwatch is None:
            raise TransportError("there are no buffers to time on")
        with all_threads(self._threads):
            answer, kept = time_side(self._stopwatch, self._candidate, self._arena, request)
        if kept is None:
            return answer
        outputs, structure = values.flatten(kept)
        return {**answer, **self._send(structure, outputs, [])}

    def _launches(self, request: Message) -> Message:  # noqa: ARG002  # every operation takes its request
        """Return what one call puts on the device, as ``trace.Launch`` holds it."""
        if self._arena is None:
            raise TransportError("there are no buffers to call on")
        args, kwargs = self._arena.fill(Turn(0, 0, 0.0))
        with torch.no_grad():
            found = launches(lambda: self._call(args, kwargs), self._task.device)
        return {"launches": [asdict(launch) for launch in found]}

    def _send(self, structure: Any, outputs: List[torch.Tensor], touched: List[torch.Tensor]) -> Message:
        everything = [tensor.detach().resolve_conj().resolve_neg() for tensor in [*outputs, *touched]]
        strided = [tensor for tensor in everything if tensor.layout == torch.strided]
        if bytes_needed(strided) <= self._regions[1].size:
            notes = pack(everything, self._regions[1])
        else:
            notes = [describe(tensor) for tensor in everything]
        return {"structure": structure, "outputs": notes[: len(outputs)], "touched": notes[len(outputs) :]}

    def _set_state(self, notes: Dict[str, Any]) -> None:
        sent = unpack(list(notes.values()), self._incoming, self._task.device)
        copy_state(_Sent(dict(zip(notes, sent))), self._candidate)

    @property
    def _incoming(self) -> Region:
        if not self._regions:
            raise TransportError("no shared memory was opened")
        return self._regions[0]

    def _open(self, handles: Sequence[Message], descriptors: List[int]) -> None:
        if not handles:
            return
        for region in self._regions:
            region.close()
        self._regions = []
        each = len(descriptors) // len(handles)
        for number, handle in enumerate(handles):
            self._regions.append(open_region(handle, descriptors[number * each : (number + 1) * each]))


class _Sent(nn.Module):
    """State that came from the bench, in the place of the module it came from."""

    def __init__(self, tensors: Dict[str, torch.Tensor]) -> None:
        super().__init__()
        self._tensors = tensors

    def named_parameters(self, *_: Any, **__: Any) -> Iterator[Tuple[str, nn.Parameter]]:
        return ((name, cast(nn.Parameter, tensor)) for name, tensor in self._tensors.items())


def run(options: Dict[str, Any], task: Optional[LoadedTask]) -> int:
    """Enter the cell and serve. Options: ``channel`` (descriptor), ``cell``, ``spec``; ``task`` if it is loaded already."""
    isolate.enter(options["cell"])
    faulthandler.enable(file=sys.stderr, all_threads=False)
    if task is None:
        task = load.load_task(options["spec"])
    channel = Channel.of_descriptor(options["channel"])
    channel.send({"op": "ready", "pid": os.getpid()})
    return Worker(channel, task).serve()


def main(arguments: List[str]) -> int:
    """Run a worker that was started afresh."""
    return run(startup.options(arguments), None)


def _same(first: torch.Tensor, second: torch.Tensor) -> bool:
    alike = (first.dtype, first.shape, first.stride()) == (second.dtype, second.shape, second.stride())
    return alike and same_bits(first, second)


def _describe(error: Exception, folder: Path) -> Dict[str, str]:
    """Return what went wrong: one sentence, the candidate's line, the traceback, and whether memory was not shared."""
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))[-8000:]
    kind = "transport" if isinstance(error, TransportError) else "candidate"
    if isinstance(error, CandidateProblem):
        return {"kind": kind, "what": error.what, "where": error.where, "traceback": text}
    return {"kind": kind, "what": summary(error), "where": place(error, folder, relative=True), "traceback": text}

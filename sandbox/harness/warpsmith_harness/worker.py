"""Runs the candidate: one process for each placement, isolated, and trusted with nothing.

It gets inputs and state from shared memory, calls the candidate, and puts the outputs back. Whatever it says of itself
is checked elsewhere; whatever it does to itself ends with it.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import traceback
import types
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, cast

import torch
from torch import nn

from warpsmith_harness import isolate, kernels, load, startup, values
from warpsmith_harness.candidate import copy_state, load_candidate, state
from warpsmith_harness.load import LoadedTask
from warpsmith_harness.problems import CandidateProblem, place, summary
from warpsmith_harness.protocol import Channel, ChannelClosed, Message
from warpsmith_harness.transport import Region, TransportError, bytes_needed, describe, open_region, pack, unpack


class Worker:
    """Answers the parent's requests, one at a time.

    Args:
        channel: To the parent.
        task: The loaded task; its reference is never built here.
    """

    def __init__(self, channel: Channel, task: LoadedTask) -> None:
        self._channel = channel
        self._task = task
        self._candidate: nn.Module = nn.Identity()
        self._folder = Path()
        self._incoming: Optional[Region] = None
        self._outgoing: Optional[Region] = None
        self._operations: Dict[str, Callable[[Message], Message]] = {"load": self._load, "verify": self._verify}

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

    def _open(self, handles: Sequence[Message], descriptors: List[int]) -> None:
        if handles:
            count = len(descriptors) // len(handles)
            parts = [descriptors[i * count : (i + 1) * count] for i in range(len(handles))]
            self._incoming, self._outgoing = (open_region(handle, part) for handle, part in zip(handles, parts))

    def _load(self, request: Message) -> Message:
        torch.set_num_threads(request["threads"])
        if self._task.device.type == "cuda":
            torch.cuda.set_device(self._task.device)
            torch.zeros(1, device=self._task.device)
        self._folder = Path(request["folder"])
        bound: Optional[types.ModuleType] = None
        if request["manifest"] is not None:
            bound = kernels.bind(request["manifest"], "kernels")
        self._candidate = load_candidate(self._task, request["folder"], bound)
        return {}

    def _verify(self, request: Message) -> Message:
        incoming, outgoing = self._regions()
        tensors = unpack(request["inputs"], incoming, self._task.device)
        sent = unpack(list(request["state"].values()), incoming, self._task.device)
        self._set_state(dict(zip(request["state"], sent)))
        args, kwargs = values.rebuild(request["structure"], tensors)
        with torch.no_grad(), values.poisoned_allocations():
            result = self._candidate(*args, **kwargs)
        outputs, structure = values.flatten(result)
        own = state(self._candidate)
        touched = [tensors[i] for i in request["touched_inputs"]] + [own[name] for name in request["touched_state"]]
        return {"structure": structure, **self._send(outputs, touched, outgoing)}

    def _send(self, outputs: List[torch.Tensor], touched: List[torch.Tensor], outgoing: Region) -> Message:
        everything = [tensor.detach() for tensor in [*outputs, *touched]]
        if bytes_needed([tensor for tensor in everything if tensor.layout == torch.strided]) > outgoing.size:
            notes = [describe(tensor) for tensor in everything]
        else:
            notes = pack(everything, outgoing)
        return {"outputs": notes[: len(outputs)], "touched": notes[len(outputs) :]}

    def _set_state(self, sent: Dict[str, torch.Tensor]) -> None:
        copy_state(_Sent(sent), self._candidate)

    def _regions(self) -> Sequence[Region]:
        if self._incoming is None or self._outgoing is None:
            raise TransportError("no shared memory was opened")
        return self._incoming, self._outgoing


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


def _describe(error: Exception, folder: Path) -> Dict[str, str]:
    """Return what went wrong: one sentence, the candidate's line, and the traceback."""
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))[-8000:]
    if isinstance(error, CandidateProblem):
        return {"what": error.what, "where": error.where, "traceback": text}
    return {"what": summary(error), "where": place(error, folder, relative=True), "traceback": text}

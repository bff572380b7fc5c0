"""Runs the candidate: one process for each placement, isolated, and trusted with nothing.

It gets inputs and state from shared memory, calls the candidate, and puts the outputs back. Whatever it says of itself
is checked elsewhere; whatever it does to itself ends with it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import sys
import traceback
import types
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, cast

import torch
from torch import nn

from warpsmith_harness import isolate, kernels, load, startup, values
from warpsmith_harness.candidate import build_candidate, copy_state, load_candidate, state
from warpsmith_harness.contents import misaligned
from warpsmith_harness.fences import Fences
from warpsmith_harness.gradients import NoGradient, differentiate, leaves, wanted_of
from warpsmith_harness.landed import load_landed, operators_of, refuse_original
from warpsmith_harness.lent import LentArena, tidy, time_once_warm
from warpsmith_harness.load import LoadedTask
from warpsmith_harness.placement import time_side
from warpsmith_harness.problems import CandidateProblem, place, summary
from warpsmith_harness.protocol import Channel, ChannelClosed, Message, signature
from warpsmith_harness.prove import break_seal, prove
from warpsmith_harness.refusals import is_refusal
from warpsmith_harness.seal import seal
from warpsmith_harness.streams import check_streams
from warpsmith_harness.surroundings import surroundings
from warpsmith_harness.threads import all_threads
from warpsmith_harness.timing import Arena, Stopwatch, Turn, make_stopwatch
from warpsmith_harness.trace import device_activity, launches, of_library, ownership
from warpsmith_harness.transport import (
    Note,
    Region,
    TransportError,
    bytes_needed,
    cuda_runtime,
    describe,
    open_region,
    pack,
    unpack,
    views,
)
from warpsmith_harness.watch import Checksums, Finding, Guards, beyond, mutation, not_plain


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
        self._jitted: List[str] = []
        self._regions: List[Region] = []
        self._guards = Guards(task.device, task.spec["policy"])
        self._landed: Optional[types.ModuleType] = None
        self._staged: List[_Call] = []
        self._row: List[Tuple[List[torch.Tensor], Any]] = []
        self._arena: Optional[Arena] = None
        self._stopwatch: Optional[Stopwatch] = None
        self._threads = 1
        self._lent = False
        self._operations: Dict[str, Callable[[Message], Message]] = {
            "load": self._load,
            "turn": self._turn,
            "answer": self._answer,
            "stage": self._stage,
            "row": self._call_row,
            "collect": self._collect,
            "place": self._place,
            "time": self._time,
            "launches": self._launches,
            "probe": self._probe,
            "prove": self._prove,
            "rest": lambda _: {},
        }

    def serve(self) -> int:
        """Answer until the parent is gone. What the candidate raises becomes the answer."""
        check_seal, send = seal(), self._channel.send
        while True:
            try:
                request, descriptors = self._channel.receive_with_descriptors()
            except ChannelClosed:
                return 0
            try:
                self._open(request.get("regions", []), descriptors)
                answer = self._operations[request["op"]](request)
                if self._lent:
                    tidy(self._task.device)
            except Exception as error:
                refused = bool(request.get("refusable")) and is_refusal(error, self._task.device)
                answer = {"problem": _describe(error, self._folder, refused)}
            check_seal()
            send({**answer, "id": request["id"], "signature": signature(answer, request["id"])})

    def _load(self, request: Message) -> Message:
        """Bind the kernels and build the candidate from ``folder``, on ``threads`` threads; ``landed`` names what lands there."""
        torch.set_num_threads(request["threads"])
        self._use_device()
        self._folder = Path(request["folder"])
        self._manifest, self._jitted = request["manifest"], request["jitted"]
        bound = self._bind(request["kernels"], request["landed"])
        self._candidate = load_candidate(self._task, request["folder"], bound)
        self._threads = torch.get_num_threads()
        torch.set_num_threads(1)
        return {"threads": self._threads}

    def _turn(self, request: Message) -> Message:
        """Build the candidate for another form of the task's class, ``spec``; what comes next is asked of that one."""
        task = load.load_form(self._task, request["spec"])
        self._candidate = build_candidate(task, str(self._folder), type(self._candidate))
        self._task = task
        return {}

    def _bind(self, name: str, landed: str) -> Optional[types.ModuleType]:
        """Return the kernels: launchers as bound in a workspace, or the folder that lands, by its name."""
        if landed:
            self._landed = load_landed(name, self._folder / landed, self._manifest)
            self._guards.launches = (operators_of(self._landed),)
            return self._landed
        return None if self._manifest is None else kernels.bind(self._manifest, name)

    def _probe(self, request: Message) -> Message:  # noqa: ARG002  # every operation takes its request
        """Use the device and open what is shared, without a candidate: what fails here is the machine's fault."""
        self._use_device()
        return {}

    def _prove(self, request: Message) -> Message:
        """Run the built-in cheats past the guards, and return what was found of each; or break the seal, to see it end this."""
        if request["break_seal"]:
            break_seal()
            return {}
        self._use_device()
        return {"found": prove(self._task.device, self._task.spec["policy"])}

    def _use_device(self) -> None:
        if self._task.device.type == "cuda":
            torch.cuda.set_device(self._task.device)
            torch.zeros(1, device=self._task.device)
            cuda_runtime()  # found now: a kernel library may bring another one

    def _answer(self, request: Message) -> Message:
        """Answer one question, watched as ``watch`` says, in the mode and with the gradients that it asks for.

        ``operators`` counts what torch computes, ``device`` lists the kernels of another call.
        """
        asked = self._taken(request)
        touched = [*(f"input {i}" for i in request["touched_inputs"]), *request["touched_state"]]
        given = {name: tensor for name, tensor in asked.given.items() if name not in touched}
        with torch.no_grad(), self._mode(request["training"]):
            answered = _Answered()
            call = (
                self._backward(request, asked, answered)
                if request["gradients"]
                else lambda: self._call(asked.args, asked.kwargs)
            )
            changing, operators = [*asked.tensors, *state(self._candidate).values()], request["watch"] == "operators"
            late = [] if self._lent else asked.tensors
            outputs, structure, found = self._guards.call(
                call, late, given, request["sizes"], changing, operators=operators
            )
            answer = self._send(answered.structure or structure, outputs, [asked.given[name] for name in touched])
            if request["watch"] == "device":
                found += self._device_findings(asked)
            if request["watch"] and self._landed is not None:
                refuse_original(self._landed)
        found += beyond(asked.fences)
        return {**answer, "absent": answered.absent, "findings": found, "notes": []}

    def _backward(self, request: Message, asked: _Call, answered: _Answered) -> Callable[[], Any]:
        """Return a call that gives the outputs and, behind them, the gradients that there are."""
        directions = unpack(request["directions"], self._incoming, self._task.device)
        starts = leaves(asked.tensors)
        passed = [leaf.clone() if i in request["touched_inputs"] else leaf for i, leaf in enumerate(starts)]
        args, kwargs = values.rebuild(request["structure"], passed)
        own = wanted_of(starts, self._candidate)
        names = [name for name in request["gradients"] if name in own]

        def call() -> Any:
            try:
                outputs, answered.structure, gradients = differentiate(
                    lambda: self._call(args, kwargs, recording=True), {name: own[name] for name in names}, directions
                )
            except NoGradient:
                outputs, answered.structure = values.flatten(self._call(args, kwargs))
                gradients = {}
            found = [gradients.get(name) for name in request["gradients"]]
            answered.absent = [number for number, gradient in enumerate(found) if gradient is None]
            return (*outputs, *(gradient.contiguous() for gradient in found if gradient is not None))

        return call

    def _stage(self, request: Message) -> Message:
        """Take a question to be answered in a row with others; the state is the last one's. ``first`` forgets the others."""
        self._staged = [*([] if request["first"] else self._staged), self._taken(request)]
        return {"findings": [], "notes": []}

    def _call_row(self, request: Message) -> Message:
        """Call on everything that is staged, each ``times``, and look at nothing before the last call."""
        staged = [asked for asked in self._staged for _ in range(request["times"])]
        inputs = {f"input {i} of call {n}": t for n, each in enumerate(staged) for i, t in enumerate(each.tensors)}
        sums = Checksums({**inputs, **state(self._candidate)})
        self._guards.poison.turn()
        with torch.no_grad(), self._guards.poison.handed_out(request["sizes"], self._task.device):
            results = [self._call(asked.args, asked.kwargs) for asked in staged]
        if self._task.device.type == "cuda":
            torch.cuda.synchronize(self._task.device)
        self._row = [values.flatten(result) for result in results]
        found = [each for asked in self._staged for each in beyond(asked.fences)]
        return {"findings": mutation(sums.changed()) + found + self._guards.lasting(), "notes": []}

    def _collect(self, request: Message) -> Message:
        """Send the output of the call numbered ``number`` in the last row."""
        outputs, structure = self._row[request["number"]]
        return {**self._send(structure, outputs, []), "findings": [], "notes": []}

    def _taken(self, request: Message) -> _Call:
        """Take a question's inputs into memory of this process, and its state into the candidate."""
        fences = Fences()
        tensors = self._inputs(request["inputs"], lent=request["lent"], fences=fences)
        for index in request["misaligned"]:
            tensors[index] = misaligned(tensors[index])
        self._set_state(request["state"])
        args, kwargs = values.rebuild(request["structure"], tensors)
        inputs = {f"input {i}": tensor for i, tensor in enumerate(tensors)}
        return _Call(tensors, args, kwargs, {**inputs, **state(self._candidate)}, fences)

    @contextlib.contextmanager
    def _mode(self, training: bool) -> Iterator[None]:
        """Put the candidate into a mode, and back into its task's."""
        if training == self._task.training:
            yield
            return
        self._task.set_mode(self._candidate, training)
        try:
            yield
        finally:
            self._task.set_mode(self._candidate, self._task.training)

    def _call(self, args: Sequence[Any], kwargs: Dict[str, Any], *, recording: bool = False) -> Any:
        """Call the candidate with all threads; what surrounds the call needs one, and no pool that spins behind it."""
        with all_threads(self._threads), surroundings(self._task.spec, recording=recording):
            return self._candidate(*args, **kwargs)

    def _device_findings(self, asked: _Call) -> List[Finding]:
        device, call = self._task.device, partial(self._call, asked.args, asked.kwargs)
        activities = device_activity(call, device)
        found = ownership(activities, self._manifest, self._task.spec["policy"], self._jitted)
        library = partial(of_library, manifest=self._manifest)
        return found + (check_streams(call, device, activities, of_library=library) if activities else [])

    def _place(self, request: Message) -> Message:
        """Take the placement's drawn inputs and its state into buffers of this process."""
        bases = [self._inputs(notes, lent=request["lent"]) for notes in request["bases"]]
        self._set_state(request["state"])
        structure, rollable = request["structure"], request["rollable"]
        self._arena = (
            LentArena(bases[0], structure, rollable)
            if request["lent"]
            else Arena(bases, structure, request["slots"], rollable)
        )
        self._stopwatch = make_stopwatch(self._task.device)
        return {}

    def _time(self, request: Message) -> Message:
        """Time a batch; see ``placement.time_side``. The output of the call numbered ``keep`` is sent along."""
        if self._arena is None or self._stopwatch is None:
            raise TransportError("there are no buffers to time on")
        with all_threads(self._threads):
            if self._lent:
                answer, kept = time_once_warm(self._stopwatch, self._candidate, self._arena, request, self._task)
            else:
                answer, kept = time_side(self._stopwatch, self._candidate, self._arena, request, self._task.spec)
        if kept is None:
            return answer
        outputs, structure = values.flatten(kept)
        for each in not_plain(outputs):
            raise CandidateProblem(f"In a timed call {each['evidence']}.")
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

    def _inputs(self, notes: List[Note], *, lent: bool, fences: Optional[Fences] = None) -> List[torch.Tensor]:
        """Return inputs in memory of this process, within fences if they are given, or, where they are lent, where they lie."""
        self._lent = lent
        if lent:
            return views(notes, self._incoming, self._task.device)
        return unpack(notes, self._incoming, self._task.device, None if fences is None else fences.blank)

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
        for handle in handles:
            count = handle["descriptors"]
            self._regions.append(open_region(handle, descriptors[:count]))
            descriptors = descriptors[count:]


@dataclass(frozen=True)
class _Call:
    """One question's inputs in memory of this process: the tensors, the arguments made of them, all that a call gets, fences."""

    tensors: List[torch.Tensor]
    args: Sequence[Any]
    kwargs: Dict[str, Any]
    given: Dict[str, torch.Tensor]
    fences: Fences


@dataclass
class _Answered:
    """What a call with gradients leaves beside its tensors: the outputs' structure, and which gradients there are not."""

    structure: Any = None
    absent: List[int] = field(default_factory=list)


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


def _describe(error: Exception, folder: Path, refused: bool) -> Dict[str, str]:
    """Return what went wrong: one sentence, the candidate's line, the traceback, and whether memory was not shared."""
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))[-8000:]
    kind = "transport" if isinstance(error, TransportError) else "refusal" if refused else "candidate"
    if isinstance(error, CandidateProblem):
        return {"kind": kind, "what": error.what, "where": error.where, "traceback": text}
    return {"kind": kind, "what": summary(error), "where": place(error, folder, relative=True), "traceback": text}

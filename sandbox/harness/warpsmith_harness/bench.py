"""Keeps the reference: makes inputs and the oracle's answers, compares outputs, and times the baselines.

The trusted process of the developer's interpreter. It holds the reference resident and warm, and prepares what the next
verdict needs while nobody waits for it.
"""

from __future__ import annotations

import os
import sysconfig
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional

from warpsmith_harness import startup
from warpsmith_harness.device_queue import device_name
from warpsmith_harness.machine import machine_of
from warpsmith_harness.protocol import Channel, ChannelClosed, Message
from warpsmith_harness.spare_time import SpareTime
from warpsmith_harness.supply import Answer

if TYPE_CHECKING:  # it imports torch, which is done only once it is known to be there
    from warpsmith_harness.resident import Resident

_LOOK_SECONDS = 0.2
_SMALL_BYTES = 64 * 1024 * 1024
"""Below this a thread pool costs more than it saves, above all on a machine that does something else as well."""


class Bench:
    """Answers the parent's requests, one at a time; see the method of each, and ``supply.Supply``.

    A request may name another form of the task's class (``form``, the spec of its task): it is then asked of that one.

    Args:
        channel: To the parent.
        spec: The task.
        spare: Says when work for the next verdict is in nobody's way.

    Attributes:
        accepted: What accepting the task found out.
        threads: Threads of what is timed.
        inputs: ``name``, ``shape`` and whether it is ``floating``, for each input tensor.
    """

    def __init__(self, channel: Channel, spec: Dict[str, Any], spare: SpareTime) -> None:
        import torch

        from warpsmith_harness.load import load_task
        from warpsmith_harness.oracle import memory
        from warpsmith_harness.resident import settle
        from warpsmith_harness.sharing import Sharing
        from warpsmith_harness.timing import make_stopwatch

        self._channel = channel
        task = load_task(spec)
        if task.device.type == "cuda":
            torch.cuda.set_device(task.device)
        # What it keeps must not lie in a block that a large task's tensors had before, which then is too short for them.
        self._stopwatch = make_stopwatch(task.device)
        self._memory = memory(task.device)
        self._sharing = Sharing(task.device)
        self._own = self._now = settle(task, self._sharing, self._memory)
        self._forms: Dict[str, Resident] = {}
        self.accepted, self.inputs = self._own.accepted, self._own.inputs
        self.threads = torch.get_num_threads()
        torch.set_num_threads(1 if self.accepted["bytes_moved"] < _SMALL_BYTES else self.threads)
        self._resting: Optional[Message] = None
        self._spare = spare
        self._operations: Dict[str, Callable[[Message], Answer]] = {
            "meet": self._meet,
            "draw": lambda request: self._now.supply.draw(request),
            "compare": lambda request: (self._now.supply.compare(request), []),
            "prepare": self._prepare,
            "place": lambda request: self._now.supply.place(request),
            "time": self._time,
            "empty": lambda request: ({"us": self._stopwatch.empty(request["count"])}, []),
            "recall": lambda request: (self._now.supply.recall(request), []),
            "original": self._original,
            "idle": self._idle,
        }

    def call_seconds(self) -> float:
        """Return how long one call of the reference takes, roughly."""
        import torch

        from warpsmith_harness.threads import all_threads

        times = []
        with all_threads(self.threads):
            for _ in range(2):
                started = time.monotonic()
                self._run_once(self._own.reference)
                if self._own.task.device.type == "cuda":
                    torch.cuda.synchronize()
                times.append(time.monotonic() - started)
        return min(times)

    @property
    def modes(self) -> List[str]:
        """Every baseline there may be, eager first."""
        return self._own.supply.modes(self._own.baselines.modes)

    def serve(self) -> int:
        """Answer until the parent is gone; prepare the next verdict while it rests."""
        from warpsmith_harness.problems import failure

        while True:
            if self._resting is not None and not self._channel.ready(0):
                self._rest(self._resting)
                continue
            request = self._channel.receive()
            self._resting = request if request["op"] == "rest" else None
            if self._resting is not None:
                self._now = self._own
                continue
            descriptors: List[int] = []
            try:
                self._now = self._form(request.get("form"))
                answer, descriptors = self._operations[request["op"]](request)
            except Exception as error:
                answer = failure(error)
            self._channel.send({**answer, "id": request["id"]}, descriptors)

    def _form(self, spec: Optional[Dict[str, Any]]) -> Resident:
        """Return what is kept of another form's task, settled when it is first asked of; the bench's own without one."""
        from warpsmith_harness.load import load_form
        from warpsmith_harness.resident import settle

        if spec is None:
            return self._own
        key = spec["capture"]
        if key not in self._forms:
            self._forms[key] = settle(load_form(self._own.task, spec), self._sharing, self._memory)
        return self._forms[key]

    def _meet(self, request: Message) -> Answer:  # noqa: ARG002  # every operation takes its request
        """Tell what was found out of the task that is asked of."""
        return {"accepted": self._now.accepted, "inputs": self._now.inputs}, []

    def _prepare(self, request: Message) -> Answer:
        """Compile a baseline, ``mode``, within ``seconds``; ``error`` says why it cannot be timed."""
        from warpsmith_harness.baselines import GRAPH

        mode = request["mode"]
        if mode == GRAPH:
            self._now.baselines.try_graph(self._capture_once)
        else:
            self._prepare_mode(mode, request["seconds"], lambda: self._channel.ready(0))
        known = self._now.baselines
        return {"error": known.errors.get(mode, ""), "took": known.seconds.get(mode, 0.0)}, []

    def _time(self, request: Message) -> Answer:
        """Time a batch of ``side``; see ``placement.time_side``. ``error`` says why a baseline cannot be made ready."""
        from warpsmith_harness.baselines import EAGER
        from warpsmith_harness.placement import COPY
        from warpsmith_harness.problems import summary
        from warpsmith_harness.threads import all_threads

        try:
            with all_threads(self.threads):
                return self._now.supply.time(self._stopwatch, self._now.baselines, request), []
        except Exception as error:
            if request["kind"] not in ("graph", "warm") or request["side"] in (EAGER, COPY):
                raise
            doing = "be captured into a CUDA graph" if request["kind"] == "graph" else "run on new buffers"
            return {"error": f"it cannot {doing}: {summary(error)}"}, []

    def _original(self, request: Message) -> Answer:  # noqa: ARG002  # every operation takes its request
        """Profile the reference's operators."""
        from warpsmith_harness.original import profile
        from warpsmith_harness.threads import all_threads

        self._now.supply.make_room()
        with all_threads(self.threads):
            return {**self.accepted, **profile(self._now.task, self.accepted)}, []

    def _idle(self, request: Message) -> Answer:  # noqa: ARG002  # every operation takes its request
        """Stop preparing, as every request does: the device is to be somebody else's."""
        self._now.supply.make_room()
        return {}, []

    def _prepare_mode(self, mode: str, seconds: float, wanted_elsewhere: Callable[[], bool]) -> None:
        """Compile a mode, until the bench is wanted elsewhere."""
        from warpsmith_harness.threads import all_threads

        self._now.supply.make_room()
        try:
            with all_threads(self.threads):
                self._now.baselines.prepare(mode, self._run_once, seconds, wanted_elsewhere)
        finally:
            self._now.supply.make_room()  # the allocator still has what the call took, which the worker may need

    def _run_once(self, call: Callable[..., Any]) -> None:
        from warpsmith_harness.surroundings import surroundings

        args, kwargs = self._now.task.inputs()
        with surroundings(self._now.task.spec):
            call(*args, **kwargs)

    def _rest(self, resting: Message) -> None:
        """Do a piece of work for the next verdict; while somebody has the device alone, or waits to, wait instead."""
        with self._spare.piece() as free:
            if free:
                self._prepare_something(resting)
        if not free:
            self._channel.ready(_LOOK_SECONDS)

    def _capture_once(self, call: Callable[..., Any]) -> None:
        """Capture a call on buffers of its own, and replay it."""
        from warpsmith_harness import values
        from warpsmith_harness.graphs import capture
        from warpsmith_harness.surroundings import autocast
        from warpsmith_harness.timing import Arena

        tensors, structure = values.flatten(self._now.task.inputs())
        with autocast(self._now.task.spec):
            capture(call, Arena([tensors], structure, 1, rollable=False))

    def _prepare_something(self, resting: Message) -> None:
        """Do one piece of work for the next verdict, or stop resting when there is none."""
        from warpsmith_harness.baselines import COMPILE
        from warpsmith_harness.problems import MachineProblem

        if self._now.supply.prepare():
            return
        if resting["compile_seconds"] > 0 and not self._now.baselines.tried(COMPILE):
            seconds = resting["compile_seconds"]
            try:
                self._prepare_mode(COMPILE, seconds, lambda: self._channel.ready(0) or self._spare.over())
            except MachineProblem:  # as above
                self._resting = None
        else:
            self._resting = None


def main(arguments: List[str]) -> int:
    """Run the bench.

    Options: ``channel`` (descriptor), ``spec``, ``pool`` (folders of the queues for devices), ``memory`` (bytes to take the
    device's memory for, or 0).
    """
    options = startup.options(arguments)
    channel = Channel.of_descriptor(options["channel"])
    os.set_inheritable(channel.fileno(), False)
    try:
        problem = startup.environment_problem() or startup.device_problem(options["spec"]["device"])
        if problem:
            channel.send({"environment_problem": problem})
            return 3
        return _serve(channel, options["spec"], options["pool"], options["memory"])
    except ChannelClosed:
        return 0


def _serve(channel: Channel, spec: Dict[str, Any], pool: List[str], memory: int) -> int:
    from warpsmith_harness.oracle import limit_memory
    from warpsmith_harness.problems import TaskProblem

    if memory:
        limit_memory(memory)
    machine = machine_of(spec["device"])
    spare = SpareTime(pool, device_name(machine.get("gpu_uuid", ""), spec["device"]), spec["class_name"])
    try:
        bench = Bench(channel, spec, spare)
    except TaskProblem as problem:
        channel.send({"task_problem": [problem.what, problem.where, problem.next_step]})
        return 2
    told = {
        "accepted": bench.accepted,
        "environment": {**machine, "threads": bench.threads},
        "modes": bench.modes,
        "inputs": bench.inputs,
        "call_seconds": bench.call_seconds(),
        "site_packages": sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}),
    }
    channel.send(told)
    return bench.serve()

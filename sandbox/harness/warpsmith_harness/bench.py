"""Keeps the reference: makes inputs and the oracle's answers, compares outputs, and times the baselines.

The trusted process of the developer's interpreter. It holds the reference resident and warm, and prepares what the next
verdict needs while nobody waits for it.
"""

from __future__ import annotations

import os
import sysconfig
import time
from typing import Any, Callable, Dict, List, Optional

from warpsmith_harness import startup
from warpsmith_harness.device_queue import SpareTime, device_name
from warpsmith_harness.machine import machine_of
from warpsmith_harness.protocol import Channel, ChannelClosed, Message
from warpsmith_harness.supply import Answer, Supply

_LOOK_SECONDS = 0.2
_SMALL_BYTES = 64 * 1024 * 1024
"""Below this a thread pool costs more than it saves, above all on a machine that does something else as well."""


class Bench:
    """Answers the parent's requests, one at a time; see the method of each, and ``supply.Supply``.

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

        from warpsmith_harness.baselines import Baselines
        from warpsmith_harness.copies import Copies
        from warpsmith_harness.crowded import Crowd
        from warpsmith_harness.load import load_task
        from warpsmith_harness.oracle import memory
        from warpsmith_harness.questions import Examiner
        from warpsmith_harness.room import accept_task
        from warpsmith_harness.sharing import Sharing
        from warpsmith_harness.timing import make_stopwatch
        from warpsmith_harness.variants import Variants

        self._channel = channel
        self._task = task = load_task(spec)
        if task.device.type == "cuda":
            torch.cuda.set_device(task.device)
        # What it keeps must not lie in a block that a large task's tensors had before, which then is too short for them.
        self._stopwatch = make_stopwatch(task.device)
        self._memory = memory(task.device)
        sizes, self.accepted = accept_task(task, self._memory)
        self._reference = task.reference()
        examiner = Examiner(task, self._reference, self.accepted["state_strength"])
        variants = Variants(task, self._reference, examiner)
        self.inputs = variants.inputs
        self._baselines = Baselines(self._reference, task.device)
        self.threads = torch.get_num_threads()
        self._few_threads = 1 if self.accepted["bytes_moved"] < _SMALL_BYTES else self.threads
        torch.set_num_threads(self._few_threads)
        sharing, moved = Sharing(task.device), self.accepted["bytes_moved"]
        common = task, self._reference, examiner
        self._supply: Supply = (
            Crowd(*common, sharing, sizes, moved, self._memory)
            if self.accepted.get("crowded")
            else Copies(*common, variants, sharing, moved, bool(self.accepted["mutates"]), self._memory)
        )
        self._resting: Optional[Message] = None
        self._spare = spare
        self._operations: Dict[str, Callable[[Message], Answer]] = {
            "draw": self._supply.draw,
            "compare": lambda request: (self._supply.compare(request), []),
            "prepare": self._prepare,
            "place": self._supply.place,
            "time": self._time,
            "recall": lambda request: (self._supply.recall(request), []),
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
                self._run_once(self._reference)
                if self._task.device.type == "cuda":
                    torch.cuda.synchronize()
                times.append(time.monotonic() - started)
        return min(times)

    @property
    def modes(self) -> List[str]:
        """Every baseline there may be, eager first."""
        return self._supply.modes(self._baselines.modes)

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
                continue
            descriptors: List[int] = []
            try:
                answer, descriptors = self._operations[request["op"]](request)
            except Exception as error:
                answer = failure(error)
            self._channel.send({**answer, "id": request["id"]}, descriptors)

    def _prepare(self, request: Message) -> Answer:
        """Compile a baseline, ``mode``, within ``seconds``; ``error`` says why it cannot be timed."""
        from warpsmith_harness.baselines import GRAPH

        mode = request["mode"]
        if mode == GRAPH:
            self._baselines.try_graph(self._capture_once)
        else:
            self._prepare_mode(mode, request["seconds"], lambda: self._channel.ready(0))
        return {"error": self._baselines.errors.get(mode, ""), "took": self._baselines.seconds.get(mode, 0.0)}, []

    def _time(self, request: Message) -> Answer:
        """Time a batch of ``side``; see ``placement.time_side``. ``error`` says why a baseline cannot be made ready."""
        from warpsmith_harness.baselines import EAGER
        from warpsmith_harness.placement import COPY
        from warpsmith_harness.problems import summary
        from warpsmith_harness.threads import all_threads

        try:
            with all_threads(self.threads):
                return self._supply.time(self._stopwatch, self._baselines, request), []
        except Exception as error:
            if request["kind"] not in ("graph", "warm") or request["side"] in (EAGER, COPY):
                raise
            doing = "be captured into a CUDA graph" if request["kind"] == "graph" else "run on new buffers"
            return {"error": f"it cannot {doing}: {summary(error)}"}, []

    def _original(self, request: Message) -> Answer:  # noqa: ARG002  # every operation takes its request
        """Profile the reference's operators."""
        from warpsmith_harness.original import profile
        from warpsmith_harness.threads import all_threads

        self._supply.make_room()
        with all_threads(self.threads):
            return {**self.accepted, **profile(self._task, self.accepted)}, []

    def _idle(self, request: Message) -> Answer:  # noqa: ARG002  # every operation takes its request
        """Stop preparing, as every request does: the device is to be somebody else's."""
        self._supply.make_room()
        return {}, []

    def _prepare_mode(self, mode: str, seconds: float, wanted_elsewhere: Callable[[], bool]) -> None:
        """Compile a mode, until the bench is wanted elsewhere."""
        from warpsmith_harness.threads import all_threads

        self._supply.make_room()
        try:
            with all_threads(self.threads):
                self._baselines.prepare(mode, self._run_once, seconds, wanted_elsewhere)
        finally:
            self._supply.make_room()  # the allocator still has what the call took, which the worker may need

    def _run_once(self, call: Callable[..., Any]) -> None:
        from warpsmith_harness.surroundings import surroundings

        args, kwargs = self._task.inputs()
        with surroundings(self._task.spec):
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

        tensors, structure = values.flatten(self._task.inputs())
        with autocast(self._task.spec):
            capture(call, Arena([tensors], structure, 1, rollable=False))

    def _prepare_something(self, resting: Message) -> None:
        """Do one piece of work for the next verdict, or stop resting when there is none."""
        from warpsmith_harness.baselines import COMPILE
        from warpsmith_harness.problems import MachineProblem

        if self._supply.prepare():
            return
        if resting["compile_seconds"] > 0 and not self._baselines.tried(COMPILE):
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

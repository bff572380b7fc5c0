"""Keeps the reference: makes inputs and the oracle's answers, compares outputs, and times the baselines.

The trusted process of the developer's interpreter. It holds the reference resident and warm, and prepares what the next
verdict needs while nobody waits for it.
"""

from __future__ import annotations

import os
import sysconfig
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from warpsmith_harness import startup
from warpsmith_harness.device_queue import SpareTime, device_name
from warpsmith_harness.machine import machine_of
from warpsmith_harness.protocol import Channel, ChannelClosed, Message

Answer = Tuple[Message, List[int]]

_QUESTIONS_AHEAD = 5
_AHEAD_SHARE_OF_MEMORY = 0.05
_ROW_SHARE_OF_MEMORY = 0.15
_LOOK_SECONDS = 0.2
_SMALL_BYTES = 64 * 1024 * 1024
"""Below this a thread pool costs more than it saves, above all on a machine that does something else as well."""


class Bench:
    """Answers the parent's requests, one at a time; see the method of each.

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
        from warpsmith_harness.crowded import Crowd
        from warpsmith_harness.load import load_task
        from warpsmith_harness.oracle import memory
        from warpsmith_harness.questions import Examiner, Question
        from warpsmith_harness.room import accept_task
        from warpsmith_harness.sharing import Sharing
        from warpsmith_harness.timing import make_stopwatch
        from warpsmith_harness.variants import Variants

        self._channel = channel
        self._task = task = load_task(spec)
        if task.device.type == "cuda":
            torch.cuda.set_device(task.device)
        self._memory = memory(task.device)
        sizes, self.accepted = accept_task(task, self._memory)
        self._reference = task.reference()
        self._examiner = Examiner(task, self._reference, self.accepted["state_strength"])
        self._variants = Variants(task, self._reference, self._examiner)
        self.inputs = self._variants.inputs
        self._baselines = Baselines(self._reference, task.device)
        self.threads = torch.get_num_threads()
        self._few_threads = 1 if self.accepted["bytes_moved"] < _SMALL_BYTES else self.threads
        torch.set_num_threads(self._few_threads)
        self._stopwatch = make_stopwatch(task.device)
        self._sharing = Sharing(task.device)
        self._crowd = (
            Crowd(
                task, self._reference, self._examiner, self._sharing, sizes, self.accepted["bytes_moved"], self._memory
            )
            if self.accepted.get("crowded")
            else None
        )
        self._ahead: List[Question] = []
        self._asked: List[Question] = []
        self._placement: Any = None
        self._resting: Optional[Message] = None
        self._spare = spare
        self._operations: Dict[str, Callable[[Message], Answer]] = {
            "draw": self._draw,
            "compare": self._compare,
            "prepare": self._prepare,
            "place": self._place,
            "time": self._time,
            "recall": self._recall,
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
        """Every baseline there may be, eager first; CUDA graphs keep copies, for which there may be no room."""
        from warpsmith_harness.baselines import REPLAYED

        modes = self._baselines.modes
        return modes if self._crowd is None else [mode for mode in modes if mode not in REPLAYED]

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

    def _draw(self, request: Message) -> Answer:
        """Put a question where the worker can read it, or answer why it is ``skipped``.

        ``variant`` says what is asked (``variants.Variant``), ``worker`` who will answer. With ``more`` the questions drawn
        before are kept beside it; ``calls`` says how many there will be.
        """
        from warpsmith_harness.variants import Skipped, Variant

        if self._crowd is not None:
            return self._crowd.draw(request)
        started = time.monotonic()
        variant = request["variant"]
        try:
            # Calls in a row share a state: one that was drawn ahead has another than the reference has by now.
            ahead = not variant and request["calls"] == 1
            question = self._fresh() if ahead else self._variants.draw(Variant(**variant))
        except Skipped as skipped:
            return {"skipped": skipped.reason, "took": time.monotonic() - started}, []
        if request["calls"] * question.size > _ROW_SHARE_OF_MEMORY * self._memory:
            reason = "the tensors of several calls would fill too much of the memory"
            return {"skipped": reason, "took": time.monotonic() - started}, []
        self._asked = [*self._asked, question] if request["more"] else [question]
        held = [*question.tensors, *question.state.values(), *question.directions]
        answer, descriptors = self._sharing.share(held, [*question.expected, *question.touched], request)
        notes = answer.pop("notes")
        inputs, state = len(question.tensors), len(question.state)
        answer.update(
            structure=question.structure,
            inputs=notes[:inputs],
            state=dict(zip(question.state, notes[inputs : inputs + state])),
            directions=notes[inputs + state :],
            gradients=question.gradients,
            training=question.training,
            misaligned=question.misaligned,
            touched_inputs=list(question.touched_inputs),
            touched_state=list(question.touched_state),
            lent=False,
            sizes=[tensor.numel() * tensor.element_size() for tensor in question.expected],
            took=time.monotonic() - started,
            reference_seconds=question.seconds,
        )
        return answer, descriptors

    def _fresh(self) -> Any:
        return self._ahead.pop() if self._ahead else self._examiner.draw()

    def _compare(self, request: Message) -> Answer:
        """Compare a worker's answer with a question, ``number`` of those drawn; ``digest`` identifies the answer's bits."""
        if self._crowd is not None:
            return self._judge_crowded(request), []
        return self._judge(self._asked[request["number"]], request), []

    def _judge_crowded(self, request: Message) -> Message:
        from warpsmith_harness.crowded import Changed
        from warpsmith_harness.lent import tidy

        assert self._crowd is not None  # asked by those who know
        try:
            return self._judge(self._crowd.question(), request)
        except Changed as changed:
            return {**_unread(str(changed)), "notes": [], "digest": []}
        finally:
            tidy(self._task.device)

    def _judge(self, question: Any, request: Message) -> Message:
        """Compare; whatever cannot be read of what a worker sent is the candidate's fault."""
        import torch

        from warpsmith_harness.questions import judge_answer
        from warpsmith_harness.values import checksum

        notes = list(question.exact.notes)
        try:
            outputs, touched = (self._sharing.read(request[key]) for key in ("outputs", "touched"))
            absent = [int(number) for number in request["absent"] or ()]
            tolerance = self._task.spec["tolerance"]
            judged = judge_answer(question, outputs, request["structure"], touched, absent, tolerance)
            digest = [checksum(tensor) for tensor in outputs] if request.get("digest") else []
            return {**judged, "notes": notes, "digest": digest}
        except torch.cuda.OutOfMemoryError:
            raise
        except Exception as error:
            return {**_unread(f"its answer cannot be read: {error}"), "notes": notes}

    def _prepare(self, request: Message) -> Answer:
        """Compile a baseline, ``mode``, within ``seconds``; ``error`` says why it cannot be timed."""
        from warpsmith_harness.baselines import GRAPH

        mode = request["mode"]
        if mode == GRAPH:
            self._baselines.try_graph(self._capture_once)
        else:
            self._prepare_mode(mode, request["seconds"], lambda: self._channel.ready(0))
        return {"error": self._baselines.errors.get(mode, ""), "took": self._baselines.seconds.get(mode, 0.0)}, []

    def _place(self, request: Message) -> Answer:
        """Draw new buffers and contents, and share them with ``worker``."""
        from warpsmith_harness.candidate import state
        from warpsmith_harness.placement import Placement

        self._placement = None
        if self._crowd is not None:
            return self._crowd.place(request)
        placement = Placement(self._task, self._reference, self._examiner, self.accepted["bytes_moved"], self._memory)
        self._placement = placement
        own = {name: tensor.detach() for name, tensor in state(self._reference).items()}
        flat = [tensor for base in placement.bases for tensor in base]
        outputs = self._examiner.ask(placement.bases[0], placement.structure, exact=False)
        answer, descriptors = self._sharing.share(
            [*flat, *own.values()], [*outputs.expected, *outputs.touched], request
        )
        notes = answer.pop("notes")
        width = len(placement.bases[0])
        answer.update(
            structure=placement.structure,
            bases=[notes[start : start + width] for start in range(0, len(flat), width)],
            state=dict(zip(own, notes[len(flat) :])),
            slots=placement.arena.slots,
            recallable=not self.accepted["mutates"],
            rollable=placement.rollable,
            lent=False,
            output_bytes=sum(tensor.numel() * tensor.element_size() for tensor in outputs.expected),
        )
        return answer, descriptors

    def _time(self, request: Message) -> Answer:
        """Time a batch of ``side``; see ``placement.time_side``. ``error`` says why a baseline cannot be made ready."""
        from warpsmith_harness.baselines import EAGER
        from warpsmith_harness.placement import COPY
        from warpsmith_harness.problems import summary
        from warpsmith_harness.threads import all_threads

        try:
            with all_threads(self.threads):
                return self._timed(request), []
        except Exception as error:
            if request["kind"] not in ("graph", "warm") or request["side"] in (EAGER, COPY):
                raise
            doing = "be captured into a CUDA graph" if request["kind"] == "graph" else "run on new buffers"
            return {"error": f"it cannot {doing}: {summary(error)}"}, []

    def _timed(self, request: Message) -> Message:
        from warpsmith_harness.placement import time_side

        if self._crowd is not None:
            return self._crowd.time(self._stopwatch, self._baselines, request)
        call = self._placement.call(request["side"], self._baselines)
        return time_side(self._stopwatch, call, self._placement.arena, request)[0]

    def _recall(self, request: Message) -> Answer:
        """Compare the output of a timed call, made on ``turn``."""
        from warpsmith_harness.timing import Turn

        if self._crowd is not None:
            return self._judge_crowded(request), []
        base, slot, roll = request["turn"]
        return self._judge(self._placement.question(Turn(base, slot, roll)), request), []

    def _original(self, request: Message) -> Answer:  # noqa: ARG002  # every operation takes its request
        """Profile the reference's operators."""
        from warpsmith_harness.original import profile
        from warpsmith_harness.threads import all_threads

        self._make_room()
        with all_threads(self.threads):
            return {**self.accepted, **profile(self._task, self.accepted)}, []

    def _idle(self, request: Message) -> Answer:  # noqa: ARG002  # every operation takes its request
        """Stop preparing, as every request does: the device is to be somebody else's."""
        self._make_room()
        return {}, []

    def _prepare_mode(self, mode: str, seconds: float, wanted_elsewhere: Callable[[], bool]) -> None:
        """Compile a mode, until the bench is wanted elsewhere."""
        from warpsmith_harness.threads import all_threads

        self._make_room()
        with all_threads(self.threads):
            self._baselines.prepare(mode, self._run_once, seconds, wanted_elsewhere)

    def _make_room(self) -> None:
        """Give back what is lent to no worker any more, where room is short."""
        if self._crowd is not None:
            self._crowd.release()

    def _run_once(self, call: Callable[..., Any]) -> None:
        import torch

        args, kwargs = self._task.inputs()
        with torch.no_grad():
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
        from warpsmith_harness.timing import Arena

        tensors, structure = values.flatten(self._task.inputs())
        capture(call, Arena([tensors], structure, 1, rollable=False))

    def _prepare_something(self, resting: Message) -> None:
        """Do one piece of work for the next verdict, or stop resting when there is none."""
        from warpsmith_harness.baselines import COMPILE
        from warpsmith_harness.problems import MachineProblem, TaskProblem

        if self._crowd is not None:  # there is no room to keep questions
            self._make_room()
            self._resting = None
            return
        room = _AHEAD_SHARE_OF_MEMORY * self._memory - sum(question.size for question in self._ahead)
        if len(self._ahead) < _QUESTIONS_AHEAD and (not self._ahead or self._ahead[0].size < room):
            try:
                self._ahead.append(self._examiner.draw())
            except TaskProblem:  # met again, and told, when a verdict draws
                self._resting = None
        elif resting["compile_seconds"] > 0 and not self._baselines.tried(COMPILE):
            seconds = resting["compile_seconds"]
            try:
                self._prepare_mode(COMPILE, seconds, lambda: self._channel.ready(0) or self._spare.over())
            except MachineProblem:  # as above
                self._resting = None
        else:
            self._resting = None


def _unread(reason: str) -> Message:
    """Return the outcome of a comparison in which nothing could be compared."""
    return {"ok": False, "max_abs_error": None, "max_rel_error": None, "reason": reason}


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

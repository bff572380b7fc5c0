"""Keeps the reference: makes inputs and the oracle's answers, compares outputs, and times the baselines.

The trusted process of the developer's interpreter. It holds the reference resident and warm, and prepares what the next
verdict needs while nobody waits for it.
"""

from __future__ import annotations

import os
import platform
import threading
import traceback
from typing import Any, Callable, Dict, List, Tuple

from warpsmith_harness import startup
from warpsmith_harness.protocol import Channel, ChannelClosed, Message


class Bench:
    """Answers the parent's requests, one at a time; see each ``_op`` method.

    Args:
        channel: To the parent.
        spec: The task.
    """

    def __init__(self, channel: Channel, spec: Dict[str, Any]) -> None:
        from warpsmith_harness.load import load_task

        self._channel = channel
        self._task = load_task(spec)
        self._operations: Dict[str, Callable[[Message], Tuple[Message, List[int]]]] = {
            "open": self._open,
            "case": self._case,
            "compare": self._compare,
        }

    def serve(self) -> int:
        """Answer until the parent is gone."""
        from warpsmith_harness.problems import TaskProblem

        while True:
            request = self._channel.receive()
            descriptors: List[int] = []
            try:
                answer, descriptors = self._operations[request["op"]](request)
            except TaskProblem as problem:
                answer = {"task_problem": [problem.what, problem.where, problem.next_step]}
            except Exception as error:
                answer = {"fault": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()[-8000:]}
            self._channel.send(answer, descriptors)

    def _open(self, request: Message) -> Tuple[Message, List[int]]:
        """Build the reference and accept the task."""
        import torch

        from warpsmith_harness.cases import CaseMaker
        from warpsmith_harness.original import accept

        accepted = accept(self._task)
        self._reference = self._task.reference()
        self._cases = CaseMaker(self._task, self._reference)
        environment = {"torch": torch.__version__, "cuda": torch.version.cuda, "python": platform.python_version()}
        return {"accepted": accepted, "environment": environment, "threads": torch.get_num_threads()}, []

    def _case(self, request: Message) -> Tuple[Message, List[int]]:
        from warpsmith_harness.transport import bytes_needed, make_region, pack

        case = self._current = self._cases.draw(request["name"])
        held = [*case.tensors, *case.state.values()]
        self._incoming = make_region("host", bytes_needed(held))
        self._outgoing = make_region("host", bytes_needed([*case.expected, *case.touched]))
        notes = pack(held, self._incoming)
        regions = [self._incoming, self._outgoing]
        answer = {
            "structure": case.structure,
            "inputs": notes[: len(case.tensors)],
            "state": dict(zip(case.state, notes[len(case.tensors) :])),
            "touched_inputs": list(case.touched_inputs),
            "touched_state": list(case.touched_state),
            "regions": [region.handle() for region in regions],
        }
        return answer, [descriptor for region in regions for descriptor in region.descriptors()]

    def _compare(self, request: Message) -> Tuple[Message, List[int]]:
        from warpsmith_harness.cases import judge_outputs
        from warpsmith_harness.transport import unpack

        outputs = unpack(request["outputs"], self._outgoing, self._task.device)
        touched = unpack(request["touched"], self._outgoing, self._task.device)
        tolerance = self._task.spec["tolerance"]
        return judge_outputs(self._current, outputs, request["structure"], touched, tolerance), []


def main(arguments: List[str]) -> int:
    """Run the bench. Options: ``channel`` (descriptor), ``spec``."""
    options = startup.options(arguments)
    channel = Channel.of_descriptor(options["channel"])
    os.set_inheritable(channel.fileno(), False)
    problem = startup.environment_problem()
    if problem:
        channel.send({"environment_problem": problem})
        return 3
    try:
        return _serve(channel, options["spec"])
    except ChannelClosed:
        return 0


def _serve(channel: Channel, spec: Dict[str, Any]) -> int:
    from warpsmith_harness.problems import TaskProblem

    try:
        bench = Bench(channel, spec)
    except TaskProblem as problem:
        channel.send({"task_problem": [problem.what, problem.where, problem.next_step]})
        return 2
    channel.send({"op": "ready", "pid": os.getpid(), "threads": threading.active_count()})
    return bench.serve()

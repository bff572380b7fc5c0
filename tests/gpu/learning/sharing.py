"""One desk for runs that are processes of their own: they ask over a pipe, and learn at once what any of them asked before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection

from sandbox.errors import WarpsmithError
from trainer.tasks.judging import Asked, Desk
from trainer.tasks.memo import Outcome
from trainer.tasks.task import Task


class SharedDesk:
    """The desk as a run sees it.

    Args:
        device: Of the run.
        pipe: The other end is served.
    """

    def __init__(self, device: str, pipe: Connection) -> None:
        self.device = device
        self.judged = 0
        self._pipe = pipe

    def judge(self, asked: Sequence[Asked]) -> list[Outcome]:
        """Return what each answer comes to, in order.

        Raises:
            WarpsmithError: What the desk raised.
        """
        self._pipe.send([(task.name, answer) for task, answer in asked])
        outcomes, judged = self._pipe.recv()
        if isinstance(outcomes, WarpsmithError):
            raise outcomes
        self.judged = judged
        found: list[Outcome] = outcomes
        return found


def serve(pipe: Connection, desk: Desk, tasks: Mapping[str, Task]) -> None:
    """Answer a run until it ends."""
    while True:
        try:
            asked = [(tasks[name], answer) for name, answer in pipe.recv()]
        except (EOFError, OSError):
            return
        try:
            answer: list[Outcome] | WarpsmithError = desk.judge(asked)
        except WarpsmithError as error:
            answer = error
        try:
            pipe.send((answer, desk.judged))
        except OSError:  # the run was ended meanwhile
            return

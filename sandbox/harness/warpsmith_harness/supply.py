"""How a worker is supplied with inputs, and its answers are compared: one protocol for two ways, ``copies`` and ``crowded``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Protocol, Tuple

from warpsmith_harness.protocol import Message

if TYPE_CHECKING:  # they import torch, which the bench does only once it is known to be there
    from warpsmith_harness.baselines import Baselines
    from warpsmith_harness.questions import Question
    from warpsmith_harness.sharing import Sharing
    from warpsmith_harness.timing import Stopwatch

Answer = Tuple[Message, List[int]]
"""What the parent is told, with the descriptors sent beside it."""


class Supply(Protocol):
    """Draws questions and placements, and puts them where a worker can read them."""

    def draw(self, request: Message) -> Answer:
        """Put a question where the worker can read it, or answer why it is ``skipped``.

        ``variant`` says what is asked (``variants.Variant``), ``worker`` who will answer. With ``more`` the questions drawn
        before are kept beside it; ``calls`` says how many there will be.
        """

    def compare(self, request: Message) -> Message:
        """Compare a worker's answer with a question, ``number`` of those drawn; ``digest`` identifies the answer's bits."""

    def place(self, request: Message) -> Answer:
        """Draw new buffers and contents, and share them with ``worker``."""

    def time(self, stopwatch: Stopwatch, baselines: Baselines, request: Message) -> Message:
        """Time a batch of ``side``; see ``placement.time_side``."""

    def recall(self, request: Message) -> Message:
        """Compare the output of a timed call, made on ``turn``."""

    def prepare(self) -> bool:
        """Do a piece of work for the next verdict; false where there is none left."""

    def make_room(self) -> None:
        """Give back what no worker needs any more, where room is short."""

    def modes(self, modes: List[str]) -> List[str]:
        """Return those baselines that there is room for."""


def judge(question: Question, request: Message, sharing: Sharing, tolerance: str) -> Message:
    """Compare an answer with its question; whatever cannot be read of what a worker sent is the candidate's fault."""
    import torch

    from warpsmith_harness.questions import judge_answer
    from warpsmith_harness.values import checksum

    notes = list(question.exact.notes)
    try:
        outputs, touched = (sharing.read(request[key]) for key in ("outputs", "touched"))
        absent = [int(number) for number in request["absent"] or ()]
        judged = judge_answer(question, outputs, request["structure"], touched, absent, tolerance)
        digest = [checksum(tensor) for tensor in outputs] if request.get("digest") else []
        return {**judged, "notes": notes, "digest": digest}
    except torch.cuda.OutOfMemoryError:
        raise
    except Exception as error:
        return {**uncompared(f"its answer cannot be read: {error}"), "notes": notes}


def uncompared(reason: str) -> Dict[str, Any]:
    """Return the outcome of a comparison in which nothing could be compared."""
    return {"ok": False, "max_abs_error": None, "max_rel_error": None, "reason": reason, "notes": [], "digest": []}

"""A task of a single turn: what the policy is told, and how its answer becomes a candidate that the judge can judge."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Message = dict[str, str]
Files = dict[str, bytes]


class NoAnswer(Exception):
    """The answer holds nothing that could be judged; says why."""


@dataclass(frozen=True, eq=False)
class Task:
    """One reference, and how the policy is asked for something faster.

    Attributes:
        name: Unique among the tasks of a run.
        operator: What tasks have in common that are held out together.
        source: The reference, a KernelBench file (``Model``, ``get_inputs()``, ``get_init_inputs()``).
        messages: What the policy is told, in the form of a chat template's messages.
        opening: How the line begins that is asked for. The contents of the messages are then a text without roles, line by
            line, and the policy goes on from the opening until its line ends; ``candidate`` is given both. Empty where the
            answer is not a single line.
        candidate: Makes the candidate's files of an answer, by their path in a workspace. Raises ``NoAnswer``.
        limit: Tokens of an answer at most; 0 for what is left of the context.
    """

    name: str
    operator: str
    source: str
    messages: Sequence[Message]
    opening: str
    candidate: Callable[[str], Files]
    limit: int

    @property
    def source_sha256(self) -> str:
        """Hash of the reference."""
        return hashlib.sha256(self.source.encode()).hexdigest()

"""Practice for small models: the line of a kernel that decides whether it is right and how fast it is.

Each task reduces every row of a matrix over a region of its columns: ``torch.where(region, f(x), identity).sum(dim=1)`` and
its like. The kernel is given but for one line, and there are two kinds of it. The *range* is what a row's loop goes through: too
narrow, it is wrong (-1); what the region needs and little more is right and several times faster than eager and torch.compile,
which read all of the matrix (3); the whole row is right and not that fast (1 or 2). The *update* is what becomes of the total at
a column: it is right and as fast as its range, or wrong. Some operators are held out, and never asked about in training.

What the policy is told is a list of such lines, each below a comment that says what it is for, and it completes the last one:
models of this size go on with a pattern far better than they follow an instruction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from trainer.tasks.lines import read_range, read_update
from trainer.tasks.reductions import (
    HELD_OUT,
    HELD_OUT_REGIONS,
    OPERATORS,
    REGIONS,
    Operator,
    Region,
    band,
    between,
    first,
    last,
)
from trainer.tasks.row_kernels import candidate_of, reference_of
from trainer.tasks.task import Files, Message, Task

LIMIT = 24
"""Tokens of an answer at most."""


@dataclass(frozen=True)
class Hole:
    """The line that is missing.

    Attributes:
        name: Of the kind.
        opening: How the line begins.
        rules: What the policy is told of all such lines.
        examples: Operators and regions that it is shown the lines of.
    """

    name: str
    opening: str
    rules: str
    examples: Sequence[tuple[Operator, Region]]

    def question(self, operator: Operator, region: Region) -> str:
        """Return the comment above a line, which says what it is for."""
        reduced = f"// {operator.word} of {operator.value}"
        return f"{reduced} where {region.mask}" if self.name == "range" else reduced

    def line(self, operator: Operator, first: str, last: str) -> str:
        """Return the whole line with a range, or with the operator's update."""
        return f"first = {first}, last = {last}" if self.name == "range" else f"total = {operator.update}"


RANGE = Hole(
    "range",
    "first =",
    "int first, last; // the smallest range of columns j that holds all that count",
    tuple(
        zip(
            (*OPERATORS, *OPERATORS[:3]),
            (
                *(band(5), between(16, 80), first(96), last(72), first(12)),
                *(band(30), last(30), between(300, 350), first(60)),
            ),
            strict=True,
        )
    ),
)
UPDATE = Hole(
    "update",
    "total =",
    "// for each value, the total is updated",
    tuple((OPERATORS[number], first(96)) for number in (0, 1, 3, 5)),
)


def practice(device: str, held_out: bool = False) -> list[Task]:
    """Return the tasks for a device (``cpu`` or ``cuda:N``): those of training, or those of other operators."""
    kind = "cpu" if device == "cpu" else "cuda"
    return [_task(line, kind) for line in (_HELD_OUT_LINES if held_out else _LINES)]


def known_answers(task: Task) -> dict[str, str]:
    """Return answers to a task whose worth is known: one that is ``right``, one that is ``wrong``, and the ``whole`` row."""
    line = next(line for line in (*_LINES, *_HELD_OUT_LINES) if line.name == task.name)
    return line.known()


@dataclass(frozen=True)
class _Line:
    """A line that is missing from the kernel of an operator over a region."""

    hole: Hole
    operator: Operator
    region: Region

    @property
    def name(self) -> str:
        return f"{self.hole.name}-of-{self.operator.name}-{self.region.name}"

    def known(self) -> dict[str, str]:
        right = self.hole.line(self.operator, self.region.first, self.region.last)
        if self.hole.name == "update":
            return {"right": right, "wrong": "total = total - value"}
        return {"right": right, "whole": "first = 0, last = columns", "wrong": "first = 0, last = 0"}

    def messages(self) -> Sequence[Message]:
        told = [{"role": "system", "content": self.hole.rules}]
        for operator, region in self.hole.examples:
            told.append({"role": "user", "content": self.hole.question(operator, region)})
            told.append({"role": "assistant", "content": self.hole.line(operator, region.first, region.last)})
        return [*told, {"role": "user", "content": self.hole.question(self.operator, self.region)}]

    def candidate(self, kind: str, answer: str) -> Files:
        begin, end, update = self.region.first, self.region.last, self.operator.update
        if self.hole.name == "range":
            begin, end = read_range(answer)
        else:
            update = read_update(answer)
        return candidate_of(self.operator, self.region, kind, begin, end, update)


def _lines(operators: Sequence[Operator], regions: Sequence[Sequence[Region]]) -> list[_Line]:
    ranges = [_Line(RANGE, each, at) for each, of in zip(operators, regions, strict=True) for at in of]
    return [*ranges, *(_Line(UPDATE, each, of[0]) for each, of in zip(operators, regions, strict=True))]


_LINES = _lines(OPERATORS, REGIONS)
_HELD_OUT_LINES = _lines(HELD_OUT, HELD_OUT_REGIONS)


def _task(line: _Line, kind: str) -> Task:
    return Task(
        name=line.name,
        operator=line.operator.name,
        source=reference_of(line.operator, line.region, kind),
        messages=line.messages(),
        opening=line.hole.opening,
        candidate=partial(line.candidate, kind),
        limit=LIMIT,
    )

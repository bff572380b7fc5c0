"""Practice for small models: the line of a kernel that decides whether it is right and how fast it is.

Each task reduces every row of a matrix over a region of its columns: ``torch.where(region, f(x), identity).sum(dim=1)`` and
its like. The kernel is given but for one line, and there are two kinds of it. The *range* is what a row's loop goes through: too
narrow, it is wrong (-1); what the region needs and little more is right and several times faster than eager and torch.compile,
which read all of the matrix (3); the whole row is right and not that fast (1 or 2). The *update* is what becomes of the total at
a column: it is right and as fast as its range, or wrong. Some operators are held out, and never asked about in training.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from trainer.tasks.task import Files, Message, NoAnswer, Task

LIMIT = 24
"""Tokens of an answer at most."""


@dataclass(frozen=True)
class Operator:
    """A reduction: its name, how PyTorch writes it, its total to begin with, and one right update."""

    name: str
    value: str
    reduction: str
    update: str

    @property
    def identity(self) -> str:
        """The value that leaves a total as it is, as Python writes it."""
        return {"sum": "0.0", "amax": "-math.inf", "amin": "math.inf"}[self.reduction]

    @property
    def start(self) -> str:
        """The same as C++ writes it."""
        return {"sum": "0.0f", "amax": "-INFINITY", "amin": "INFINITY"}[self.reduction]


@dataclass(frozen=True)
class Region:
    """Which columns ``j`` of row ``i`` count: as PyTorch and as C++ write it, and the narrowest range of them."""

    name: str
    mask: str
    condition: str
    first: str
    last: str


OPERATORS = (
    Operator("sum", "x", "sum", "total + value"),
    Operator("largest", "x", "amax", "fmaxf(total, value)"),
    Operator("sum-of-squares", "x * x", "sum", "total + value * value"),
    Operator("sum-of-magnitudes", "x.abs()", "sum", "total + fabsf(value)"),
    Operator("largest-magnitude", "x.abs()", "amax", "fmaxf(total, fabsf(value))"),
    Operator("sum-of-sines", "torch.sin(x)", "sum", "total + sinf(value)"),
)
"""Asked about in training."""

HELD_OUT = (
    Operator("smallest", "x", "amin", "fminf(total, value)"),
    Operator("sum-of-cosines", "torch.cos(x)", "sum", "total + cosf(value)"),
    Operator("smallest-magnitude", "x.abs()", "amin", "fminf(total, fabsf(value))"),
    Operator("sum-of-cubes", "x * x * x", "sum", "total + value * value * value"),
)
"""Never asked about in training."""


def _first(count: int) -> Region:
    return Region(f"first-{count}", f"j < {count}", f"j < {count}", "0", f"{count}")


def _last(count: int) -> Region:
    text = f"j >= columns - {count}"
    return Region(f"last-{count}", text, text, f"columns - {count}", "columns")


def _between(first: int, last: int) -> Region:
    mask, condition = f"(j >= {first}) & (j < {last})", f"j >= {first} && j < {last}"
    return Region(f"from-{first}-to-{last}", mask, condition, f"{first}", f"{last}")


def _band(reach: int) -> Region:
    return Region(
        f"within-{reach}",
        f"(j - i).abs() <= {reach}",
        f"abs(j - i) <= {reach}",
        f"max(0, i - {reach})",
        f"min(columns, i + {reach + 1})",
    )


_CHECKERED = Region("checkered", "(i + j) % 2 == 0", "(i + j) % 2 == 0", "0", "columns")
REGIONS = (
    (_first(24), _between(100, 148), _band(16)),
    (_first(40), _last(20), _between(512, 540)),
    (_last(48), _between(64, 96), _band(20)),
    (_first(32), _last(60), _band(8)),
    (_first(20), _last(36), _between(1000, 1032)),
    (_last(26), _between(150, 190), _band(10)),
)
"""Of each operator in training."""

HELD_OUT_REGIONS = (
    (_first(44), _last(28), _band(14)),
    (_first(28), _last(52), _between(128, 176)),
    (_first(50), _between(640, 680), _band(22)),
    (_last(40), _between(80, 120), _band(18)),
)
"""Of each operator that is held out."""

SHAPES = {"cpu": (512, 4096), "cuda": (2048, 8192)}
"""Rows and columns: so many that reading all of them costs several times what a region needs."""

_REFERENCE = """\
import math

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        i = torch.arange(rows, device=x.device)[:, None]
        j = torch.arange(columns, device=x.device)
        return torch.where({mask}, {value}, {identity}).{reduction}(dim=1)


def get_inputs():
    return [torch.randn({rows}, {columns})]


def get_init_inputs():
    return []
"""

_CANDIDATE = """\
import torch
from torch import nn
from kernels import reduce_rows


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0], device=x.device, dtype=x.dtype)
        reduce_rows(x, out, x.shape[0], x.shape[1])
        return out
"""

_KERNEL = """\
float total = IDENTITY;
int first = FIRST, last = LAST;
for (int j = first; j < last; j++) {
    float value = x[i * columns + j];
    if (condition) total = UPDATE;
}"""


@dataclass(frozen=True)
class Hole:
    """The line that is missing.

    Attributes:
        name: Of the kind.
        opening: How the line begins.
        rules: What the policy is told of it beside the kernel.
        examples: Operators and regions that it is shown the answers to.
    """

    name: str
    opening: str
    rules: str
    examples: Sequence[tuple[Operator, Region]]

    def question(self, operator: Operator, region: Region) -> str:
        """Return what is asked about."""
        if self.name == "range":
            told = f"({operator.value}).{operator.reduction} where {region.mask}"
            return f"PyTorch: {told}\nC++: if ({region.condition})"
        return f"PyTorch: {operator.value} then {operator.reduction}"

    def line(self, operator: Operator, first: str, last: str) -> str:
        """Return the whole line with a range, or with the operator's update."""
        return f"first = {first}, last = {last}" if self.name == "range" else f"total = {operator.update}"


RANGE = Hole(
    "range",
    "first =",
    "Write the smallest range of columns that holds all that count.",
    tuple(zip(OPERATORS, (_first(96), _CHECKERED, _between(16, 80), _last(72), _band(30)), strict=False)),
)
UPDATE = Hole(
    "update",
    "total =",
    "Write how total is updated.",
    tuple((operator, _first(96)) for operator in (OPERATORS[0], OPERATORS[1], OPERATORS[3])),
)
HOLES = (RANGE, UPDATE)


_READ = {
    "cpu": "((const volatile float*)x)[int64_t(i) * columns + j]",
    "cuda": "noted(x[int64_t(i) * columns + j], seen)",
}
_END = {"cpu": "out[i] = total;", "cuda": "out[i] = rows < 0 ? __uint_as_float(seen) : total;"}
"""Every column that the loop goes through is read, though compilers see that only the region counts and would skip the rest."""
_LOOP = """\
float total = {start};
    const int first = {first}, last = {last};
    for (int j = first; j < last; ++j) {{
        const float value = {read};
        if ({condition}) total = {update};
    }}
    {end}"""

_CPP = """\
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>

using std::abs, std::max, std::min;

static void reduce_row(const float* x, float* out, int i, int columns) {{
    {loop}
}}

extern "C" int reduce_rows(const float* x, float* out, int rows, int columns) {{
    for (int i = 0; i < rows; ++i) reduce_row(x, out, i, columns);
    return 0;
}}
"""

_CU = """\
#include <cmath>
#include <cstdint>
#include <cuda_runtime.h>

__device__ float noted(float value, unsigned& seen) {{
    seen ^= __float_as_uint(value);
    return value;
}}

__global__ void reduce_row(const float* x, float* out, int rows, int columns) {{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows) return;
    unsigned seen = 0;
    {loop}
}}

extern "C" int reduce_rows(const float* x, float* out, int rows, int columns, cudaStream_t stream) {{
    reduce_row<<<(rows + 63) / 64, 64, 0, stream>>>(x, out, rows, columns);
    return cudaGetLastError();
}}
"""


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
        rules = f"You complete kernels in C++. For each row i of a matrix:\n{_KERNEL}\n{self.hole.rules}"
        told = [{"role": "system", "content": rules}]
        for operator, region in self.hole.examples:
            told.append({"role": "user", "content": self.hole.question(operator, region)})
            told.append({"role": "assistant", "content": self.hole.line(operator, region.first, region.last)})
        return [*told, {"role": "user", "content": self.hole.question(self.operator, self.region)}]

    def candidate(self, kind: str, answer: str) -> Files:
        first, last, update = self.region.first, self.region.last, self.operator.update
        if self.hole.name == "range":
            first, last = _read_range(answer)
        else:
            update = _read_update(answer)
        loop = _LOOP.format(
            start=self.operator.start,
            first=first,
            last=last,
            read=_READ[kind],
            condition=self.region.condition,
            update=update,
            end=_END[kind],
        )
        template, suffix = (_CPP, "cpp") if kind == "cpu" else (_CU, "cu")
        return {
            "model_new.py": _CANDIDATE.encode(),
            f"kernels/reduce_rows.{suffix}": template.format(loop=loop).encode(),
        }


def _lines(operators: Sequence[Operator], regions: Sequence[Sequence[Region]]) -> list[_Line]:
    ranges = [_Line(RANGE, each, at) for each, of in zip(operators, regions, strict=True) for at in of]
    return [*ranges, *(_Line(UPDATE, each, of[0]) for each, of in zip(operators, regions, strict=True))]


_LINES = _lines(OPERATORS, REGIONS)
_HELD_OUT_LINES = _lines(HELD_OUT, HELD_OUT_REGIONS)


def _task(line: _Line, kind: str) -> Task:
    rows, columns = SHAPES[kind]
    source = _REFERENCE.format(
        mask=line.region.mask,
        value=line.operator.value,
        identity=line.operator.identity,
        reduction=line.operator.reduction,
        rows=rows,
        columns=columns,
    )
    return Task(
        name=line.name,
        operator=line.operator.name,
        source=source,
        messages=line.messages(),
        opening=line.hole.opening,
        candidate=partial(line.candidate, kind),
        limit=LIMIT,
    )


_RANGE = re.compile(r"first\s*=\s*(.+?)\s*[,;]\s*last\s*=\s*(.+?)\s*;?")
_UPDATE = re.compile(r"total\s*=\s*(.+?)\s*;?")
_TOKEN = re.compile(r"\s*(\d+\.\d*f?|\d*\.\d+f?|\d+|[A-Za-z_]\w*|<=|>=|==|!=|&&|\|\||[-+*/%<>?:(),!])")
_OF_A_RANGE = frozenset({"i", "rows", "columns", "min", "max", "abs"})
_OF_AN_UPDATE = frozenset({"total", "value", "i", "j", "min", "max", "abs"}) | {
    f"{name}{suffix}" for name in ("fmin", "fmax", "fabs", "sin", "cos", "sqrt", "exp", "pow") for suffix in ("", "f")
}


def _read_range(answer: str) -> tuple[str, str]:
    found = _RANGE.fullmatch(_first_line(answer))
    if found is None:
        raise NoAnswer("The line does not have the form 'first = ..., last = ...'.")
    return _expression(found[1], _OF_A_RANGE), _expression(found[2], _OF_A_RANGE)


def _read_update(answer: str) -> str:
    found = _UPDATE.fullmatch(_first_line(answer))
    if found is None:
        raise NoAnswer("The line does not have the form 'total = ...'.")
    return _expression(found[1], _OF_AN_UPDATE)


def _first_line(answer: str) -> str:
    return answer.strip().partition("\n")[0].strip()


def _expression(text: str, names: frozenset[str]) -> str:
    """Return an expression laid out in one way, so that answers which say the same are one candidate."""
    parts, place = [], 0
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            raise NoAnswer(f"{text!r} is no expression of C++.")
        parts.append(found[1])
        place = found.end()
    unknown = [part for part in parts if (part[0].isalpha() or part[0] == "_") and part not in names]
    if unknown:
        raise NoAnswer(f"The kernel knows no {unknown[0]!r} there.")
    if not _balanced(parts):
        raise NoAnswer(f"Parentheses of {text!r} do not match.")
    return " ".join(parts)


def _balanced(parts: Sequence[str]) -> bool:
    depth = 0
    for part in parts:
        depth += (part == "(") - (part == ")")
        if depth < 0:
            return False
    return depth == 0

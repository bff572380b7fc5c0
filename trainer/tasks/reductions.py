"""Reductions of the rows of a matrix over a region of its columns: what practice is about."""

from __future__ import annotations

from dataclasses import dataclass


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
    def word(self) -> str:
        """What the reduction is called in a sentence."""
        return {"sum": "sum", "amax": "largest", "amin": "smallest"}[self.reduction]

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


def first(count: int) -> Region:
    """The first columns of every row."""
    return Region(f"first-{count}", f"j < {count}", f"j < {count}", "0", f"{count}")


def last(count: int) -> Region:
    """The last columns of every row."""
    text = f"j >= columns - {count}"
    return Region(f"last-{count}", text, text, f"columns - {count}", "columns")


def between(first: int, last: int) -> Region:
    """The columns from ``first`` to ``last - 1`` of every row."""
    mask, condition = f"(j >= {first}) & (j < {last})", f"j >= {first} && j < {last}"
    return Region(f"from-{first}-to-{last}", mask, condition, f"{first}", f"{last}")


def band(reach: int) -> Region:
    """The columns that are at most so far from the diagonal."""
    return Region(
        f"within-{reach}",
        f"(j - i).abs() <= {reach}",
        f"abs(j - i) <= {reach}",
        f"max(0, i - {reach})",
        f"min(columns, i + {reach + 1})",
    )


REGIONS = (
    (first(24), between(100, 148), band(16)),
    (first(40), last(20), between(512, 540)),
    (last(48), between(64, 96), band(20)),
    (first(32), last(60), band(8)),
    (first(20), last(36), between(1000, 1032)),
    (last(26), between(150, 190), band(10)),
)
"""Of each operator in training."""

HELD_OUT_REGIONS = (
    (first(44), last(28), band(14)),
    (first(28), last(52), between(128, 176)),
    (first(50), between(640, 680), band(22)),
    (last(40), between(80, 120), band(18)),
)
"""Of each operator that is held out."""

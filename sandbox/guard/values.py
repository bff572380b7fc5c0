"""What the guard knows of a value in the candidate's Python code without running it."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace

TENSOR = "tensor"  # may be a tensor
HOLDS = "holds"  # may be a list, tuple or dictionary that holds tensors
INPUT = "input"  # comes from an argument of forward
ADDRESS = "address"  # tells one input from another: an address, an id, a version

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Scope = tuple[int, bool]


@dataclass(frozen=True)
class Function:
    """A function of the file: its node, the class it belongs to, whether ``self`` is bound, and where it was made."""

    node: FunctionNode
    owner: str = ""
    bound: bool = False
    scope: Scope | None = None


@dataclass(frozen=True)
class Value:
    """Everything a value may be.

    Attributes:
        tags: ``TENSOR``, ``HOLDS``, ``INPUT``, ``ADDRESS``.
        refs: Dotted names from outside the file it may stand for (``torch.matmul``); with ``()`` an instance of one.
        functions: Functions of the file it may be.
        classes: Classes of the file it may be.
        instances: Classes of the file it may be an instance of.
        items: Its parts, where it is a tuple of known length.
    """

    tags: frozenset[str] = frozenset()
    refs: frozenset[str] = frozenset()
    functions: frozenset[Function] = frozenset()
    classes: frozenset[str] = frozenset()
    instances: frozenset[str] = frozenset()
    items: tuple[Value, ...] | None = field(default=None)

    def __or__(self, other: Value) -> Value:
        """Return a value that may be either."""
        if self == other or other == PLAIN:
            return self
        if self == PLAIN:
            return other
        items = None
        if self.items is not None and other.items is not None and len(self.items) == len(other.items):
            items = tuple(a | b for a, b in zip(self.items, other.items, strict=True))
        return Value(
            self.tags | other.tags,
            self.refs | other.refs,
            self.functions | other.functions,
            self.classes | other.classes,
            self.instances | other.instances,
            items,
        )

    @property
    def is_tensor(self) -> bool:
        """Whether it may itself be a tensor."""
        return TENSOR in self.tags

    @property
    def carries(self) -> bool:
        """Whether it may be a tensor or hold one."""
        return bool({TENSOR, HOLDS} & self.tags)

    def held(self) -> Value:
        """Return a container of it."""
        tags = (self.tags - {TENSOR}) | ({HOLDS} if self.carries else set())
        return replace(self, tags=frozenset(tags), items=None)

    def element(self) -> Value:
        """Return what iterating over it or indexing it gives."""
        tags = (self.tags - {HOLDS}) | ({TENSOR} if HOLDS in self.tags else set())
        return replace(self, tags=frozenset(tags), items=None)

    def tags_only(self) -> Value:
        """Return a value with the same tags and nothing else."""
        return Value(self.tags)


PLAIN = Value()
A_TENSOR = Value(frozenset({TENSOR}))
AN_INPUT = Value(frozenset({TENSOR, INPUT}))


def joined(values: list[Value] | tuple[Value, ...]) -> Value:
    """Return a value that may be any of these."""
    result = PLAIN
    for value in values:
        result = result | value
    return result

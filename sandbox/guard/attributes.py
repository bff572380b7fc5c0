"""What an attribute of a value in the candidate's Python code may be."""

from __future__ import annotations

import ast
from dataclasses import replace

from sandbox.guard.calls import Calls
from sandbox.guard.state import Frame, State, decorators
from sandbox.guard.torch_names import (
    ADDRESSES,
    CONTEXT_METHODS,
    MODULE_METHODS,
    MODULE_SCALARS,
    QUESTION_METHODS,
    VIEW_METHODS,
)
from sandbox.guard.values import A_TENSOR, ADDRESS, INPUT, PLAIN, Value, joined

CONTEXT = "ctx:"
"""Prefix of the pseudo-class of a ``torch.autograd.Function``'s context."""


class Attributes:
    """Looks attributes up on instances and classes of the file, on things of torch, and on tensors."""

    def __init__(self, state: State, calls: Calls) -> None:
        self.state = state
        self.calls = calls

    def of(self, value: Value, name: str, frame: Frame) -> Value:
        """Return what ``value.name`` may be."""
        found = [self._of_instance(each, name, frame) for each in value.instances]
        found += [self._of_class(each, name) for each in value.classes]
        found += [_of_outside(each, name) for each in value.refs if not (value.is_tensor and "()." in each)]
        if value.is_tensor:
            found.append(_of_tensor(value, name))
        return joined(found)

    def _of_instance(self, owner: str, name: str, frame: Frame) -> Value:
        methods = self.state.methods(owner, name)
        kept = self.state.get_attribute(owner, name)
        if methods and {"property", "cached_property"} & decorators(methods[0].node):
            itself = Value(instances=frozenset({owner}))
            return joined([self.calls.call_function(each, [], {}, frame, itself=itself) for each in methods])
        if methods:
            return Value(functions=frozenset(methods)) | (kept or PLAIN)
        if kept is not None:
            return kept
        if owner.startswith(CONTEXT):
            return A_TENSOR.held() if name == "saved_tensors" else Value(refs=frozenset({_context_ref(name)}))
        return joined([_of_outside(f"{base}()", name) for base in self.state.foreign_bases(owner)])

    def _of_class(self, owner: str, name: str) -> Value:
        methods = self.state.methods(owner, name)
        if methods:
            return Value(functions=frozenset(replace(each, bound=_takes_class(each.node)) for each in methods))
        if name == "apply" and self.calls.is_autograd_function(owner):
            return Value(refs=frozenset({f"autograd:{owner}"}))
        return self.state.get_attribute(owner, name) or PLAIN


def _takes_class(node: ast.AST) -> bool:
    return "classmethod" in decorators(node)


def _context_ref(name: str) -> str:
    return f"context.{name}" if name in CONTEXT_METHODS else f"unknown.{name}"


def _of_outside(ref: str, name: str) -> Value:
    """Return an attribute of something from outside; of a module of torch, a number or maybe a parameter."""
    dotted = Value(refs=frozenset({f"{ref}.{name}"}))
    if not (ref.startswith("torch.nn.") and ref.endswith("()")):
        return dotted
    if name in MODULE_SCALARS:
        return PLAIN
    return dotted if ref == "torch.nn.Module()" or name in MODULE_METHODS or name == "forward" else dotted | A_TENSOR


def _of_tensor(value: Value, name: str) -> Value:
    method = Value(refs=frozenset({f"tensor.{name}"}))
    if name in ADDRESSES and INPUT in value.tags:
        return method | Value(frozenset({ADDRESS}))
    if name in QUESTION_METHODS:
        return method
    return method | value.tags_only() if name in VIEW_METHODS else method

"""What is kept of a class's calls, and how it is written as a capture."""

from __future__ import annotations

import inspect
import weakref
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple

import torch
from torch import nn

from . import constructors, portrait, shapes
from .shared import span, summary, values

_WIDEST_GAP = 4

Signature = Tuple[str, Tuple[Tuple[str, Tuple[int, ...]], ...], bool, str, str]
"""Structure of the arguments, kinds (dtype and layout) and shapes of their tensors, train mode, autocast, grad mode."""
Kind = Tuple[str, Tuple[str, ...], str]
"""Structure of the arguments, kinds of their tensors, autocast: calls that differ in nothing else make one task."""


@dataclass
class Call:
    """One call: its inputs as they were before it, and what surrounded it.

    Attributes:
        tensors, structure: The arguments, flattened.
        described: What is told of each tensor.
        context: ``training``, ``autocast``, ``grad_mode``, ``tf32``.
        records: Whether its output had gradients.
    """

    tensors: List[torch.Tensor]
    structure: Any
    described: List[Dict[str, Any]]
    context: Dict[str, Any]
    records: bool = False


@dataclass
class Build:
    """Modules of one class that are built alike, their calls, and what one of them is like.

    Attributes:
        cls: The class.
        owner: The module that was looked at.
        arguments: What it was constructed with, where that is known.
        state_kind: Name, dtype and shape of each of the state's tensors.
        counts: Calls by signature.
        kept: The inputs of some of those.
        portrait: Modes, attributes, parts, notes and state; empty before the first call that is kept.
        state: Copies of the state, where they were made at once.
    """

    cls: type
    owner: weakref.ref[nn.Module]
    arguments: Optional[constructors.Arguments]
    state_kind: Tuple[Any, ...]
    counts: Dict[Signature, int] = field(default_factory=dict)
    kept: Dict[Signature, Call] = field(default_factory=dict)
    portrait: Dict[str, Any] = field(default_factory=dict)
    state: Dict[str, torch.Tensor] = field(default_factory=dict)

    def alike(self, signature: Signature) -> List[Signature]:
        """Return the signatures of the calls that are of the same kind as one."""
        return [each for each in self.counts if kind_of(each) == kind_of(signature)]

    def forms(self) -> List[Form]:
        """Return, for each kind of its calls, that of the kept ones which most data went through."""
        chosen: Dict[Kind, Signature] = {}
        for each in sorted(self.kept, key=lambda each: self.counts[each] * _elements(each)):
            chosen[kind_of(each)] = each
        return [Form(self, each) for each in chosen.values()]

    def look_at_state(self, limit: int) -> int:
        """Describe the module and copy its state if it is no larger than ``limit``; return the bytes that were copied."""
        module = self.owner()
        if module is None:
            return 0
        self.portrait = {
            "modes": portrait.modes(module),
            "attributes": portrait.attributes(module),
            "parts": portrait.parts(module),
            "notes": portrait.hooks(module),
            "state": {
                "tensors": portrait.described_state(module),
                "baked": {name: made_of for name, (_, made_of) in portrait.baked(module).items()},
                "ties": portrait.ties(module),
                "copied": False,
            },
        }
        return self.copy_state(limit)

    def copy_state(self, limit: int) -> int:
        """Copy the module's state if it still lives, and has no more than ``limit`` bytes; return how many those were."""
        module = self.owner()
        tensors = {} if module is None or self.state else portrait.whole_state(module)
        size = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
        if not tensors or size > limit:
            return 0
        self.state = {name: copied(tensor) for name, tensor in tensors.items()}
        return size


@dataclass(frozen=True)
class Form:
    """One way in which a class is built and called: a build, and the signature of a kept call of it."""

    build: Build
    signature: Signature

    @property
    def calls(self) -> int:
        """How many calls of this kind there were."""
        return sum(self.build.counts[each] for each in self.build.alike(self.signature))

    @property
    def weight(self) -> int:
        """How many elements all calls of this kind were made with."""
        return sum(self.build.counts[each] * _elements(each) for each in self.build.alike(self.signature))

    def write(self, folder: Path) -> Dict[str, Any]:
        """Write tensors and arguments into a folder; return what the manifest says of them."""
        build, call = self.build, self.build.kept[self.signature]
        names = argument_names(build.cls, call.structure)
        torch.save(call.tensors, folder / "inputs.pt")
        described = build.portrait["state"]
        described["copied"] = bool(build.state) or not described["tensors"]
        if described["copied"]:
            torch.save(build.state, folder / "state.pt")
        dynamic, notes = _sizes(build.alike(self.signature), self.signature, call, names)
        notes = [*build.portrait["notes"], *notes, *_aliases(names, call)]
        if not described["copied"]:
            notes.append(
                "its state was described and not copied: it is judged with values of the same mean and spread; "
                "record with --capture-weights to have it copied"
            )
        return {
            **build.portrait,
            **call.context,
            "form_calls": self.calls,
            "gradients": call.records,
            "structure": call.structure,
            "inputs": [{"name": name, **each} for name, each in zip(names, call.described)],
            "plain": _plain(build.cls, call.structure),
            "dynamic": dynamic,
            "init_missing": _write_arguments(build.arguments, build.cls, folder),
            "notes": [f"Of the captured {build.cls.__name__}: {note}." for note in notes],
        }


def kind_of(signature: Signature) -> Kind:
    """Return the kind of the calls of a signature."""
    return signature[0], tuple(kind for kind, _ in signature[1]), signature[3]


def tensor_kind(tensor: torch.Tensor) -> str:
    """Return a tensor's dtype and layout: kernels are written for some of either."""
    return f"{tensor.dtype} {values.layout_of(tensor)}".rstrip()


def keep(tensors: List[torch.Tensor], structure: Any, context: Dict[str, Any]) -> Call:
    """Copy the inputs of a call; one that is given twice is copied once."""
    copies: Dict[int, torch.Tensor] = {}
    for tensor in tensors:
        if id(tensor) not in copies:
            copies[id(tensor)] = copied(tensor)
    told = [{**portrait.described(tensor), "same_memory": _shared(tensors, i)} for i, tensor in enumerate(tensors)]
    return Call([copies[id(tensor)] for tensor in tensors], structure, told, context)


def copied(tensor: torch.Tensor) -> torch.Tensor:
    """Copy a tensor to the CPU with its strides; a narrow view of much memory is copied without the gaps."""
    plain = tensor.detach().resolve_conj().resolve_neg()
    if span(plain) > _WIDEST_GAP * max(1, plain.numel()):
        return plain.to("cpu", copy=True).contiguous()
    memory = plain.as_strided((span(plain),), (1,)).to("cpu", copy=True)
    return memory.as_strided(plain.shape, plain.stride(), 0)


def positional_names(cls: type) -> List[str]:
    """Return the names of the parameters that a class's forward takes by position."""
    parameters = list(inspect.signature(cls.forward).parameters.values())[1:]  # type: ignore[attr-defined]
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def argument_names(cls: type, structure: Any) -> List[str]:
    """Return a name for each tensor among the arguments of a forward, in order."""
    return [name for key, each in _bound(cls, structure).items() for name in values.names(each, key)]


def _bound(cls: type, structure: Any) -> Dict[str, Any]:
    """Return the structure of each argument by the name that forward has for it."""
    positional, named = structure["content"][0]["content"], dict(structure["content"][1]["content"])
    names = positional_names(cls)
    by_position = {names[i] if i < len(names) else f"args[{i}]": each for i, each in enumerate(positional)}
    return {**by_position, **named}


def _plain(cls: type, structure: Any) -> Dict[str, Any]:
    """Return what was no tensor among the arguments: numbers, strings and None by name, such as ``size[0]``."""
    return {name: leaf for key, each in _bound(cls, structure).items() for name, leaf in _leaves(key, each)}


def _leaves(name: str, structure: Any) -> Iterator[Tuple[str, Any]]:
    kind, content = structure["kind"], structure.get("content")
    if kind == "plain":
        yield name, content
    elif kind in ("tuple", "list"):
        for index, each in enumerate(content):
            yield from _leaves(f"{name}[{index}]", each)
    elif kind == "dict":
        for key, each in content:
            yield from _leaves(f"{name}[{key!r}]", each)


def _elements(signature: Signature) -> int:
    return sum(max(1, torch.Size(shape).numel()) for _, shape in signature[1])


def _write_arguments(arguments: Optional[constructors.Arguments], cls: type, folder: Path) -> str:
    """Write constructor arguments; return why there are none."""
    if arguments is None:
        return f"Nobody saw {cls.__name__} being constructed: it was unpickled, or made before the recording began."
    try:
        inspect.signature(cls.__init__).bind(None, *arguments[0], **arguments[1])  # type: ignore[misc]
        torch.save(arguments, folder / "init.pt")
    except Exception as error:  # the developer's classes may raise anything when they are pickled
        (folder / "init.pt").unlink(missing_ok=True)
        return f"The constructor arguments of {cls.__name__} cannot be kept: {summary(error)}."
    return ""


def _shared(tensors: List[torch.Tensor], index: int) -> List[int]:
    """Return the numbers of other tensors that lie in the same memory."""
    storage = tensors[index].untyped_storage().data_ptr()
    return [
        other
        for other, tensor in enumerate(tensors)
        if other != index and tensor.numel() and tensor.untyped_storage().data_ptr() == storage
    ]


def _aliases(names: List[str], call: Call) -> List[str]:
    groups = {tuple(sorted([index, *told["same_memory"]])) for index, told in enumerate(call.described)}
    return [
        f"{', '.join(names[index] for index in group)} shared memory in your run, and are judged apart"
        for group in sorted(groups)
        if len(group) > 1
    ]


def _sizes(
    alike: List[Signature], signature: Signature, call: Call, names: List[str]
) -> Tuple[List[Dict[str, Any]], List[str]]:
    """Return the sizes that vary, and what is said of those that do and cannot be declared."""
    every = [tuple(shape for _, shape in other[1]) for other in alike]
    floating = [told["dtype"].startswith(("float", "bfloat", "complex")) for told in call.described]
    largest = [-1.0 if is_float else float(told.get("high", -1)) for is_float, told in zip(floating, call.described)]
    declared, notes = [], []
    for group in shapes.varying(names, every, tuple(shape for _, shape in signature[1])):
        pointing = shapes.pointed_at(group, names, floating, largest)
        sizes = f"{' = '.join(group['dims'])} was from {group['low']} to {group['high']}"
        if pointing:
            notes.append(f"{sizes}, and stays as most calls had it: {', '.join(pointing)} may point into it")
        else:
            declared.append(group)
            notes.append(f"{sizes}, which is the range it is judged in")
    return declared, notes

"""Keeps what the first calls of a module class were given in the developer's own run, so that a task can be made of it.

A capture is a folder:

- ``manifest.json``: ``module``, ``file``, ``class``, ``main`` (the script), ``python``; ``training``, ``modes`` of parts,
  ``autocast`` (a dtype or empty), ``grad_mode``, ``gradients`` (whether the output had some), ``tf32``; ``structure`` of the
  inputs, ``inputs`` (name, shape, strides, dtype, statistics, ``same_memory``), ``plain`` (arguments that are no tensors),
  ``dynamic`` sizes, ``calls``; ``state`` (``tensors``, ``baked``, ``ties``, ``copied``), ``attributes``, ``parts``; ``notes``;
  ``refused`` with ``next_step`` where no task can be made of it.
- ``inputs.pt``: the input tensors; ``state.pt``: the state, where it was copied; ``init.pt``: constructor arguments, pickled.

Runs in the developer's process: it must never change what that does, nor end it.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import weakref
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Collection, Dict, List, Optional, Set, Tuple

import torch
from torch import nn

from . import constructors, portrait, shapes
from .shared import span, summary, values

SCHEMA = "warpsmith.capture/1"
STATE_LIMIT = 64 * 1024 * 1024
"""Bytes of state that are copied without being asked for; more is described."""
_KEPT = 3
"""Calls of different shapes whose inputs are kept for each class."""
_SIGNATURES = 1000
_WIDEST_GAP = 4

Signature = Tuple[str, Tuple[Tuple[str, Tuple[int, ...]], ...], bool, str, str]


class Refused(Exception):
    """A module cannot become a task: ``reason``, and ``next_step`` to take."""

    def __init__(self, reason: str, next_step: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.next_step = next_step


@dataclass
class _Call:
    """The inputs of one call, copied before it."""

    tensors: List[torch.Tensor]
    structure: Any
    described: List[Dict[str, Any]]
    context: Dict[str, Any]
    records: bool = False


@dataclass
class _Seen:
    """What is known of a class."""

    cls: type
    calls: int = 0
    counts: Dict[Signature, int] = field(default_factory=dict)
    kept: Dict[Signature, _Call] = field(default_factory=dict)
    portrait: Dict[str, Any] = field(default_factory=dict)
    owner: Optional[weakref.ref[nn.Module]] = None
    arguments: Optional[constructors.Arguments] = None
    refused: Optional[Refused] = None


class Capture:
    """Watches calls of modules, and writes captures of those classes that are wanted in the end.

    Args:
        folder: Where captures are written, one folder a class.
        classes: Keys (``portrait.class_key``) of the classes to keep inputs of; None for all.
        budget_bytes: What the kept inputs of all classes may come to.
        copy_weights: Copy the state whatever its size.
    """

    def __init__(
        self, folder: Path, classes: Optional[Collection[str]], budget_bytes: int, copy_weights: bool = False
    ) -> None:
        self._folder = Path(folder)
        self._classes = None if classes is None else set(classes)
        self._budget = budget_bytes
        self._copy_weights = copy_weights
        self._seen: Dict[str, _Seen] = {}
        self._running: Set[int] = set()
        self._open: Dict[int, _Call] = {}

    def constructed(self, module: nn.Module, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        """Note what a module is constructed with, where ``constructors.note_constructors`` does not."""
        constructors.note(module, args, kwargs)

    def before(self, module: nn.Module, args: Tuple[Any, ...], kwargs: Optional[Dict[str, Any]] = None) -> None:
        """Look at a call that is about to be made, and keep its inputs if it is one of the first of its kind.

        Without ``kwargs`` they are looked up: torch does not tell them to a global hook.
        """
        inner = portrait.unwrapped(module)
        if id(inner) in self._running or _is_traced() or portrait.is_lazy(inner):
            return
        key = portrait.class_key(inner)
        if self._classes is not None and key not in self._classes:
            return
        self._running.add(id(inner))
        seen = self._seen.setdefault(key, _Seen(portrait.class_of(inner)))
        seen.calls += 1
        if seen.refused is not None:
            return
        try:
            self._look(seen, inner, args, _kwargs_of(module) if kwargs is None else kwargs)
        except Refused as refused:
            seen.refused = refused
        except Exception as error:  # the developer's run goes on, whatever their classes do to being looked at
            seen.refused = Refused(f"Looking at it raises {summary(error)}.", "Capture a part of it.")

    def after(self, module: nn.Module, output: Any) -> None:
        """Look at what a call returned."""
        inner = portrait.unwrapped(module)
        self._running.discard(id(inner))
        call = self._open.pop(id(inner), None)
        if call is None:
            return
        try:
            outputs, _ = values.flatten(output)
        except values.Unsupported as error:
            self._seen[portrait.class_key(inner)].refused = Refused(
                f"Its forward returns {error}, which cannot be compared.",
                "Capture a part of it whose forward returns tensors, or tuples, lists and dicts of them.",
            )
            return
        call.records = any(tensor.requires_grad for tensor in outputs)

    def finish(self, chosen: Collection[str]) -> Dict[str, Path]:
        """Write the captures of these classes and return the folder of each; a manifest says what could not be captured."""
        return {key: self._write(key, self._seen[key]) for key in chosen if key in self._seen}

    # --- Looking ----------------------------------------------------------------------------------------------------

    def _look(self, seen: _Seen, module: nn.Module, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        try:
            tensors, structure = values.flatten((args, kwargs))
        except values.Unsupported as error:
            raise Refused(
                f"It is called with {error}, which cannot be passed on to another process.",
                "Capture a part of it that is called with tensors and plain values, or call it without that argument.",
            ) from error
        context = _context()
        kinds = tuple((str(tensor.dtype), tuple(tensor.shape)) for tensor in tensors)
        signature = (repr(structure), kinds, module.training, context["autocast"], context["grad_mode"])
        if signature in seen.counts or len(seen.counts) < _SIGNATURES:
            seen.counts[signature] = seen.counts.get(signature, 0) + 1
        if signature in seen.kept or len(seen.kept) >= _KEPT:
            return
        if not seen.kept:
            self._look_at_module(seen, module)
        call = self._copied(tensors, structure, {**context, "training": module.training})
        seen.kept[signature] = self._open[id(module)] = call

    def _look_at_module(self, seen: _Seen, module: nn.Module) -> None:
        _require_class(seen.cls)
        seen.owner = weakref.ref(module)
        seen.arguments = constructors.arguments_of(module)
        seen.portrait = {
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

    def _copied(self, tensors: List[torch.Tensor], structure: Any, context: Dict[str, Any]) -> _Call:
        for tensor in tensors:
            _require_plain(tensor)
        size = sum(span(tensor) * tensor.element_size() for tensor in tensors)
        if size > self._budget:
            raise Refused(
                f"Its inputs are {size:,} bytes, and {self._budget:,} are left for captures.",
                "Record with smaller inputs, or fewer classes.",
            )
        self._budget -= size
        copies: Dict[int, torch.Tensor] = {}
        kept = [copies.setdefault(id(tensor), _copy(tensor)) for tensor in tensors]
        told = [
            {**portrait.described(tensor), "same_memory": _shared(tensors, index)}
            for index, tensor in enumerate(tensors)
        ]
        return _Call(kept, structure, told, context)

    # --- Writing ----------------------------------------------------------------------------------------------------

    def _write(self, key: str, seen: _Seen) -> Path:
        folder = self._folder / key.partition(":")[2]
        if (folder / "manifest.json").exists():  # another class of that name
            folder = self._folder / key.replace(":", ".")
        folder.mkdir(parents=True, exist_ok=True)
        manifest = {"schema": SCHEMA, "calls": seen.calls, "python": sys.executable, **_place(seen.cls), **_NOTHING}
        try:
            if seen.refused is not None:
                raise seen.refused
            if not seen.kept:
                raise Refused("None of its calls could be kept.", "Record for longer, or capture a part of it.")
            manifest.update(self._contents(seen, folder))
        except Refused as refused:
            manifest.update(refused=refused.reason, next_step=refused.next_step)
        except Exception as error:  # what the developer's classes do to being written
            manifest.update(refused=f"Writing it raises {summary(error)}.", next_step="Capture a part of it.")
        unfinished = folder / f".manifest-{os.getpid()}"
        unfinished.write_text(json.dumps(manifest, indent=1))
        unfinished.replace(folder / "manifest.json")
        return folder

    def _contents(self, seen: _Seen, folder: Path) -> Dict[str, Any]:
        """Write tensors and arguments; return what the manifest says of them."""
        signature = max(seen.kept, key=lambda each: seen.counts[each])
        call = seen.kept[signature]
        names = _names(seen.cls, call.structure)
        torch.save(call.tensors, folder / "inputs.pt")
        state, missing = seen.portrait["state"], _write_arguments(seen.arguments, seen.cls, folder)
        state["copied"] = self._write_state(seen, folder)
        dynamic, notes = _sizes(seen, signature, call, names)
        notes = [*seen.portrait["notes"], *notes, *_aliases(names, call)]
        if not state["copied"]:
            notes.append("its state was described and not copied: it is judged with values of the same mean and spread")
        told = [{"name": name, **each} for name, each in zip(names, call.described)]
        return {
            **seen.portrait,
            **call.context,
            "gradients": call.records,
            "structure": call.structure,
            "inputs": told,
            "plain": _plain(seen.cls, call.structure),
            "dynamic": dynamic,
            "init_missing": missing,
            "notes": [f"Of the captured {seen.cls.__name__}: {note}." for note in notes],
        }

    def _write_state(self, seen: _Seen, folder: Path) -> bool:
        module = seen.owner() if seen.owner is not None else None
        if module is None:
            return False
        tensors = {**portrait.state_tensors(module), **{n: t for n, (t, _) in portrait.baked(module).items()}}
        size = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
        if size > STATE_LIMIT and not self._copy_weights:
            return False
        torch.save({name: _copy(tensor) for name, tensor in tensors.items()}, folder / "state.pt")
        return True


_NOTHING = {"refused": "", "next_step": ""}


# --- What surrounds a call ------------------------------------------------------------------------------------------


def _kwargs_of(module: nn.Module) -> Dict[str, Any]:
    """Return the keyword arguments of the call of a module that is on the stack."""
    frame: Optional[FrameType] = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__") == "torch.nn.modules.module" and frame.f_locals.get("self") is module:
            return dict(frame.f_locals.get("kwargs", {}))
        frame = frame.f_back
    return {}


def _is_traced() -> bool:
    """Whether what happens is not a call but its tracing."""
    jit: Any = torch.jit
    return bool(jit.is_tracing() or torch.compiler.is_compiling())


def _context() -> Dict[str, Any]:
    grad_mode = "inference" if torch.is_inference_mode_enabled() else "grad" if torch.is_grad_enabled() else "no_grad"
    autocast = ""
    for device in ("cuda", "cpu"):
        if torch.is_autocast_enabled(device):
            autocast = autocast or str(torch.get_autocast_dtype(device)).partition(".")[2]
    return {"grad_mode": grad_mode, "autocast": autocast, "tf32": bool(torch.backends.cuda.matmul.allow_tf32)}


def _place(cls: type) -> Dict[str, str]:
    module = sys.modules.get(cls.__module__)
    file = getattr(module, "__file__", None)
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    return {
        "module": cls.__module__,
        "class": cls.__qualname__,
        "file": str(Path(file).resolve()) if file else "",
        "main": str(Path(main).resolve()) if main else "",
    }


# --- What cannot be captured ----------------------------------------------------------------------------------------


def _require_class(cls: type) -> None:
    """Raise Refused for a class that no file of the developer's defines at its top level."""
    place = _place(cls)
    if issubclass(cls, torch.jit.ScriptModule) or issubclass(cls, torch.fx.GraphModule):
        raise Refused(
            "Its code was generated, and no source file has it.", "Record the run without scripting or tracing."
        )
    if cls.__module__.startswith("torch.") or cls.__module__ == "torch":
        raise Refused("It is torch's own.", "Capture the class of yours that uses it.")
    if "." in cls.__qualname__:
        raise Refused(
            f"{cls.__qualname__} is defined inside a function or another class.",
            "Move the class to the top level of its file.",
        )
    if not place["file"].endswith(".py"):
        raise Refused(f"No source file defines it ({place['file'] or 'none'}).", "Move the class to a .py file.")


def _require_plain(tensor: torch.Tensor) -> None:
    """Raise Refused for a tensor that is more, or less, than numbers in memory."""
    if type(tensor) not in (torch.Tensor, nn.Parameter, nn.Buffer if hasattr(nn, "Buffer") else nn.Parameter):
        raise Refused(
            f"It is called with a {type(tensor).__module__}.{type(tensor).__qualname__}, a tensor of a class of its own.",
            "Capture a part of it that is called with plain tensors.",
        )
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_nested or tensor.is_meta:
        kind = "quantised" if tensor.is_quantized else "nested" if tensor.is_nested else str(tensor.layout)
        raise Refused(
            f"It is called with a tensor that is not dense numbers in memory ({'meta' if tensor.is_meta else kind}).",
            "Capture a part of it that is called with dense tensors.",
        )


# --- Tensors --------------------------------------------------------------------------------------------------------


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    """Copy a tensor to the CPU with its strides; a narrow view of much memory is copied without the gaps."""
    plain = tensor.detach().resolve_conj().resolve_neg()
    if span(plain) > _WIDEST_GAP * max(1, plain.numel()):
        return plain.to("cpu", copy=True).contiguous()
    memory = plain.as_strided((span(plain),), (1,)).to("cpu", copy=True)
    return memory.as_strided(plain.shape, plain.stride(), 0)


def _shared(tensors: List[torch.Tensor], index: int) -> List[int]:
    """Return the numbers of other tensors that lie in the same memory."""
    storage = tensors[index].untyped_storage().data_ptr()
    return [
        other
        for other, tensor in enumerate(tensors)
        if other != index and tensor.numel() and tensor.untyped_storage().data_ptr() == storage
    ]


def _aliases(names: List[str], call: _Call) -> List[str]:
    groups = {tuple(sorted([index, *told["same_memory"]])) for index, told in enumerate(call.described)}
    return [
        f"{', '.join(names[index] for index in group)} shared memory in your run, and are judged apart"
        for group in sorted(groups)
        if len(group) > 1
    ]


# --- Arguments ------------------------------------------------------------------------------------------------------


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


def _bound(cls: type, structure: Any) -> Dict[str, Any]:
    """Return the structure of each argument by the name that forward has for it."""
    positional, named = structure["content"][0]["content"], dict(structure["content"][1]["content"])
    parameters = list(inspect.signature(cls.forward).parameters.values())[1:]  # type: ignore[attr-defined]
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    by_position = {
        names[index] if index < len(names) else f"args[{index}]": each for index, each in enumerate(positional)
    }
    return {**by_position, **named}


def _names(cls: type, structure: Any) -> List[str]:
    return [name for key, each in _bound(cls, structure).items() for name in values.names(each, key)]


def _plain(cls: type, structure: Any) -> Dict[str, Any]:
    return {key: each["content"] for key, each in _bound(cls, structure).items() if each["kind"] in ("plain", "torch")}


# --- Sizes ----------------------------------------------------------------------------------------------------------


def _sizes(seen: _Seen, signature: Signature, call: _Call, names: List[str]) -> Tuple[List[Dict[str, Any]], List[str]]:
    """Return the sizes that vary, and what is said of those that do and cannot be declared."""
    alike = [other for other in seen.counts if [d for d, _ in other[1]] == [d for d, _ in signature[1]]]
    if any(other[0] != signature[0] for other in alike):
        if len({other[1] for other in alike}) == 1:
            return [], []
        return [], ["its sizes varied with its plain arguments, and are judged as most calls had them"]
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

"""Keeps what the first calls of a module class were given in the developer's own run, so that a task can be made of it.

A capture is a folder:

- ``manifest.json``: ``module``, ``file``, ``class``, ``main`` (the script), ``python``; ``training``, ``modes`` of parts,
  ``autocast`` (a dtype or empty), ``grad_mode``, ``gradients`` (whether the output had some), ``tf32``; ``structure`` of the
  inputs, ``inputs`` (name, shape, strides, dtype, statistics, ``same_memory``), ``plain`` (arguments that are no tensors),
  ``dynamic`` sizes, ``calls``; ``state`` (``tensors``, ``baked``, ``ties``, ``copied``), ``attributes``, ``parts``; ``notes``;
  ``refused`` with ``next_step`` where no task can be made of it; ``form_calls``, those of ``calls`` that are of this form.
- ``inputs.pt``: the input tensors; ``state.pt``: the state, where it was copied; ``init.pt``: constructor arguments, pickled.
- ``forms/N``: for each other way in which the class was built and called, a capture of its own, those before others that more
  data went through.

Runs in the developer's process: it must never change what that does, nor end it.
"""

from __future__ import annotations

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

from . import constructors, portrait
from .kept import Build, Form, Signature, argument_names, keep, positional_names, tensor_kind
from .refused import Refused, flattened, place_of, require_class, require_comparable, require_plain
from .shared import span, summary

SCHEMA = "warpsmith.capture/1"
STATE_LIMIT = 64 * 1024 * 1024
"""Bytes of state that are copied without being asked for; more is described."""
FORMS = "forms"
_BUILDS = 16
_KEPT = 2
_KEPT_OF_BUILD = 6
"""How many ways of building a class, and calls of different shapes of each kind and of each build, have their inputs kept."""
_FORMS = 12
"""In how many ways at most a class is judged."""
_SIGNATURES = 1000
_PATIENCE = 16
_MORE_ROOM = "Give captures more room (--capture-mb 1024)"
_SHARE = 4
"""What is not the first of its class may take so many times less than the bytes that are left."""


@dataclass
class _Seen:
    """What is known of a class.

    Attributes:
        refused: Why calls of it could not be kept, if any could not.
        crowded: Whether some were not kept because there was no room for them.
    """

    cls: type
    calls: int = 0
    builds: Dict[Any, Build] = field(default_factory=dict)
    refused: Optional[Refused] = None
    refusals: int = 0
    crowded: bool = False

    def refuse(self, refused: Refused) -> None:
        """Note that a call cannot be kept."""
        self.refused, self.refusals = self.refused or refused, self.refusals + 1


class Capture:
    """Watches calls of modules, and writes captures of those classes that are wanted in the end.

    Args:
        folder: Where captures are written, one folder a class.
        classes: Keys (``portrait.class_key``) of the classes to keep inputs of; None for all.
        budget_bytes: What the kept inputs and states of all classes may come to.
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
        self._known: Dict[int, Tuple[weakref.ref[nn.Module], _Seen, Optional[Build]]] = {}
        self._running: Set[int] = set()
        self._open: Dict[int, Tuple[_Seen, Build, Signature]] = {}

    def constructed(self, module: nn.Module, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        """Note what a module is constructed with, where ``constructors.note_constructors`` does not."""
        constructors.note(module, args, kwargs)

    def before(self, module: nn.Module, args: Tuple[Any, ...], kwargs: Optional[Dict[str, Any]] = None) -> None:
        """Look at a call that is about to be made, and keep its inputs if it is one of the first of its kind.

        Without ``kwargs`` they are looked up: torch does not tell them to a global hook.
        """
        inner = portrait.unwrapped(module)
        if id(inner) in self._running or _is_traced():
            return
        known = self._known.get(id(inner))
        if known is None or known[0]() is not inner:
            if portrait.is_lazy(inner):
                return
            known = self._known[id(inner)] = self._meet(inner)
        _, seen, build = known
        self._running.add(id(inner))
        seen.calls += 1
        if build is None or seen.refusals >= _PATIENCE:
            return
        try:
            self._look(seen, build, inner, args, kwargs_of(module) if kwargs is None else kwargs)
        except Refused as refused:
            seen.refuse(refused)
        except Exception as error:  # the developer's run goes on, whatever their classes do to being looked at
            seen.refuse(Refused(f"Looking at it raises {summary(error)}.", "Capture a part of it."))

    def after(self, module: nn.Module, output: Any) -> None:
        """Look at what a call returned."""
        inner = portrait.unwrapped(module)
        self._running.discard(id(inner))
        opened = self._open.pop(id(inner), None)
        if opened is None:
            return
        seen, build, signature = opened
        try:
            build.kept[signature].records = any(tensor.requires_grad for tensor in require_comparable(output))
        except Refused as refused:
            del build.kept[signature]
            seen.refuse(refused)

    def classes(self) -> List[str]:
        """Return the keys of the classes that were called."""
        return list(self._seen)

    def finish(self, chosen: Collection[str]) -> Dict[str, Path]:
        """Write the captures of these classes and return the folder of each; a manifest says what could not be captured."""
        return {key: self._write(key, self._seen[key]) for key in chosen if key in self._seen}

    # --- Looking ----------------------------------------------------------------------------------------------------

    def _meet(self, module: nn.Module) -> Tuple[weakref.ref[nn.Module], _Seen, Optional[Build]]:
        """Find out what class a module is of, and how it is built; no build where its calls are not to be kept."""
        key, owner = portrait.class_key(module), weakref.ref(module)
        seen = self._seen.setdefault(key, _Seen(portrait.class_of(module)))
        if self._classes is not None and key not in self._classes:
            return owner, seen, None
        try:
            require_class(seen.cls)
            kind = portrait.build_of(module)
        except Refused as refused:
            seen.refuse(refused)
            return owner, seen, None
        build = seen.builds.get(kind)
        if build is None and len(seen.builds) < _BUILDS:
            build = seen.builds[kind] = Build(seen.cls, owner, constructors.arguments_of(module), kind[0])
        return owner, seen, build

    def _look(self, seen: _Seen, build: Build, module: nn.Module, args: Any, kwargs: Dict[str, Any]) -> None:
        tensors, structure = flattened(args, kwargs, positional_names(seen.cls))
        context = {**_context(), "training": module.training}
        kinds = tuple((tensor_kind(tensor), tuple(tensor.shape)) for tensor in tensors)
        signature = (repr(structure), kinds, module.training, context["autocast"], context["grad_mode"])
        if signature in build.counts or len(build.counts) < _SIGNATURES:
            build.counts[signature] = build.counts.get(signature, 0) + 1
        if signature in build.kept or len(build.kept) >= _KEPT_OF_BUILD:
            return
        if sum(each in build.kept for each in build.alike(signature)) >= _KEPT:
            return
        if portrait.build_of(module)[0] != build.state_kind:  # it was cast, say, since it was met
            build.counts.pop(signature, None)
            _, _, build_now = self._known[id(module)] = self._meet(module)
            if build_now is not None:
                self._look(seen, build_now, module, args, kwargs)
            return
        for name, tensor in zip(argument_names(seen.cls, structure), tensors):
            require_plain(name, tensor)
        if not self._take(seen, tensors):
            return
        if not build.portrait:
            limit = sys.maxsize if self._copy_weights else min(STATE_LIMIT, self._budget // _SHARE)
            self._budget -= build.look_at_state(limit)
        build.kept[signature] = keep(tensors, structure, context)
        self._open[id(module)] = seen, build, signature

    def _take(self, seen: _Seen, tensors: List[torch.Tensor]) -> bool:
        """Take a call's bytes from the budget; false where there are too few left, raises for the first of a class."""
        size = sum(span(tensor) * tensor.element_size() for tensor in tensors)
        first = not any(build.kept for build in seen.builds.values())
        if size > (self._budget if first else self._budget // _SHARE):
            if not first:
                seen.crowded = True
                return False
            raise Refused(
                f"Its inputs are {size:,} bytes, and {max(0, self._budget):,} are left for captures.",
                f"{_MORE_ROOM}, or record with smaller inputs.",
            )
        self._budget -= size
        return True

    # --- Writing ----------------------------------------------------------------------------------------------------

    def _write(self, key: str, seen: _Seen) -> Path:
        folder = self._folder / key.partition(":")[2]
        if (folder / "manifest.json").exists():  # another class of that name
            folder = self._folder / key.replace(":", ".")
        folder.mkdir(parents=True, exist_ok=True)
        told: Dict[str, Any] = {
            "schema": SCHEMA,
            **place_of(seen.cls),
            "python": sys.executable,
            "calls": seen.calls,
            "refused": "",
            "next_step": "",
        }
        manifest: Dict[str, Any] = dict(told)
        try:
            forms = _forms(seen)
            forms[0].build.copy_state(sys.maxsize if self._copy_weights else STATE_LIMIT)
            manifest.update(forms[0].write(folder))
            written = [each for number, each in enumerate(forms[1:], 1) if _write_form(each, folder, number, told)]
            manifest["notes"] += _many(seen, [forms[0], *written])
        except Refused as refused:
            manifest.update(refused=refused.reason, next_step=refused.next_step)
        except Exception as error:  # what the developer's classes do to being written
            manifest.update(refused=f"Writing it raises {summary(error)}.", next_step="Capture a part of it.")
        _write_manifest(folder, manifest)
        return folder


def _forms(seen: _Seen) -> List[Form]:
    """Return the ways in which a class was built and called, those first that most data went through."""
    found = [form for build in seen.builds.values() for form in build.forms()]
    if not found:
        raise seen.refused or Refused("None of its calls could be kept.", "Record for longer, or capture a part of it.")
    return sorted(found, key=lambda form: form.weight, reverse=True)[:_FORMS]


def _write_form(form: Form, folder: Path, number: int, told: Dict[str, Any]) -> bool:
    """Write a form beside the first one; false where the developer's classes do not let it be."""
    place = folder / FORMS / str(number)
    place.mkdir(parents=True, exist_ok=True)
    try:
        _write_manifest(place, {**told, **form.write(place)})
    except Exception:  # the first one is told of all the same
        return False
    return True


def _write_manifest(folder: Path, manifest: Dict[str, Any]) -> None:
    unfinished = folder / f".manifest-{os.getpid()}"
    unfinished.write_text(json.dumps(manifest, indent=1))
    unfinished.replace(folder / "manifest.json")


def _many(seen: _Seen, kept: List[Form]) -> List[str]:
    """Say in how many ways a class was built and called, where there is more than one."""
    calls, covered = seen.calls, sum(form.calls for form in kept)
    if len(kept) == 1 and covered == calls:
        return []
    said = f"{seen.cls.__name__} was built or called in other ways too: this is the one that most data went through"
    others = f", and {len(kept) - 1} more are judged beside it" if len(kept) > 1 else ""
    left = f"; {calls - covered} of {calls} calls that were looked at are of none of these" if covered < calls else ""
    room = f" Inputs of some did not fit beside those that are kept. {_MORE_ROOM}." if left and seen.crowded else ""
    return [f"{said} ({kept[0].calls} of {calls} calls){others}{left}.{room}"]


def kwargs_of(module: nn.Module) -> Dict[str, Any]:
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

"""A capture: a module of the developer's own run, from which a task has its arguments, state and mode.

The folder holds ``manifest.json`` (see ``recorder.capture``), ``inputs.pt``, ``init.pt`` and ``state.pt``. Tensors are read
without unpickling anything else; constructor arguments are unpickled with the developer's own classes, so only in their
interpreter.
"""

from __future__ import annotations

import importlib.util
import json
import pickle
import sys
import types
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import torch
from torch import nn
from torch.nn.parameter import UninitializedParameter

from warpsmith_harness import drawing, values
from warpsmith_harness.candidate import state
from warpsmith_harness.problems import TaskProblem, summary
from warpsmith_harness.seeds import generator

Arguments = Tuple[Tuple[Any, ...], Dict[str, Any]]


class Captured:
    """A capture's folder; nothing but the manifest is read before it is needed.

    Attributes:
        manifest: See ``recorder.capture``.

    Raises:
        TaskProblem: There is no capture, or none that can be judged.
    """

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._inputs: Optional[List[torch.Tensor]] = None
        try:
            self.manifest: Dict[str, Any] = json.loads((self._folder / "manifest.json").read_text())
        except (OSError, ValueError) as error:
            raise TaskProblem(f"The capture cannot be read: {summary(error)}", folder, _AGAIN) from error
        if self.manifest["refused"]:
            raise TaskProblem(self.manifest["refused"], folder, self.manifest["next_step"])

    @property
    def notes(self) -> List[str]:
        """What a developer should know of the capture."""
        return list(self.manifest["notes"])

    # --- Arguments --------------------------------------------------------------------------------------------------

    def inputs(self, device: torch.device) -> Arguments:
        """Return fresh forward arguments of the captured kind, on a device."""
        if self._inputs is None:
            self._inputs = [drawing.moved(tensor, device) for tensor in self._kept_inputs()]
        args, kwargs = values.rebuild(self.manifest["structure"], [drawing.drawn(tensor) for tensor in self._inputs])
        return tuple(drawing.at(device, each) for each in args), {k: drawing.at(device, v) for k, v in kwargs.items()}

    def constructor_arguments(self, module: types.ModuleType, device: torch.device) -> Arguments:
        """Unpickle what the module was constructed with, for a device; ``module`` stands for the script that ran."""
        if self.manifest["init_missing"]:
            raise TaskProblem(
                self.manifest["init_missing"],
                str(self._folder),
                'Give them with --init "ARGS" (in Python: init="ARGS").',
            )
        reader = types.SimpleNamespace(**vars(pickle))
        reader.Unpickler = _unpickler(self.manifest, module)
        try:
            args, kwargs = torch.load(
                self._folder / "init.pt", map_location="cpu", weights_only=False, pickle_module=reader
            )
        except Exception as error:  # the developer's classes may raise anything while they are read
            raise TaskProblem(
                f"The captured constructor arguments cannot be read: {summary(error)}",
                str(self._folder),
                'Capture again with the code as it is now, or give them with --init "ARGS".',
            ) from error
        return tuple(drawing.at(device, each) for each in args), {k: drawing.at(device, v) for k, v in kwargs.items()}

    # --- The module -------------------------------------------------------------------------------------------------

    def fit(self, module: nn.Module) -> None:
        """Give a constructed module what its state cannot tell: dtypes, layouts, ties, attributes.

        What is not there is passed over: a candidate is told by its state what it lacks.
        """
        for path, plain in self.manifest["attributes"].items():
            part = _part(module, path)
            for name, value in plain.items():
                old = vars(part).get(name, _ABSENT) if part is not None else _ABSENT
                if old is not _ABSENT and type(old) is type(value) and old != value:
                    setattr(part, name, value)
        self._tie(module)
        told = self.manifest["state"]["tensors"]
        for name, tensor in state(module).items():
            if name in told and not isinstance(tensor, UninitializedParameter):
                _settle(tensor, told[name])

    def set_mode(self, module: nn.Module, training: bool) -> None:
        """Put a module into a mode; into the captured one as it was, parts in another mode included."""
        module.train(training)
        if training == self.manifest["training"]:
            for path, mode in self.manifest["modes"].items():
                part = _part(module, path)
                if part is not None:
                    part.training = mode

    def load_state(self, module: nn.Module) -> None:
        """Copy the captured state into a reference, or draw one of its kind where it was only described.

        Raises:
            TaskProblem: It does not fit what the constructor makes.
        """
        own, told = state(module), self.manifest["state"]
        self._check_names(own)
        kept = self._kept_state() if told["copied"] else {}
        with torch.no_grad():
            for name, tensor in own.items():
                if list(tensor.shape) != told["tensors"][name]["shape"]:
                    raise self._misfit(
                        f"{name} is {told['tensors'][name]['shape']} there and {list(tensor.shape)} here"
                    )
                tensor.copy_(kept[name] if name in kept else _like(tensor, told["tensors"][name]))

    def _check_names(self, own: Dict[str, torch.Tensor]) -> None:
        told = self.manifest["state"]
        spent = {raw for name, made_of in told["baked"].items() if name in own for raw in made_of}
        plain = {name for name in told["baked"] if name not in own}
        missing = [name for name in own if name not in told["tensors"]]
        extra = [name for name in told["tensors"] if name not in own and name not in spent and name not in plain]
        if missing or extra:
            what = [f"the constructor makes {', '.join(missing[:5])}, which it lacks"] if missing else []
            what += [f"it has {', '.join(extra[:5])}, which the constructor does not make"] if extra else []
            raise self._misfit(" and ".join(what))

    def _misfit(self, what: str) -> TaskProblem:
        return TaskProblem(
            f"The captured state does not fit what the constructor makes: {what}. Something changed the module after it was "
            "constructed.",
            str(self._folder),
            "Capture the class of the part that was changed, or one that is used as constructed.",
        )

    def _tie(self, module: nn.Module) -> None:
        for first, *others in self.manifest["state"]["ties"]:
            shared = dict(module.named_parameters(remove_duplicate=False)).get(first)
            for name in others:
                owner, _, last = name.rpartition(".")
                part = _part(module, owner)
                old = part._parameters.get(last) if part is not None else None
                if part is not None and shared is not None and old is not None and old.shape == shared.shape:
                    part._parameters[last] = shared

    # --- Files ------------------------------------------------------------------------------------------------------

    def _kept_inputs(self) -> List[torch.Tensor]:
        kept = self._load("inputs.pt")
        if not isinstance(kept, list) or not _are_tensors(kept) or len(kept) != len(self.manifest["inputs"]):
            raise self._unreadable("inputs.pt", "it does not hold the tensors that its manifest tells of")
        return kept

    def _kept_state(self) -> Dict[str, torch.Tensor]:
        kept = self._load("state.pt")
        if not isinstance(kept, dict) or not _are_tensors(list(kept.values())):
            raise self._unreadable("state.pt", "it does not hold the tensors of a state")
        return kept

    def _load(self, name: str) -> Any:
        try:
            return torch.load(self._folder / name, map_location="cpu", weights_only=True)
        except Exception as error:  # torch raises several kinds for what it does not read
            raise self._unreadable(name, summary(error)) from error

    def _unreadable(self, name: str, why: str) -> TaskProblem:
        return TaskProblem(f"{name} of the capture cannot be read: {why}", str(self._folder), _AGAIN)


_AGAIN = "Capture it again with: warpsmith hotspots"
_ABSENT = object()


def _are_tensors(kept: List[Any]) -> bool:
    return all(isinstance(each, torch.Tensor) for each in kept)


def _part(module: nn.Module, path: str) -> Optional[nn.Module]:
    return dict(module.named_modules(remove_duplicate=False)).get(path)


def _settle(tensor: torch.Tensor, told: Dict[str, Any]) -> None:
    """Give a parameter or buffer the dtype and the strides that it had, with its contents, and its wish for gradients."""
    dtype, stride = getattr(torch, told["dtype"]), tuple(told["stride"])
    if list(tensor.shape) != told["shape"]:
        return
    if tensor.dtype != dtype or tensor.stride() != stride:
        placed = torch.empty_strided(tensor.shape, stride, dtype=dtype, device=tensor.device)
        tensor.data = placed.copy_(tensor.detach())
    if isinstance(tensor, nn.Parameter) and (tensor.is_floating_point() or tensor.is_complex()):
        tensor.requires_grad_(told["requires_grad"])


def _like(tensor: torch.Tensor, told: Dict[str, Any]) -> torch.Tensor:
    """Return contents like those that were only described; what has no statistics, or holds integers, stays."""
    if "mean" not in told or not tensor.is_floating_point():
        return tensor
    noise = torch.randn(tensor.shape, generator=generator(tensor.device), device=tensor.device)
    made: torch.Tensor = (told["mean"] + told["spread"] * noise).clamp_(told["low"], told["high"])
    return made


def _unpickler(manifest: Dict[str, Any], module: types.ModuleType) -> type:
    class Unpickler(pickle.Unpickler):
        """Finds the classes of the script that ran, which were pickled as those of ``__main__``."""

        def find_class(self, module_name: str, name: str) -> Any:
            if module_name == "__main__":
                return _script(manifest["main"], module).__dict__[name]
            return super().find_class(module_name, name)

    return Unpickler


def _script(path: str, module: types.ModuleType) -> types.ModuleType:
    """Return the module of the script that ran: the task's own, or one that is imported now."""
    if Path(path) == Path(module.__file__ or ""):
        return module
    name = Path(path).stem
    if name not in sys.modules:
        location = importlib.util.spec_from_file_location(name, path)
        if location is None or location.loader is None:
            raise ImportError(f"there is no script {path}")
        sys.modules[name] = importlib.util.module_from_spec(location)
        location.loader.exec_module(sys.modules[name])
    return sys.modules[name]

"""Kernels that Warpsmith landed here: operators for them, and the choice between them and the original code.

Self-contained: it needs Python 3.9, torch 2.4 and, on first use, a compiler (nvcc for a GPU, g++ for the CPU). Calls of
the kind that was verified run the kernels; all others run the original forward. Which happened how often is counted.
"""

from __future__ import annotations

import functools
import os
import threading
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn
from torch.utils.data import get_worker_info

from ._build import CannotBuild, build
from ._fallback import Original
from ._forms import Forms, allows_tf32
from ._known import KnownCalls
from ._parts import parts, settings

M = TypeVar("M", bound=nn.Module)
Bind = Callable[[dict[str, Any], str], types.ModuleType]

_LANDINGS: dict[str, Landing] = {}
_MOST_REASONS = 100
_FORKED = "this process was forked from one that had used them"
is_compiling: Callable[[], bool] = torch.compiler.is_compiling


class _Here(threading.local):
    """What holds for the call that this thread is in.

    Attributes:
        kernels: The bound kernels, while a call that fits runs and nothing but it looks on: they are then called directly,
            without the operators that compilers and tracers see, which cost three times as much. Otherwise None.
    """

    kernels: types.ModuleType | None = None


class Landing:
    """One folder of landed kernels.

    Args:
        package: The folder's import name.
        file: Its ``__init__.py``.
        record: What was landed: ``_landed.RECORD``.
        bind: Makes a module of callable kernels of a built library.

    Attributes:
        here: Says how the kernels are to be called.
        tally: Calls by kind, as ``counts`` returns them.
        original: Runs the original forward; None before ``landed`` was called.
    """

    def __init__(self, package: str, file: str, record: dict[str, Any], bind: Bind) -> None:
        self._package = package
        self._folder = Path(file).parent
        self._record = record
        self._bind = bind
        self._lock = threading.Lock()
        self._bound: types.ModuleType | None = None
        self._cannot = ""
        self._fits: dict[int, str] = {}
        self._library: Any = None
        self._reasons: dict[str, int] = {}
        self._warned = False
        self.here = _Here()
        self.tally = {"fused": 0, "original": 0, "launches": 0}
        self.original: Original | None = None
        _LANDINGS[package] = self

    def operator(self, name: str) -> Any:
        """Return the torch operator of a kernel; it is registered with torch unless it was before."""
        namespace, launchers = self._record["namespace"], self._record["functions"]
        operators = getattr(torch.ops, namespace)
        if not hasattr(operators, name):
            launcher = next(each for each in launchers if each["name"] == name)
            self._register(namespace, launcher)
        return getattr(operators, name).default

    def landed(self, cls: type[M]) -> type[M]:
        """Make a class run its original forward wherever its rewritten one was not verified; returns the same class."""
        contract = Forms(self._record["contract"], cls)
        self.original = Original(self._package, self._record["original"], cls)
        fused, init = cls.forward, cls.__init__
        package, here, tally, tf32 = self._package, self.here, self.tally, contract.tf32

        @functools.wraps(init)
        def __init__(module: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            init(module, *args, **kwargs)
            if type(module) is cls:
                module.__dict__["_landed_built"] = contract.built(module, args, kwargs)
                module.__dict__["_landed_parts"] = parts(module)
                module.__dict__["_landed_settings"] = settings(module)
                module.__dict__["_landed_calls"] = KnownCalls(contract.held)

        @functools.wraps(fused)
        def forward(module: Any, *args: Any, **kwargs: Any) -> Any:
            if is_compiling():
                reason = contract.differs(module, args, kwargs) or _unavailable(package, _gpu(args, kwargs))
                if reason:
                    return self._run_original(reason, module, args, kwargs)
                return fused(module, *args, **kwargs)
            known = module.__dict__.get("_landed_calls")
            settled = self._bound is not None and type(known) is KnownCalls and not (tf32 and not allows_tf32(tf32))
            if not settled or not known.hold(module, args, kwargs):
                reason = contract.differs(module, args, kwargs) or self.unavailable(_gpu(args, kwargs))
                if reason:
                    return self._run_original(reason, module, args, kwargs)
                if type(known) is not KnownCalls:
                    known = module.__dict__["_landed_calls"] = KnownCalls(contract.held)
                if not known.add(module, args, kwargs):
                    tally["fused"] += 1
                    return fused(module, *args, **kwargs)
            tally["fused"] += 1
            outer, here.kernels = here.kernels, self._bound
            try:
                return fused(module, *args, **kwargs)
            finally:
                here.kernels = outer

        patched: Any = cls
        patched.__init__, patched.forward = __init__, forward
        patched._landed_built = "it was not constructed by the landed code, but loaded whole from an older one"
        patched._landed_parts, patched._landed_settings = (), ()
        return cls

    def adopt(self, library: str) -> None:
        """Use a library that was built of these sources already, as the judge does; it is not built again."""
        self._bound = self._bind_library(library)

    def counts(self) -> dict[str, Any]:
        """Return how often the kernels and the original code ran, and why the latter.

        ``fused`` and ``original`` count calls of forward, a compiled graph's once when it is traced; ``launches`` counts
        every launch of a kernel, compiled graphs' included; ``reasons`` says why the original ran, and how often.
        """
        return {**self.tally, "reasons": dict(self._reasons)}

    def note(self, reason: str) -> None:
        """Count a call of the original forward; the first is also a warning."""
        self.tally["original"] += 1
        if reason in self._reasons or len(self._reasons) < _MOST_REASONS:
            self._reasons[reason] = self._reasons.get(reason, 0) + 1
        if not self._warned:
            self._warned = True
            what = self._record["class"]
            warnings.warn(
                f"{what} runs its original forward instead of its kernels: {reason}. Further calls like this are only "
                f"counted: see {self._package}.counts().",
                RuntimeWarning,
                stacklevel=4,
            )

    def unavailable(self, gpu: int) -> str:
        """Return why the kernels cannot run on a GPU, or the CPU (-1), or an empty text; builds them if need be."""
        if gpu not in self._fits:
            self._fits[gpu] = self._fit(gpu)
        if not self._fits[gpu] and self._bound is None and not self._cannot:
            self._load()
        return self._fits[gpu] or self._cannot

    def _run_original(self, reason: str, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        _note(self._package, reason)
        original = self.original
        assert original is not None
        if torch.compiler.is_dynamo_compiling() and original.direct is not None:
            return original.direct(module, *args, **kwargs)
        return original.forward(module, args, kwargs)

    def _register(self, namespace: str, launcher: dict[str, Any]) -> None:
        """Define a kernel's operator: outputs are mutated arguments, and without data it does nothing."""
        library: Any = torch.library
        if self._library is None:
            self._library = library.Library(namespace, "FRAGMENT")
        name, params = launcher["name"], launcher["params"]
        reads = [position for position, each in enumerate(params) if each["kind"] == "input"]
        layout = getattr(torch.Tag, "needs_exact_strides", torch.Tag.needs_fixed_stride_order)
        self._library.define(name + _schema(launcher), tags=(torch.Tag.pt2_compliant_tag, layout))
        self._library.impl(name, functools.partial(self._launch, name, reads), self._record["device"].upper())
        library.register_fake(f"{namespace}::{name}", _nothing, lib=self._library)

    def _launch(self, name: str, reads: list[int], *arguments: Any) -> None:
        self.tally["launches"] += 1
        if torch.is_grad_enabled():
            for position in reads:
                if arguments[position] is not None and arguments[position].requires_grad:
                    raise RuntimeError(
                        f"{self._package}.{name} has no gradient, and one that was wanted would be wrong."
                    )
        if self._bound is None:
            reason = self.unavailable(_gpu(arguments, {}))
            if reason:
                raise RuntimeError(f"{self._package}.{name} cannot run: {reason}")
        getattr(self._bound, name)(*arguments)

    def _fit(self, gpu: int) -> str:
        """Return how a GPU differs from those the kernels were verified on, or an empty text."""
        if get_worker_info() is not None:
            return "it is called in a worker of a DataLoader"
        if gpu < 0:
            return ""
        major, minor = torch.cuda.get_device_capability(gpu)
        arch, verified = f"sm_{major}{minor}", self._record["arch"]
        return "" if arch == verified else f"the GPU is of {arch}, and they were verified on {verified}"

    def _load(self) -> None:
        """Build and bind the kernels, or keep the reason why not."""
        with self._lock:
            if self._bound is not None or self._cannot:
                return
            try:
                made = bool(self._record["functions"])
                library = build(self._folder, self._record["recipe"], self._record["arch"]) if made else ""
                self._bound = self._bind_library(str(library))
            except (CannotBuild, OSError) as error:
                self._cannot = f"its kernels cannot be built: {error}"

    def _bind_library(self, library: str) -> types.ModuleType:
        name, functions = f"{self._package}._bound", self._record["functions"]
        manifest = {"library": library, "arch": self._record["arch"], "functions": functions}
        return self._bind(manifest, name) if functions else types.ModuleType(name)

    def _forget(self) -> None:
        """Run the original in a child process that begins as a copy of this one: its threads and contexts are not there."""
        self._fits = {}
        self._lock = threading.Lock()
        if self._bound is not None:
            self._bound, self._cannot = None, _FORKED


def _forget_all() -> None:
    for landing in _LANDINGS.values():
        landing._forget()


os.register_at_fork(after_in_child=_forget_all)


def _unavailable(package: str, gpu: int) -> str:
    return _LANDINGS[package].unavailable(gpu)


def _gpu(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """Return the number of the GPU that the first tensor is on, or -1."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Tensor):
            return -1 if value.device.index is None else value.device.index
    return -1


def _note(package: str, reason: str) -> bool:
    """Count a call of the original; prepare it, so that what comes next can be traced."""
    landing = _LANDINGS[package]
    landing.note(reason)
    if landing.original is not None:
        landing.original.load()
    return True


# What torch.compiler.assume_constant_result does, without importing the compiler: both are called while a graph is traced.
vars(_unavailable)["_dynamo_marked_constant"] = True
vars(_note)["_dynamo_marked_constant"] = True


def _schema(launcher: dict[str, Any]) -> str:
    """Return an operator's schema: ``(Tensor? x, Tensor(a!)? out, int n, float eps) -> ()``."""
    kinds = {"int64": "int", "int32": "int", "float32": "float", "float64": "float", "bool": "bool"}
    fields: list[str] = []
    for position, parameter in enumerate(launcher["params"]):
        kind = {"input": "Tensor?", "output": f"Tensor(a{position}!)?"}.get(parameter["kind"]) or kinds[
            parameter["dtype"]
        ]
        fields.append(f"{kind} p{position}_{parameter['name']}")
    return f"({', '.join(fields)}) -> ()"


def _nothing(*arguments: Any) -> None:
    """Do what a kernel does to tensors without data."""

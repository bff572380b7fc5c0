"""Kernels that Warpsmith landed here: operators for them, and the choice between them and the original code.

Self-contained: it needs Python 3.9, torch 2.4 and, on first use, a compiler (nvcc for a GPU, g++ for the CPU). Calls of
the kind that was verified run the kernels; all others run the original forward. Which happened how often is counted.
"""

from __future__ import annotations

import functools
import json
import threading
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

from ._build import CannotBuild, architecture, build
from ._contract import Contract, parts
from ._fallback import Original

M = TypeVar("M", bound=nn.Module)
Bind = Callable[[dict[str, Any], str], types.ModuleType]

_LANDINGS: dict[str, Landing] = {}
_MOST_REASONS = 100


class Landing:
    """One folder of landed kernels.

    Args:
        package: The folder's import name.
        file: Its ``__init__.py``.
        bind: Makes a module of callable kernels of a built library.
    """

    def __init__(self, package: str, file: str, bind: Bind) -> None:
        self._package = package
        self._folder = Path(file).parent
        self._bind = bind
        self._record: dict[str, Any] = json.loads((self._folder / "landed.json").read_text(encoding="utf-8"))
        self._device: str = self._record["device"]
        self._lock = threading.Lock()
        self._bound: dict[str, types.ModuleType] = {}
        self._cannot: dict[str, str] = {}
        self._library: Any = None
        self._counts = {"fused": 0, "original": 0, "launches": 0}
        self._reasons: dict[str, int] = {}
        self._warned = False
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
        contract = Contract(self._record["contract"], cls)
        self.original = Original(self._package, self._folder / "_original.py", self._record["original"], cls)
        fused, init = cls.forward, cls.__init__
        package = self._package

        @functools.wraps(init)
        def __init__(module: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            init(module, *args, **kwargs)
            module.__dict__["_landed_built"] = contract.built(module, args, kwargs)
            module.__dict__["_landed_parts"] = parts(module)

        @functools.wraps(fused)
        def forward(module: Any, *args: Any, **kwargs: Any) -> Any:
            reason = contract.differs(module, args, kwargs) or _unavailable(package)
            if reason:
                return self._run_original(reason, module, args, kwargs)
            if not torch.compiler.is_compiling():
                self._counts["fused"] += 1
            return fused(module, *args, **kwargs)

        patched: Any = cls
        patched.__init__, patched.forward = __init__, forward
        patched._landed_built = "it was not constructed by the landed code, but loaded whole from an older one"
        patched._landed_parts = ()
        return cls

    def counts(self) -> dict[str, Any]:
        """Return how often the kernels and the original code ran, and why the latter.

        ``fused`` and ``original`` count calls of forward, a compiled graph's once when it is traced; ``launches`` counts
        every launch of a kernel, compiled graphs' included; ``reasons`` says why the original ran, and how often.
        """
        return {**self._counts, "reasons": dict(self._reasons)}

    def note(self, reason: str) -> None:
        """Count a call of the original forward; the first is also a warning."""
        self._counts["original"] += 1
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

    def unavailable(self) -> str:
        """Return why the kernels cannot run on this machine's current device, or an empty text; builds them if need be."""
        arch = self._architecture(None)
        if arch not in self._bound and arch not in self._cannot:
            with self._lock:
                if arch not in self._bound and arch not in self._cannot:
                    self._load(arch)
        return self._cannot.get(arch, "")

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
        name = launcher["name"]
        layout = getattr(torch.Tag, "needs_exact_strides", torch.Tag.needs_fixed_stride_order)
        self._library.define(name + _schema(launcher), tags=(torch.Tag.pt2_compliant_tag, layout))
        self._library.impl(name, functools.partial(self._launch, name), self._device.upper())
        library.register_fake(f"{namespace}::{name}", _nothing, lib=self._library)

    def _launch(self, name: str, *arguments: Any) -> None:
        self._counts["launches"] += 1
        device = next((each.device for each in arguments if isinstance(each, torch.Tensor)), None)
        arch = self._architecture(device)
        if arch not in self._bound:
            with self._lock:
                self._load(arch)
        if arch in self._cannot:
            raise RuntimeError(f"{self._package}.{name} cannot run: {self._cannot[arch]}")
        getattr(self._bound[arch], name)(*arguments)

    def _architecture(self, device: torch.device | None) -> str:
        return architecture(self._device, None if self._device == "cpu" else torch.cuda.get_device_capability(device))

    def _load(self, arch: str) -> None:
        """Build and bind the kernels for an architecture, or keep the reason why not."""
        try:
            library = build(self._folder, self._record["recipe"], arch)
            manifest = {"library": str(library), "arch": arch, "functions": self._record["functions"]}
            self._bound[arch] = self._bind(manifest, f"{self._package}._bound_{arch}")
        except (CannotBuild, OSError) as error:
            self._cannot[arch] = f"its kernels cannot be built: {error}"


def _unavailable(package: str) -> str:
    return _LANDINGS[package].unavailable()


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

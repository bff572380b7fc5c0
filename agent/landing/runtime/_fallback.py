"""Runs the original forward of a class that was rewritten, on the instances of the rewritten one.

``_original.py`` holds the text of the developer's file as it was. Only those of its statements are executed that differ from the
file as it is, so the classes and records it shares with the rest of the module stay the same objects.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import linecache
import sys
import types
from collections.abc import Callable
from typing import Any

from torch import nn


class Original:
    """The original classes of a landed module, made on first use.

    Attributes:
        direct: The original forward as a function of the landed instance, once :meth:`load` was called and where the
            rest of its class is unchanged; otherwise None.
    """

    def __init__(self, package: str, record: dict[str, Any], landed: type[nn.Module]) -> None:
        self._package = package
        self._record = record
        self._landed = landed
        self._nested = len(record["classes"]) > 1
        self._classes: dict[type, Any] = {}
        self.direct: Callable[..., Any] | None = None

    def load(self) -> None:
        """Execute what is needed of the original file; does nothing when that was done."""
        if self._classes:
            return
        landed_module = sys.modules[self._landed.__module__]
        namespace = self._execute(landed_module)
        classes = {self._landed: namespace[self._record["classes"][self._landed.__name__]]}
        for name, original in self._record["classes"].items():
            classes.setdefault(getattr(landed_module, name), namespace[original])
        if self._record["direct"]:
            original = classes[self._landed]
            forward = original.forward
            self.direct = _rebound(forward, original, self._landed) if "forward" in vars(original) else forward
        self._classes = classes

    def forward(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the original forward on a view of the instance that has the original class.

        torch.compile breaks its graph here, because it cannot trace the making of the view.
        """
        self.load()
        return self._classes[self._landed].forward(self._view(module), *args, **kwargs)

    def _execute(self, landed_module: types.ModuleType) -> dict[str, Any]:
        """Execute the statements in a module of their own that begins with all that the landed one holds."""
        module = types.ModuleType(f"{self._package}._before")
        namespace = vars(module)
        own = {key: value for key, value in namespace.items() if key != "__package__"}
        namespace.update({**vars(landed_module), **own, "__file__": landed_module.__file__})
        namespace["__package__"] = getattr(landed_module, "__package__", None)
        sys.modules[module.__name__] = module
        source: bytes = importlib.import_module(f"{self._package}._original").SOURCE
        name = f"<{landed_module.__name__} before it was landed>"
        text = importlib.util.decode_source(source)
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        tree = ast.parse(source, name)
        tree.body = [tree.body[position] for position in self._record["statements"]]
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and node.name in self._record["classes"].values():
                node.decorator_list = []  # a registry must not see the class twice
        exec(compile(tree, name, "exec"), namespace)  # noqa: S102
        return namespace

    def _view(self, module: nn.Module) -> nn.Module:
        """Return an object of the original class that shares all state with an instance, its rewritten parts viewed too."""
        cls = self._class_of(type(module))
        state = vars(module)
        if self._nested:
            parts = {name: None if part is None else self._view(part) for name, part in module._modules.items()}
            if any(parts[name] is not part for name, part in module._modules.items()):
                state = {**state, "_modules": parts}
        if cls is type(module) and state is vars(module):
            return module
        view: nn.Module = object.__new__(cls)
        object.__setattr__(view, "__dict__", state)
        return view

    def _class_of(self, cls: type) -> Any:
        """Return a class as it would be, had the rewritten ones among its bases stayed as they were."""
        found = self._classes.get(cls)
        if found is None and any(base in self._classes for base in cls.__mro__):
            bases = tuple(self._class_of(base) for base in cls.__bases__)
            skipped = ("__dict__", "__weakref__")
            members = {key: value for key, value in vars(cls).items() if key not in skipped}
            found = type(cls)(cls.__name__, bases, members)
            for name, value in members.items():
                if isinstance(value, types.FunctionType):
                    setattr(found, name, _rebound(value, cls, found))
            self._classes[cls] = found
        return found or cls


def _rebound(function: Any, old: type, new: type) -> Any:
    """Return a method for which ``super()`` starts at another class."""
    if not isinstance(function, types.FunctionType) or function.__closure__ is None:
        return function
    cells = tuple(types.CellType(new) if _content(cell) is old else cell for cell in function.__closure__)
    copy = types.FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, cells)
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__qualname__ = function.__qualname__
    return copy


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not yet filled
        return None

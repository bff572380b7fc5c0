"""Loads a landed form from a folder of its own, and puts it in the place of a module that a program has at hand.

The developer's own file is not touched: the form is executed beside it, under a name of its own, as the judge does.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import sys
import types
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import torch
from torch import nn

from . import portrait

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_KEYED = ("_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_forward_pre_hooks_with_kwargs")
_LOADED: Dict[str, Any] = {}


class Unfit(Exception):
    """A module is not of the kind that the form was made for; the text says how."""


def load_class(folder: Path, told: Dict[str, str], module: Optional[nn.Module] = None) -> Any:
    """Return the rewritten class of a form, executed once a process.

    What the rewriting left alone stays the project's own: the records that a forward returns, registries, constants.

    Args:
        folder: The form: the Python file, and the folder of kernels.
        told: ``file``, ``class``, ``module`` (its import name in the project), ``root``, and ``kernels`` (the folder).
        module: One of the original class, if there is one at hand: its class may be of the script that runs.
    """
    name = f"_warpsmith_form_{hashlib.sha256(str(folder).encode()).hexdigest()[:12]}"
    if name not in _LOADED:
        parent = told["module"].rpartition(".")[0]
        kernels = _import_folder(f"{name}_kernels", folder / told["kernels"])
        made = types.ModuleType(name)
        with _Standing(f"{parent}.{told['kernels']}" if parent else told["kernels"], kernels, told["root"]):
            theirs = _project_module(told["module"], module)
            before = importlib.import_module(f"{kernels.__name__}._original").SOURCE
            path = str(folder / told["file"])
            tree = _to_execute(ast.parse((folder / told["file"]).read_bytes(), path), ast.parse(before), told["class"])
            own = {"__name__": name, "__file__": path, "__package__": parent}
            vars(made).update({**vars(theirs), **own})
            sys.modules[name] = made
            exec(compile(tree, path, "exec"), vars(made))  # noqa: S102
        _LOADED[name] = getattr(made, told["class"])
    return _LOADED[name]


def replaced(cls: Any, module: nn.Module, init: Optional[Tuple[Tuple[Any, ...], Dict[str, Any]]]) -> nn.Module:
    """Return a module of a form's class that shares another's parameters and buffers, and has its hooks and modes.

    Raises:
        Unfit: Its state has other names than the form's.
    """
    old = portrait.unwrapped(module)
    args, kwargs = init or ((), {})
    cuda: Any = torch.cuda
    devices = [cuda.current_device()] if cuda.is_initialized() else []
    with torch.random.fork_rng(devices):
        new: nn.Module = cls(*args, **kwargs)
    ours, theirs = sorted(portrait.state_tensors(old)), sorted(portrait.state_tensors(new))
    if ours != theirs:
        raise Unfit(
            f"it has {_listed(ours, theirs) or 'nothing'}, and the form {_listed(theirs, ours) or 'nothing'} more"
        )
    parts = dict(old.named_modules(remove_duplicate=False))
    for path, part in new.named_modules(remove_duplicate=False):
        if path in parts:
            _take(part, parts[path], whole=not path)
    return new


def _take(new: nn.Module, old: nn.Module, whole: bool) -> None:
    """Give one part of a new module what the same part of the old one has."""
    for store in ("_parameters", "_buffers"):
        ours = getattr(old, store)
        getattr(new, store).update({name: ours[name] for name in getattr(new, store) if name in ours})
    new.training = old.training
    if whole or type(new) is type(old):
        for name in (*_HOOKS, *(each for each in _KEYED if hasattr(old, each))):
            getattr(new, name).update(getattr(old, name))
        new._is_full_backward_hook = old._is_full_backward_hook
    for name, value in portrait.attributes(old).get("", {}).items():
        mine = vars(new).get(name)
        if type(mine) is type(value) and mine != value:
            setattr(new, name, value)


def _project_module(name: str, module: Optional[nn.Module]) -> types.ModuleType:
    """Return the developer's module that holds the original class."""
    home = portrait.class_of(portrait.unwrapped(module)).__module__ if module is not None else name
    return sys.modules[home] if home in sys.modules else importlib.import_module(name)


def _to_execute(rewritten: ast.Module, original: ast.Module, target: str) -> ast.Module:
    """Return what of a rewritten file has to be executed where all that its original defines is there.

    That is what differs; all of it, where something beside the class and the imports was changed that others may use.
    """
    known = {ast.dump(statement) for statement in original.body}
    names = {name for statement in original.body for name in _names(statement)} - {target}
    differing = [each for each in rewritten.body if ast.dump(each) not in known or _is_future(each)]
    changed = [each for each in differing if not isinstance(each, (ast.Import, ast.ImportFrom))]
    if not any(name in names for each in changed for name in _names(each)):
        rewritten.body = differing
    return rewritten


def _names(statement: ast.stmt) -> List[str]:
    """Return what a statement gives a value, at any depth but for what functions and classes hold."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [statement.name]
    return [node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]


def _is_future(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def _listed(some: List[str], others: List[str]) -> str:
    return ", ".join(sorted(set(some) - set(others))[:5])


def _import_folder(name: str, folder: Path) -> types.ModuleType:
    where = [str(folder)]
    location: Any = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=where
    )
    package = importlib.util.module_from_spec(location)
    sys.modules[name] = package
    location.loader.exec_module(package)
    return package


class _Standing:
    """Lets a form's kernels stand under the name that its file imports, and its project be found, for a moment."""

    def __init__(self, name: str, kernels: types.ModuleType, root: str) -> None:
        self._name, self._kernels, self._root = name, kernels, root

    def __enter__(self) -> None:
        self._before = sys.modules.get(self._name)
        sys.modules[self._name] = self._kernels
        sys.path.append(self._root)

    def __exit__(self, *_: object) -> None:
        sys.path.remove(self._root)
        if self._before is None:
            sys.modules.pop(self._name, None)
        else:
            sys.modules[self._name] = self._before

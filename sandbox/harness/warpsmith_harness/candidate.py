"""Loads the workspace's class in the place of the developer's, with the same arguments and the same state."""

from __future__ import annotations

import contextlib
import inspect
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING, Iterator, Optional

import torch
from torch import nn
from torch.nn.parameter import UninitializedParameter

from warpsmith_harness.problems import CandidateProblem, line, place, summary
from warpsmith_harness.seeds import fixed_seed
from warpsmith_harness.values import persistent_buffers

if TYPE_CHECKING:
    from warpsmith_harness.load import LoadedTask


def load_candidate(task: LoadedTask, folder: str, kernels: Optional[types.ModuleType]) -> nn.Module:
    """Build the workspace's class with the task's constructor arguments, on the task's device, dtype and mode.

    Args:
        task: The loaded task; its own module stays as it is.
        folder: The workspace.
        kernels: The bound kernels, importable afterwards as they will be where they land; None if there are none.

    Raises:
        CandidateProblem: The file does not parse or import, the class is missing, is no module, does not take the
            arguments, or raises.
    """
    module = _execute(task, Path(folder), kernels)
    instance = build_candidate(task, folder, _find_class(task, module))
    _check_forward(task, instance)
    return instance


def build_candidate(task: LoadedTask, folder: str, cls: type[nn.Module]) -> nn.Module:
    """Build a candidate of a class that was loaded, as a task wants it; see ``load_candidate``.

    Raises:
        CandidateProblem: The class does not take the arguments, or raises.
    """
    with fixed_seed(task.device):
        args, kwargs = task.constructor_arguments()
        with _candidate_problems(f"The constructor of {cls.__name__}", Path(folder)):
            return task.settle(cls(*args, **kwargs))


def copy_state(source: nn.Module, target: nn.Module) -> None:
    """Copy parameters and buffers by name, in place, so that version counters move and ties stay tied.

    Raises:
        CandidateProblem: A name is missing or unexpected, or a shape or dtype differs.
    """
    _materialise(source, target)
    ours, theirs = state(source), state(target)
    missing = [name for name in ours if name not in theirs]
    unexpected = [name for name in theirs if name not in ours]
    if missing or unexpected:
        parts = [f"lacks {', '.join(missing)}"] if missing else []
        parts += [f"has {', '.join(unexpected)}, which the original has not"] if unexpected else []
        raise CandidateProblem(f"The state must keep the original's names: it {' and '.join(parts)}.")
    for name, value in ours.items():
        wanted, got = (tuple(value.shape), value.dtype), (tuple(theirs[name].shape), theirs[name].dtype)
        if wanted != got:
            raise CandidateProblem(f"{name} must be {wanted[1]} {list(wanted[0])}, and is {got[1]} {list(got[0])}.")
    with torch.no_grad():
        for name, value in ours.items():
            theirs[name].copy_(value)


def _materialise(source: nn.Module, target: nn.Module) -> None:
    """Give lazily made parameters of the target the source's shapes."""
    shapes = {name: value.shape for name, value in source.named_parameters(remove_duplicate=False)}
    for name, parameter in target.named_parameters(remove_duplicate=False):
        if isinstance(parameter, UninitializedParameter) and name in shapes:
            parameter.materialize(shapes[name])


def state(module: nn.Module) -> dict[str, torch.Tensor]:
    """Return the live parameters and persistent buffers by name, a tied one under each of its names."""
    return {**dict(module.named_parameters(remove_duplicate=False)), **persistent_buffers(module)}


def _execute(task: LoadedTask, folder: Path, kernels: Optional[types.ModuleType]) -> types.ModuleType:
    """Execute the workspace's file under the name it has where it lands."""
    name = "model_new" if task.spec["kind"] == "kernelbench" else task.spec["module_name"]
    path = folder / _file(task)
    kernels_name = _kernels_name(task, name)
    sys.modules[kernels_name] = kernels or types.ModuleType(kernels_name)
    module = types.ModuleType(name)
    module.__file__ = str(path)
    module.__package__ = name.rpartition(".")[0]
    if path.name == "__init__.py":
        module.__package__, module.__path__ = name, [str(Path(task.spec["path"]).parent)]
    sys.modules[name] = module
    with _candidate_problems(f"Importing {path.name}", folder):
        exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)  # noqa: S102  # judging means running it
    return module


def _file(task: LoadedTask) -> str:
    return "model_new.py" if task.spec["kind"] == "kernelbench" else Path(task.spec["path"]).name


def _kernels_name(task: LoadedTask, name: str) -> str:
    """The qualified name behind ``TaskSpec.kernels_import``."""
    if task.spec["kind"] == "kernelbench":
        return "kernels"
    package = name.rpartition(".")[0]
    own = task.spec.get("kernels") or f"{Path(task.spec['path']).stem}_kernels"
    return f"{package}.{own}" if package else own


def _find_class(task: LoadedTask, module: types.ModuleType) -> type[nn.Module]:
    name = "ModelNew" if task.spec["kind"] == "kernelbench" else task.spec["class_name"]
    found = getattr(module, name, None)
    if not inspect.isclass(found):
        there = [
            key for key, value in vars(module).items() if inspect.isclass(value) and value.__module__ == module.__name__
        ]
        raise CandidateProblem(f"The file has no class {name}; it has {', '.join(there) or 'none'}.", _file(task))
    if not issubclass(found, nn.Module):
        raise CandidateProblem(f"{name} must be a torch.nn.Module.", f"{_file(task)}:{line(found)}")
    return found


def _check_forward(task: LoadedTask, instance: nn.Module) -> None:
    """Raise unless the candidate's forward takes what the original's cannot do without, in the same order."""
    parameters = list(inspect.signature(task.cls.forward).parameters.values())[1:]
    required = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    names = [p.name for p in required if p.kind is not p.KEYWORD_ONLY]
    keywords = {p.name: None for p in required if p.kind is p.KEYWORD_ONLY}
    try:
        inspect.signature(instance.forward).bind(*names, **keywords)
    except TypeError as error:
        raise CandidateProblem(
            f"Its forward must take ({', '.join([*names, *keywords])}) like the original's: {error}.", _file(task)
        ) from error


@contextlib.contextmanager
def _candidate_problems(doing: str, folder: Path) -> Iterator[None]:
    """Turn whatever the candidate's own code raises into a CandidateProblem at its line."""
    try:
        yield
    except (Exception, SystemExit) as error:
        where = place(error, folder, relative=True)
        if isinstance(error, SyntaxError):
            raise CandidateProblem(f"The file does not parse: {error.msg}.", where) from error
        raise CandidateProblem(f"{doing} raises {summary(error)}", where) from error

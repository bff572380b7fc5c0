"""Imports the developer's file, in the place that it has in their project, and says at their line why it cannot be."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import sys
import types
from pathlib import Path
from typing import Any, Iterator

from torch import nn

from warpsmith_harness.problems import TaskProblem, line, place, summary


def import_kernelbench(spec: dict[str, Any]) -> types.ModuleType:
    """Execute a KernelBench file as the module ``model``, the name under which a candidate may import it.

    Raises:
        TaskProblem: It does not parse or import.
    """
    _first_on_path(spec["root"])
    return _execute("model", spec)


def import_module(spec: dict[str, Any]) -> types.ModuleType:
    """Import the developer's file under its own dotted name, with its packages, as its own project would.

    Raises:
        TaskProblem: It does not parse or import, or another module has its name.
    """
    _first_on_path(spec["root"])
    name = spec["module_name"]
    if "." in name or Path(spec["path"]).name == "__init__.py":
        with _import_problems(spec):
            module = importlib.import_module(name)
    else:
        module = sys.modules.get(name) or _execute(name, spec)
    loaded = getattr(module, "__file__", None) or "the interpreter itself"
    if not Path(loaded).exists() or not Path(loaded).samefile(spec["path"]):
        raise TaskProblem(
            f"Importing {name} gives {loaded} instead of this file.",
            str(spec["path"]),
            "Rename the file, or remove the other module of that name from the interpreter.",
        )
    return module


def _execute(name: str, spec: dict[str, Any]) -> types.ModuleType:
    location = importlib.util.spec_from_file_location(name, spec["path"])
    if location is None or location.loader is None:
        raise TaskProblem("The file is not a Python source file.", str(spec["path"]), "Name a file that ends in .py.")
    module = importlib.util.module_from_spec(location)
    sys.modules[name] = module
    with _import_problems(spec):
        location.loader.exec_module(module)
    return module


@contextlib.contextmanager
def _import_problems(spec: dict[str, Any]) -> Iterator[None]:
    """Turn whatever importing the developer's file raises into a TaskProblem at their line."""
    try:
        yield
    except (Exception, SystemExit) as error:
        where = place(error, Path(spec["root"])) or str(spec["path"])
        if isinstance(error, SyntaxError):
            raise TaskProblem(
                f"The file does not parse: {error.msg}.", where, "Mend the line and try again."
            ) from error
        if isinstance(error, ModuleNotFoundError) and error.name:
            raise _missing(error.name, where, Path(spec["root"])) from error
        if isinstance(error, FileNotFoundError) and not Path(spec["path"]).exists():
            raise TaskProblem("The file does not exist.", str(spec["path"]), "Check the path.") from error
        raise TaskProblem(f"Importing the file raises {summary(error)}", where, advice(error)) from error


def _missing(name: str, where: str, root: Path) -> TaskProblem:
    top = name.split(".")[0]
    if (root / top).exists() or (root / f"{top}.py").exists():
        return TaskProblem(
            f"The file imports {name}, which the project below {root} does not have.", where, "Check the import."
        )
    return TaskProblem(
        f"The file imports {name}, which {sys.executable} does not have.",
        where,
        f"Install it there ({sys.executable} -m pip install {top}), or name the project's own interpreter with --python.",
    )


def find_class(module: types.ModuleType, spec: dict[str, Any]) -> type[nn.Module]:
    """Return the task's class; raises ``TaskProblem`` with those that there are."""
    name = spec["class_name"]
    found = getattr(module, name, None)
    there = [
        key
        for key, value in vars(module).items()
        if inspect.isclass(value) and issubclass(value, nn.Module) and value.__module__ == module.__name__
    ]
    next_step = f"Its modules are: {', '.join(there)}." if there else "It defines no torch.nn.Module."
    if found is None:
        raise TaskProblem(f"The file has no class {name}.", str(spec["path"]), next_step)
    if not (inspect.isclass(found) and issubclass(found, nn.Module)):
        raise TaskProblem(f"{name} is not a torch.nn.Module.", f"{spec['path']}:{line(found)}", next_step)
    return found


def advice(error: BaseException) -> str:
    """Return the next step for the errors whose cause is usually the same."""
    if "out of memory" in str(error):
        return "Give smaller inputs, or free memory on the device."
    return "Run it in the project's own way to see the whole traceback, and check --init and --inputs."


def _first_on_path(root: str) -> None:
    if root in sys.path:
        sys.path.remove(root)
    sys.path.insert(0, root)

"""From the words a developer types (``blocks.py:Block``) to a task, without importing their code."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox.errors import EnvironmentFault, TaskError, UsageError
from sandbox.task import DynamicSize, TaskSpec

SKIPPED_FOLDERS = {"node_modules", "site-packages", "__pycache__", "build", "dist", "venv", "env"}
LARGEST_SOURCE = 2_000_000
_LANDED_CLASS = re.compile(r"'class': '(\w+)'")


@dataclass(frozen=True)
class ModuleClass:
    """A class with a ``forward``, found by reading the file. Parameters are as written, with defaults, without self."""

    path: Path
    name: str
    line: int
    bases: tuple[str, ...]
    init_parameters: tuple[str, ...]
    forward_parameters: tuple[str, ...]
    docstring: str

    @property
    def needs_arguments(self) -> bool:
        """Whether the constructor has a parameter without a default."""
        return any("=" not in p and not p.startswith("*") for p in self.init_parameters)


def find_classes(path: Path) -> list[ModuleClass]:
    """Return the classes of a file that define ``forward`` or derive from something that is called a Module.

    Raises:
        TaskError: The file cannot be read or does not parse.
    """
    tree = _parse(path)
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    return [_module_class(path, node) for node in classes if _is_module(node)]


def find_modules(root: Path) -> Iterator[ModuleClass]:
    """Yield the module classes of every Python file below a folder, in path order; files that do not parse are skipped."""
    for path in python_files(root):
        try:
            yield from find_classes(path)
        except TaskError:
            continue


def python_files(root: Path) -> Iterator[Path]:
    """Yield the Python files below a folder, leaving out environments, builds and hidden folders."""
    for folder, names, files in os.walk(root):
        here = Path(folder)
        names[:] = sorted(
            n
            for n in names
            if not n.startswith(".") and n not in SKIPPED_FOLDERS and not (here / n / "pyvenv.cfg").exists()
        )
        for name in sorted(files):
            path = here / name
            if name.endswith(".py") and path.is_file() and path.stat().st_size <= LARGEST_SOURCE:
                yield path


def resolve_target(text: str, *, python: str = "", device: str = "cpu", **options: Any) -> TaskSpec:
    """Turn ``path.py``, ``path.py:Class`` or ``package.module:Class`` into a task.

    Args:
        text: What the developer typed.
        python: Their interpreter; empty for the active virtual environment, else ours.
        device: ``cpu`` or ``cuda:N``, already resolved.
        options: Further fields of :class:`TaskSpec` (``init``, ``inputs``, ``factory``, ``dtype`` and so on).

    Raises:
        UsageError: There is no such file, module or class, or several classes and none named.
        TaskError: The file does not parse.
        EnvironmentFault: The interpreter does not exist.
    """
    if not text.partition(":")[0].strip():
        raise UsageError(
            "No file or module is named.",
            where=f"'{text}'",
            next_step="Name path.py, path.py:Class or package.module:Class.",
        )
    interpreter = find_interpreter(python)
    name, _, class_name = text.partition(":") if not Path(text).exists() else (text, "", "")
    path = Path(name).resolve() if name.endswith(".py") or Path(name).exists() else _find_dotted(name, interpreter)
    if path.is_dir():
        raise UsageError(
            "A folder is not a module.",
            where=str(path),
            next_step="Name a file, or open the picker there with: warpsmith open",
        )
    if not path.is_file():
        raise UsageError("There is no such file.", where=str(path), next_step="Name a file, or package.module:Class.")
    if path.name == "__init__.py":
        raise UsageError(
            "A module in a package's __init__.py cannot be optimised there: its kernels would need a name of their own.",
            where=str(path),
            next_step="Move the class to a file of its own and import it in __init__.py.",
        )
    root, module_name = locate(path)
    kernelbench = _is_kernelbench(path) and class_name in ("", "Model")
    chosen = "Model" if kernelbench else _choose_class(path, class_name)
    return TaskSpec(
        kind="kernelbench" if kernelbench else "module",
        path=path,
        class_name=chosen,
        module_name=module_name,
        root=root,
        python=interpreter,
        device=device,
        **{"kernels": "" if kernelbench else kernels_folder(path, chosen), **options},
    )


def kernels_folder(path: Path, class_name: str) -> str:
    """Return the name of the folder of kernels of a class where another class of its file has the usual one, or nothing."""
    record = path.parent / f"{path.stem}_kernels" / "_landed.py"
    owner = _LANDED_CLASS.search(record.read_text(errors="replace")) if record.is_file() else None
    return f"{path.stem}_{class_name.lower()}_kernels" if owner and owner[1] != class_name else ""


def parse_dynamic(text: str) -> DynamicSize:
    """Read ``x.0,y.0=1:4096``: dimensions that change together, and the least and the largest size.

    Raises:
        UsageError: It has another form.
    """
    names, _, sizes = text.rpartition("=")
    found = re.fullmatch(r"(\d+):(\d+)", sizes.strip())
    dims = tuple(part.strip() for part in names.split(","))
    if found is None or not all(re.fullmatch(r".+\.\d+", dim) for dim in dims):
        raise UsageError(
            "A dynamic dimension is declared as NAME.DIM[,NAME.DIM...]=LOW:HIGH.",
            where=f"--dynamic {text}",
            next_step="Write x.0=1:4096, or x.0,mask.0=1:4096 for dimensions that change together.",
        )
    low, high = int(found[1]), int(found[2])
    if low >= high:
        raise UsageError(
            f"The range {low}:{high} holds no two sizes.",
            where=f"--dynamic {text}",
            next_step="Write LOW:HIGH, LOW first.",
        )
    return DynamicSize(dims, low, high)


def locate(path: Path) -> tuple[Path, str]:
    """Return the folder that must be on ``sys.path`` and the file's dotted name below it."""
    names = [] if path.stem == "__init__" else [path.stem]
    folder = path.parent
    while (folder / "__init__.py").is_file():
        names.insert(0, folder.name)
        folder = folder.parent
    return folder, ".".join(names)


def find_interpreter(python: str = "") -> Path:
    """Return the developer's interpreter: the one named, else the active virtual environment's, else ours.

    Raises:
        EnvironmentFault: It does not exist or cannot be run.
    """
    active = os.environ.get("VIRTUAL_ENV") or os.environ.get("CONDA_PREFIX")
    found = (
        Path(python).expanduser() if python else (Path(active) / "bin" / "python" if active else Path(sys.executable))
    )
    if found.is_dir():
        found = found / "bin" / "python"
    if not found.is_file() or not os.access(found, os.X_OK):
        raise EnvironmentFault(
            "There is no interpreter here.", where=str(found), next_step="Name one with --python PATH."
        )
    return Path(os.path.abspath(found))  # noqa: PTH100 - a venv's python is a link that must not be resolved


def _parse(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_bytes(), filename=str(path))
    except SyntaxError as error:
        raise TaskError(
            f"The file does not parse: {error.msg}.",
            where=f"{path}:{error.lineno}" if error.lineno else str(path),
            next_step="Mend the file and open it again.",
        ) from error
    except (OSError, ValueError) as error:
        raise TaskError(f"The file cannot be read: {error}.", where=str(path)) from error


def _is_module(node: ast.ClassDef) -> bool:
    has_forward = any(isinstance(item, ast.FunctionDef) and item.name == "forward" for item in node.body)
    return has_forward or any(ast.unparse(base).split(".")[-1] == "Module" for base in node.bases)


def _module_class(path: Path, node: ast.ClassDef) -> ModuleClass:
    methods = {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}
    return ModuleClass(
        path=path,
        name=node.name,
        line=node.lineno,
        bases=tuple(ast.unparse(base) for base in node.bases),
        init_parameters=_parameters(methods.get("__init__")),
        forward_parameters=_parameters(methods.get("forward")),
        docstring=(ast.get_docstring(node) or "").partition("\n")[0],
    )


def _parameters(function: ast.FunctionDef | None) -> tuple[str, ...]:
    """Return a method's parameters as written, one text each, without ``self``."""
    if function is None:
        return ()
    args = function.args
    positional = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(positional) - len(args.defaults)) + list(args.defaults)
    texts = [_parameter(arg, default) for arg, default in zip(positional, defaults, strict=True)][1:]
    if args.vararg:
        texts.append(f"*{args.vararg.arg}")
    texts += [_parameter(arg, default) for arg, default in zip(args.kwonlyargs, args.kw_defaults, strict=True)]
    if args.kwarg:
        texts.append(f"**{args.kwarg.arg}")
    return tuple(texts)


def _parameter(arg: ast.arg, default: ast.expr | None) -> str:
    text = ast.unparse(arg)
    return text if default is None else f"{text} = {ast.unparse(default)}"


def _is_kernelbench(path: Path) -> bool:
    names = {node.name for node in _parse(path).body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    return "Model" in names and "get_inputs" in names


def _choose_class(path: Path, wanted: str) -> str:
    tree = _parse(path)
    every = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    if wanted:
        if wanted not in every:
            known = ", ".join(every) or "none"
            raise UsageError(
                f"There is no class '{wanted}' in this file; its classes are: {known}.",
                where=str(path),
                next_step="Name one of them after the colon.",
            )
        return wanted
    modules = [found.name for found in find_classes(path)]
    if len(modules) == 1:
        return modules[0]
    if not modules:
        raise UsageError(
            "This file has no class with a forward method.",
            where=str(path),
            next_step="Name a file that defines a torch.nn.Module.",
        )
    raise UsageError(
        f"This file has several modules: {', '.join(modules)}.",
        where=str(path),
        next_step=f"Name one: {os.path.relpath(path)}:{modules[-1]}",
    )


def _find_dotted(name: str, python: Path) -> Path:
    """Find a dotted module's file, first below the current folder, then wherever the developer's interpreter finds it."""
    here = Path.cwd().joinpath(*name.split("."))
    for candidate in (here.with_suffix(".py"), here / "__init__.py"):
        if candidate.is_file():
            return candidate.resolve()
    code = "import importlib.util, sys; s = importlib.util.find_spec(sys.argv[1]); print(s.origin if s and s.origin else '')"
    answer = subprocess.run([str(python), "-c", code, name], capture_output=True, text=True, timeout=60, check=False)
    origin = answer.stdout.strip().splitlines()[-1:] or [""]
    if not origin[0].endswith(".py"):
        detail = (answer.stderr.strip().splitlines() or ["not found"])[-1]
        raise UsageError(
            f"'{name}' is neither a file nor a module that this interpreter finds: {detail}.",
            where=str(python),
            next_step="Check the spelling, or name the interpreter of your project with --python.",
        )
    return Path(origin[0]).resolve()

"""Rules on the libraries that a candidate builds for itself with ``load_inline``: what they ask of torch and of the system.

Such a library needs Python and torch, which kernel files may not ask for, so that what is known to be wrong is refused here
and the rest passes.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from sandbox.build.inspection import read_object
from sandbox.guard.kernel_names import TORCH_ALLOWED
from sandbox.guard.symbol_names import PYTHON, TORCH, kind_of
from sandbox.guard.symbols import refusal
from sandbox.isolation import Cell, Isolation, Limits
from sandbox.verdict import Finding

_MOST_FILES = 16
_SECONDS = 20.0
_MOST_MEMORY = 1024**3
_OPERATOR = re.compile(r"_ZN2at4_ops\d+(?P<name>\w+?)(?:4call|10redispatch)E")
_COMPUTES = re.compile(
    r"_ZNK?2at6native|_ZNK?3c1010Dispatcher|_ZNK?3c1019TypedOperatorHandle|_ZNK?3c1014OperatorHandle"
    r"|(?:aoti_)?torch_call_dispatcher|aoti_torch_(?:cpu|cuda)_\w+"
)
_RUNS_PYTHON = re.compile(r"PyRun_\w+|Py_CompileString\w*|PyEval_EvalCode\w*|PyImport_Import\w*|PyMarshal_\w+")


def check_extensions(folder: Path, isolation: Isolation) -> list[Finding]:
    """Look at what the libraries below a folder ask for; they are read in a cell."""
    found: list[Finding] = []
    files = [path for path in sorted(folder.rglob("*.so")) if path.is_file() and not path.is_symlink()]
    for path in files[:_MOST_FILES]:
        listing = _listing(path, folder, isolation)
        if "Dynamic section" not in listing and ".dynsym" not in listing:
            found.append(Finding("symbol", "reject", f"{path.name}: this library cannot be read"))
        asked = read_object(path.name, listing, "").asked
        found += [
            Finding(rule, "reject", f"{path.name}: asks for `{name}`: {why}") for name, rule, why in _refused(asked)
        ]
    return found


def _refused(asked: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    for name in asked:
        refused = extension_refusal(name)
        if refused:
            yield name[:120], *refused


def extension_refusal(name: str) -> tuple[str, str] | None:
    """Return rule and reason why a library that binds itself to torch may not ask for a name, or null where it may."""
    operator = _OPERATOR.match(name)
    if operator and not TORCH_ALLOWED.fullmatch(operator["name"]):
        return "torch-in-cpp", f"torch.{operator['name']} computes here; do it in a kernel"
    if _COMPUTES.match(name):
        return "torch-in-cpp", "torch computes here; do it in a kernel"
    if _RUNS_PYTHON.fullmatch(name):
        return "code-from-text", "this runs Python from C++"
    if TORCH.match(name) or PYTHON.fullmatch(name):
        return None
    refused = refusal(name)
    known = refused is not None and (refused[0] != "symbol" or kind_of(name) is not None)
    return refused if known and name not in {"abort", "exit"} else None


def _listing(path: Path, folder: Path, isolation: Isolation) -> str:
    """Return a library's sections and the names it is linked by, as readelf tells them."""
    cell = Cell(
        readable=(folder,),
        writable=(),
        cwd=folder,
        env={"LC_ALL": "C"},
        limits=Limits(_SECONDS, _MOST_MEMORY, processes=16),
    )
    command = ["readelf", "-W", "-S", "--dyn-syms", str(path)]
    process = isolation.popen(
        command, cell, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        return process.communicate()[0].decode(errors="replace")
    finally:
        isolation.kill(process)

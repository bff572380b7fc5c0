"""The kernel files of a workspace as they are compiled: read once, checked for what the build does not allow."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sandbox.build.text import line_of, without_comments
from sandbox.build.toolchain import LIBRARIES
from sandbox.verdict import Diagnostic

FOLDER = "kernels"
HEADER_SUFFIXES = frozenset({".cuh", ".h", ".hpp", ".hh", ".inl"})
SOURCE_SUFFIXES = frozenset({".cu", ".cpp", ".cc", ".cxx", ".c"})
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_TORCH = re.compile(r"(torch|ATen|c10|pybind11|caffe2)/|Python\.h|torch\.h")
_INCLUDE = re.compile(r"^[ \t]*(?:#|%:|\?\?=)[ \t]*(include(?:_next)?|import|embed)\b[ \t]*(.*)", re.MULTILINE)
_DIRECTIVE = re.compile(r"//[ \t]*(link[ \t]*:|fast-math\b)[ \t]*(.*)", re.IGNORECASE)
_LARGEST_FILE = 1024**2


@dataclass(frozen=True)
class Source:
    """A file that is compiled: its path relative to the workspace, its text, and what its first lines ask for."""

    file: str
    data: bytes
    libraries: tuple[str, ...] = ()
    fast_math: bool = False


@dataclass(frozen=True)
class Sources:
    """Everything the compiler may see of a workspace, and what is wrong with it. ``headers`` maps paths to contents."""

    sources: tuple[Source, ...]
    headers: dict[str, bytes]
    diagnostics: tuple[Diagnostic, ...]


def read_sources(folder: Path, *, suffix: str) -> Sources:
    """Read the kernel files below ``folder``; ``suffix`` (``.cu`` or ``.cpp``) is what this device compiles.

    Files that are neither sources nor headers are not shown to the compiler.
    """
    sources: list[Source] = []
    headers: dict[str, bytes] = {}
    diagnostics: list[Diagnostic] = []
    for path in _files(folder):
        file = f"{FOLDER}/{path.relative_to(folder).as_posix()}"
        problem = _file_problem(path, folder, suffix)
        if problem:
            diagnostics.append(Diagnostic(file, 0, problem))
            continue
        data = path.read_bytes()
        text = data.decode(errors="replace")
        diagnostics += [Diagnostic(file, line, message) for line, message in _include_problems(text, file)]
        if path.suffix in HEADER_SUFFIXES:
            headers[file] = data
            continue
        libraries, fast_math, wrong = read_directives(text, cuda=suffix == ".cu")
        diagnostics += [Diagnostic(file, line, message) for line, message in wrong]
        sources.append(Source(file, data, libraries, fast_math))
    if not sources and not diagnostics:
        diagnostics.append(Diagnostic(FOLDER, 0, f"There is no kernel to build: write {FOLDER}/NAME{suffix}."))
    return Sources(tuple(sources), headers, tuple(diagnostics))


def has_sources(folder: Path) -> bool:
    """Whether there is anything to compile below a folder; a candidate that brings its own binding has nothing."""
    return any(path.suffix in SOURCE_SUFFIXES for path in _files(folder))


def read_directives(text: str, *, cuda: bool) -> tuple[tuple[str, ...], bool, list[tuple[int, str]]]:
    """Read ``// link: cublas`` and ``// fast-math`` from the comment lines a file begins with.

    Returns:
        The libraries in lower case, whether fast-math is asked for, and problems as (line, message).
    """
    libraries: list[str] = []
    fast_math = False
    problems: list[tuple[int, str]] = []
    in_head = True
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        in_head = in_head and (not stripped or stripped.startswith("//"))
        found = _DIRECTIVE.fullmatch(stripped)
        if not found:
            continue
        if not in_head:
            problems.append((number, f"`{stripped}` counts only above the first line of code; move it to the top."))
        elif found[1].lower() == "fast-math":
            fast_math = True
        else:
            names = re.split(r"[,\s]+", found[2].strip())
            problems += [(number, message) for name in names if (message := _library_problem(name, cuda))]
            libraries += [name.lower() for name in names if name.lower() in LIBRARIES]
    return tuple(dict.fromkeys(libraries)), fast_math, problems


def _library_problem(name: str, cuda: bool) -> str:
    if name.lower() not in LIBRARIES:
        return f"`{name}` cannot be linked; what can be is cublas, cublasLt and cudnn (fast-math is `// fast-math`)."
    return "" if cuda else f"`{name}` is a CUDA library, and this task runs on the CPU; remove the line."


def _files(folder: Path) -> Iterator[Path]:
    """Yield every file below a folder in a fixed order; links are yielded, never followed."""
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names + [name for name in folders if (Path(parent) / name).is_symlink()]):
            path = Path(parent) / name
            if path.is_symlink() or path.suffix in HEADER_SUFFIXES | SOURCE_SUFFIXES:
                yield path


def _file_problem(path: Path, folder: Path, suffix: str) -> str:
    if path.is_symlink() or not path.is_file():
        return "This is a link or a special file; write the file itself."
    if not all(_PART.fullmatch(part) for part in path.relative_to(folder).parts):
        return "Rename it: letters, digits, `_`, `-`, `+` and `.` are allowed in a kernel file's path."
    if path.stat().st_size > _LARGEST_FILE:
        return "This file is larger than 1 MB; kernel files are written by hand."
    if path.suffix in SOURCE_SUFFIXES and path.suffix != suffix:
        if suffix == ".cpp":
            return "This task runs on the CPU: write kernels/NAME.cpp with launchers that take no stream."
        return f"This task runs on the GPU: rename it to {path.stem}.cu (each launcher takes a cudaStream_t last)."
    return ""


def _include_problems(text: str, file: str) -> Iterator[tuple[int, str]]:
    """Yield the includes that no kernel file may have: torch, files outside the workspace, sources, computed names."""
    code = without_comments(text)
    found = list(_INCLUDE.finditer(code))
    for include in found:
        message = _include_problem(include[1], include[2].strip(), file)
        if message:
            yield line_of(code, include.start()), message
    if len(found) != len(_INCLUDE.findall(code.replace("\\\n", ""))):
        yield 0, "An #include is split over lines; write it on one."


def _include_problem(keyword: str, target: str, file: str) -> str:
    if keyword != "include":
        return f"`#{keyword}` is not allowed; use #include with a header."
    quoted = re.match(r'["<]([^">]+)[">]', target)
    if quoted is None:
        return f"`#include {target}` is computed by a macro; write the header's name out."
    name = quoted[1]
    if _TORCH.match(name):
        return f"{name} is torch's; a kernel file takes raw pointers and includes no torch header."
    inside = os.path.normpath(Path(file).parent / name).startswith(f"{FOLDER}/")
    if name.startswith("/") or (".." in name.split("/") and not inside):
        return f"{name} lies outside the kernels folder; include headers of the toolkit or of kernels/ only."
    if Path(name).suffix in SOURCE_SUFFIXES:
        return f"{name} is compiled by itself; put what is shared into a header (.cuh or .h) and include that."
    return ""

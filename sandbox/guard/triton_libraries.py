"""Libraries that Triton compiles for itself while a candidate runs: let through if they are Triton's, and nobody else's.

Triton starts kernels through little C libraries that it writes, compiles and loads as it goes. A candidate with Triton
kernels gets a folder of its own for them and a compiler that keeps what it was given there. All that lies in the folder may
be forged, so it proves nothing. What is believed is found here: the C file is the one that Triton's own files hold, or has the
form of the one they write, and compiling it again gives the library that was loaded, byte by byte.
"""

from __future__ import annotations

import ast
import contextlib
import re
import shutil
import stat
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandbox.isolation import Cell, Isolation

_COMPILER = """#!/bin/sh
kept=$(mktemp -d '{kept}/XXXXXXXXXX') && printf '%s\\n' "$@" > "$kept/arguments" && cp -- "$1" "$kept/source"
exec '{compiler}' "$@"
"""
_COMPILERS = ("gcc", "clang")
_DRIVER = Path("triton/backends/nvidia/driver.py")
_UTILITIES = _DRIVER.with_suffix(".c")
_LIBRARY = re.compile(r"\w+/\w+(?:\.[\w-]+)?\.so")
_SOURCE = re.compile(r"(?P<folder>/(?:[\w.-]+/)+)(?P<name>\w+\.c)")
_FLAGS = frozenset({"-O3", "-shared", "-fPIC", "-Wno-psabi"})
_LIBCUDA = re.compile(r"-l(?::libcuda\.so(?:\.\d+)*|cuda)")
_HERE = "{here}"
_MOST_BYTES = 4 * 1024 * 1024
_MOST_SOURCES = 64
_FILLING = re.compile(r"[\w\s,;:.*&=()!\[\]{}|-]*")
_NAME = re.compile(r"[A-Za-z_]\w*")
_LONG = 1000
"""A text of Triton's of this length is the form of a C file, and no part of a line."""


@dataclass(frozen=True)
class TritonFolders:
    """Where the Triton of one candidate keeps what it compiles, and the compiler that it gets."""

    cache: Path
    compiler: Path

    @property
    def kept(self) -> Path:
        """The folder of what the compiler was given."""
        return self.cache / "kept"

    @property
    def variables(self) -> dict[str, str]:
        """What tells Triton of them."""
        return {"TRITON_CACHE_DIR": str(self.cache), "CC": str(self.compiler)}


def make_folders(compiler: Path, cache: Path, path: str) -> TritonFolders:
    """Make both folders anew, empty but for the compiler.

    Without a compiler on this machine there is only the cache, and Triton says what is missing.

    Args:
        compiler: Where the compiler is to lie, which workers only read.
        cache: Where they write.
        path: Where they find programs, and what really compiles.
    """
    for folder in (compiler, cache):
        shutil.rmtree(folder, ignore_errors=True)
    made = TritonFolders(cache, compiler / "cc")
    made.kept.mkdir(parents=True)
    made.compiler.parent.mkdir(parents=True)
    found = next(filter(None, (shutil.which(name, path=path) for name in _COMPILERS)), _COMPILERS[0])
    made.compiler.write_text(_COMPILER.format(kept=made.kept, compiler=found))
    made.compiler.chmod(0o755)
    return made


def tritons_own(
    mapped: Iterable[str], folders: TritonFolders, packages: Sequence[Path], isolation: Isolation, cell: Cell
) -> list[Path]:
    """Return the libraries among ``mapped`` that lie in the cache and are Triton's.

    Args:
        mapped: Files that the candidate's process has mapped to execute.
        folders: The candidate's.
        packages: Folders with the interpreter's packages, which no candidate can write to.
        isolation: What compiles is put into it.
        cell: As the candidate's, for the compiler.
    """
    within = [Path(name) for name in mapped if Path(name).is_relative_to(folders.cache)]
    libraries = [path for path in within if _LIBRARY.fullmatch(str(path.relative_to(folders.cache)))]
    contents = {path: _read(path) for path in libraries}
    if not any(contents.values()):
        return []
    compiled = set(_compiled(folders, packages, isolation, cell))
    return [path for path, content in contents.items() if content and content in compiled]


def _read(path: Path) -> bytes:
    """Return a plain file's content; nothing of any other, or of one that is far too large."""
    with contextlib.suppress(OSError):
        about = path.lstat()
        if stat.S_ISREG(about.st_mode) and about.st_size <= _MOST_BYTES:
            return path.read_bytes()
    return b""


def _compiled(folders: TritonFolders, packages: Sequence[Path], isolation: Isolation, cell: Cell) -> Iterator[bytes]:
    """Yield what the compiler makes of each C file that is Triton's."""
    forms = [each for root in packages if (root / _DRIVER).is_file() for each in forms_in(root)]
    kept = [each for each in sorted(folders.kept.glob("*")) if each.is_dir() and not each.is_symlink()]
    for number, each in enumerate(kept[:_MOST_SOURCES]):
        source = _read(each / "source").decode(errors="replace")
        arguments = _arguments(_read(each / "arguments").decode(errors="replace").splitlines(), cell)
        if arguments and any(form.fits(source) for form in forms):
            yield _compile(source, arguments, folders.compiler.parent / str(number), isolation, cell)


def _arguments(given: list[str], cell: Cell) -> list[str]:
    """Return the name of the C file and the arguments to compile it with, or nothing if any is not one that Triton gives."""
    source = _SOURCE.fullmatch(given[0]) if given else None
    if source is None:
        return []
    # An assertion in a C file holds the file's name as the compiler was given it.
    kept, rest = [source["name"], f"-fmacro-prefix-map={_HERE}={source['folder']}"], iter(given[1:])
    for each in rest:
        if each == "-o":
            next(rest, "")
        elif each[:2] in ("-I", "-L"):
            if _is_given(each[2:], cell):
                kept.append(each)
        elif each in _FLAGS or _LIBCUDA.fullmatch(each):
            kept.append(each)
        else:
            return []
    return kept


def _is_given(folder: str, cell: Cell) -> bool:
    """Whether a folder is the interpreter's or the system's, and not the worker's own ``/tmp``, which nobody else sees."""
    path = Path(folder)
    inside = not any(path.is_relative_to(each) for each in cell.writable)
    roots = (*cell.readable, Path("/usr"), Path("/lib"), Path("/lib64"), Path("/opt"), Path("/nix"))
    return path.is_absolute() and ".." not in path.parts and inside and any(path.is_relative_to(each) for each in roots)


def _compile(source: str, arguments: list[str], folder: Path, isolation: Isolation, cell: Cell) -> bytes:
    """Compile a C file in a cell where the real compiler is the one that the script names; return the library."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / arguments[0]).write_text(source)
    compiler = (folder.parent / "cc").read_text().splitlines()[-1].split("'")[1]
    given = [each.replace(_HERE, f"{folder}/") for each in arguments[1:]]
    command = [compiler, str(folder / arguments[0]), *given, "-o", str(folder / "library.so")]
    inside = Cell(cell.readable, (folder,), folder, dict(cell.env), cell.limits, gpu=cell.gpu)
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = isolation.popen(command, inside, **quiet)
    try:
        process.wait()
    finally:
        isolation.kill(process)
    return _read(folder / "library.so")


@dataclass(frozen=True)
class Form:
    """A C file with gaps: what stands between them, and the names that may fill them."""

    pieces: tuple[str, ...]
    names: frozenset[str]

    def fits(self, source: str) -> bool:
        """Whether a text is the pieces in order, with nothing between them but names that may be there."""
        at = len(self.pieces[0])
        if not source.startswith(self.pieces[0]) or (len(self.pieces) == 1 and len(source) != at):
            return False
        for piece in self.pieces[1:]:
            found = len(source) - len(piece) if piece is self.pieces[-1] else source.find(piece, at)
            if found < at or not source.startswith(piece, found) or not self._fills(source[at:found]):
                return False
            at = found + len(piece)
        return True

    def _fills(self, gap: str) -> bool:
        return bool(_FILLING.fullmatch(gap)) and all(map(self._is_known, _NAME.findall(gap)))

    def _is_known(self, name: str) -> bool:
        """Whether a name is one of Triton's, or one with a number put in, or the letters of a format in a row."""
        without = (name[: run.start()] + name[run.end() :] for run in re.finditer(r"\d+", name))
        return name in self.names or any(each in self.names for each in without) or self.names.issuperset(name)


def forms_in(packages: Path) -> list[Form]:
    """Return the forms of the C files that the Triton in a folder of packages writes or holds."""
    tree = ast.parse((packages / _DRIVER).read_text(encoding="utf-8"))
    within = {part for each in ast.walk(tree) if isinstance(each, ast.JoinedStr) for part in each.values}
    texts = [each for each in ast.walk(tree) if isinstance(each, ast.JoinedStr)]
    alone = [each.value for each in ast.walk(tree) if isinstance(each, ast.Constant) and each not in within]
    short = [*("".join(_pieces(each)) for each in texts), *(each for each in alone if isinstance(each, str))]
    names = frozenset(name for each in short if len(each) < _LONG for name in _NAME.findall(each))
    written = [Form(_pieces(each), names) for each in texts if len("".join(_pieces(each))) >= _LONG]
    held = packages / _UTILITIES
    return [*written, *([Form((held.read_text(encoding="utf-8"),), frozenset())] if held.is_file() else [])]


def _pieces(text: ast.JoinedStr) -> tuple[str, ...]:
    """Return what an f-string holds between its gaps; neighbours that are texts are one, an edge that is a gap is empty."""
    pieces = [""]
    for each in text.values:
        if isinstance(each, ast.Constant):
            pieces[-1] += str(each.value)
        else:
            pieces.append("")
    return tuple(pieces)

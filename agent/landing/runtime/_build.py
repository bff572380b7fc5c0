"""Compiles the kernels of this folder on first use, for the machine they run on, and keeps the library in the user's cache.

Needs the Python standard library only. A library is found again by the hash of its sources, flags and processor, so a
machine without a compiler can use one that was compiled before.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

LIBRARY = "kernels.so"
_SECONDS = 900
_SCRATCH = "building-"
_HEADERS = {"cublas": "cublas_v2.h", "cublaslt": "cublasLt.h", "cudnn": "cudnn.h"}
_OBJECTS = {"cublas": "libcublas.so*", "cublaslt": "libcublasLt.so*", "cudnn": "libcudnn.so*"}


class CannotBuild(RuntimeError):
    """The kernels cannot be compiled on this machine; the message says why and what would help."""


def build(folder: Path, recipe: dict[str, Any], arch: str) -> Path:
    """Return the library of a folder's kernels for an architecture, compiling it if it is not cached.

    Args:
        folder: Where the sources are.
        recipe: ``files`` (name, flags and libraries of each source), ``headers``, and flags to ``link``.
        arch: ``cpu``, or a GPU's ``sm_90``.

    Raises:
        CannotBuild: There is no compiler, it refuses the sources, or a source is missing.
    """
    with _explained(folder):
        entry = _cache() / _key(folder, recipe, arch)
        library = entry / LIBRARY
        if library.exists():
            return library
        entry.mkdir(parents=True, exist_ok=True)
        with _locked(entry / "lock") as alone, tempfile.TemporaryDirectory(dir=entry, prefix=_SCRATCH) as scratch:
            if alone:
                _remove_others(entry, scratch)
            if not library.exists():
                _compile(folder, recipe, arch, Path(scratch)).replace(library)
        return library


@contextlib.contextmanager
def _explained(folder: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        advice = "install the package with its data files" if str(error.filename).startswith(str(folder)) else ""
        raise CannotBuild(f"{error.filename} is missing; {advice}") from error
    except (OSError, subprocess.SubprocessError) as error:
        raise CannotBuild(str(error)) from error


def _key(folder: Path, recipe: dict[str, Any], arch: str) -> str:
    digest = hashlib.sha256(json.dumps([recipe, arch, _processor() if arch == "cpu" else ""]).encode())
    for name in sorted([*recipe["files"], *recipe["headers"]]):
        digest.update(f"\0{name}\0".encode() + (folder / name).read_bytes())
    return digest.hexdigest()[:32]


def _processor() -> str:
    """Return what ``-march=native`` depends on."""
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        text = ""
    marks = ("model name", "flags", "Features", "CPU part")
    return "\n".join([platform.machine(), *sorted({line for line in text.splitlines() if line.startswith(marks)})])


def _cache() -> Path:
    """Return the user's cache, or a folder for this process alone where that cannot be written."""
    try:
        base = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
        folder = Path(base) / "warpsmith" / "landed"
        folder.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK)
    except (OSError, RuntimeError):  # nobody's home is known
        writable = False
    return folder if writable else Path(tempfile.mkdtemp(prefix="warpsmith-"))


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Hold a lock that ends with its process, so that one that died leaves none behind; yields whether it is held.

    Some network file systems have none. The rename is atomic all the same.
    """
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:
            yield False
        else:
            yield True


def _remove_others(entry: Path, scratch: str) -> None:
    """Remove what builders that were killed have left."""
    for left in entry.glob(f"{_SCRATCH}*"):
        if str(left) != scratch:
            shutil.rmtree(left, ignore_errors=True)


def _compile(folder: Path, recipe: dict[str, Any], arch: str, scratch: Path) -> Path:
    """Compile each source and link them; returns the library, whole and flushed."""
    compiler = _cxx() if arch == "cpu" else [_nvcc(), "-gencode", _gencode(arch)]
    libraries = [
        _Library.find(name, compiler[0]) for name in sorted({n for f in recipe["files"].values() for n in f["link"]})
    ]
    includes = [f"-I{library.include}" for library in libraries]

    def compile_one(pair: tuple[str, dict[str, Any]]) -> str:
        name, file = pair
        output = str(scratch / f"{name.replace('/', '__')}.o")
        _run([*compiler, *file["flags"], *includes, "-c", str(folder / name), "-o", output])
        return output

    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        objects = list(pool.map(compile_one, recipe["files"].items()))
    output = scratch / LIBRARY
    found = [part for library in libraries for part in library.link(arch)]
    _run([*compiler, "-shared", *objects, "-o", str(output), *found, *recipe["link"]])
    with output.open("rb") as file:
        os.fsync(file.fileno())
    return output


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=_SECONDS, check=False
    )
    if done.returncode != 0:
        raise CannotBuild(f"{command[0]} refuses the sources:\n{done.stdout[-2000:]}")


def _cxx() -> list[str]:
    for name in (os.environ.get("CXX", ""), "g++", "clang++"):
        found = shutil.which(name) if name else None
        if found:
            return [found]
    raise CannotBuild("there is no C++ compiler; install g++, or set CXX")


def _nvcc() -> str:
    homes = [Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    on_path = shutil.which("nvcc")
    candidates = [home / "bin/nvcc" for home in homes] + ([Path(on_path)] if on_path else [])
    candidates += [Path("/usr/local/cuda/bin/nvcc"), *_site_packages().glob("nvidia/*/bin/nvcc")]
    for candidate in candidates:
        if os.access(candidate, os.X_OK):
            return str(candidate)
    raise CannotBuild("there is no nvcc; install the CUDA toolkit, or set CUDA_HOME")


def _gencode(arch: str) -> str:
    """Name an architecture for nvcc; from sm_90 on in its arch-specific form, which the kernels were verified in."""
    number = arch[len("sm_") :]
    suffix = "a" if int(number) >= 90 else ""
    return f"arch=compute_{number}{suffix},code=sm_{number}{suffix}"


def _site_packages() -> Path:
    return Path(sysconfig.get_paths()["purelib"])


class _Library:
    """A CUDA library: its headers' folder and its shared object."""

    def __init__(self, include: Path, file: Path) -> None:
        self.include = include
        self.file = file

    @classmethod
    def find(cls, name: str, compiler: str) -> _Library:
        """Find a library beside torch, whose copy is loaded already, or in the toolkit."""
        root = Path(compiler).resolve().parent.parent
        for base in [*_site_packages().glob("nvidia/*"), root, *root.glob("targets/*"), Path("/usr")]:
            files = [
                file
                for part in ("lib", "lib64", "lib/x86_64-linux-gnu")
                for file in base.glob(f"{part}/{_OBJECTS[name]}")
            ]
            if files and (base / "include" / _HEADERS[name]).is_file():
                return cls(base / "include", min(files, key=lambda file: len(file.name)))
        raise CannotBuild(f"{name} and its header were not found beside torch or in the CUDA toolkit")

    def link(self, arch: str) -> list[str]:
        """Return the arguments that link it, so that it is found again at run time."""
        path = f"-rpath={self.file.parent}"
        return [str(self.file), f"-Wl,{path}" if arch == "cpu" else f"-Xlinker={path}"]

"""The compilers and CUDA libraries of this machine: found, identified, and explained when they are missing.

Nothing here is the candidate's doing, so whatever is wrong is an ``EnvironmentFault`` with its next step.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sandbox.errors import EnvironmentFault

LIBRARIES = {"cublas": "cublas_v2.h", "cublaslt": "cublasLt.h", "cudnn": "cudnn.h"}
"""Libraries a kernel file may name with ``// link:``, in lower case, and the header that goes with each."""

_FILES = {"cublas": "libcublas.so*", "cublaslt": "libcublasLt.so*", "cudnn": "libcudnn.so*"}
_WHEELS = {"cublas": "nvidia-cublas", "cublaslt": "nvidia-cublas", "cudnn": "nvidia-cudnn"}
_INSTALLED = Path("/usr/local")
_NEWEST_GCC = 20
_OLDEST_GCC = 9


@dataclass(frozen=True)
class HostCompiler:
    """A C++ compiler: ``kind`` is ``g++`` or ``clang++``, ``version`` the first line it says of itself.

    ``has_static_library`` tells whether the C++ library is there to be linked statically.
    """

    path: Path
    kind: str
    version: str
    major: int
    has_static_library: bool = False

    def __str__(self) -> str:
        return f"{self.version} at {self.path}"


@dataclass(frozen=True)
class Nvcc:
    """The CUDA compiler, its toolkit's root, and the host compiler it works with."""

    path: Path
    version: tuple[int, int]
    build: str
    root: Path
    architectures: frozenset[str]
    host: HostCompiler

    def __str__(self) -> str:
        return f"nvcc {self.build} at {self.path}, with {self.host.kind} {self.host.major}"

    @property
    def cuda(self) -> str:
        """The CUDA version it belongs to, such as ``13.0``."""
        return f"{self.version[0]}.{self.version[1]}"

    def gencode(self, arch: str) -> str:
        """Return the ``-gencode`` value for an architecture such as ``sm_90``: its arch-specific form where it has one."""
        if arch not in self.architectures:
            known = ", ".join(sorted(self.architectures, key=lambda name: int(name[3:])))
            raise EnvironmentFault(
                f"nvcc {self.build} cannot compile for {arch}.",
                where=str(self.path),
                next_step=f"Install a CUDA toolkit that knows this GPU and point CUDA_HOME at it (this one knows {known}).",
            )
        number = arch.removeprefix("sm_")
        suffix = "a" if int(number) >= 90 and self.version >= (12, 0) else ""
        return f"arch=compute_{number}{suffix},code=sm_{number}{suffix}"


@dataclass(frozen=True)
class Library:
    """A CUDA library: where its headers are, and the shared object to link."""

    name: str
    include: Path
    file: Path


def find_host_compiler() -> HostCompiler:
    """Find the C++ compiler: ``CXX``, then g++, then clang++."""
    for name in (os.environ.get("CXX", ""), "g++", "clang++"):
        found = shutil.which(name) if name else None
        if found and (compiler := _identify(Path(found))):
            return compiler
    raise EnvironmentFault(
        "No C++ compiler was found.", next_step="Install g++ (Debian, Ubuntu: apt install g++), or set CXX to one."
    )


def find_nvcc(site_packages: Iterable[Path] = ()) -> Nvcc:
    """Find nvcc: ``CUDA_HOME``, ``CUDA_PATH``, ``PATH``, ``/usr/local/cuda*``, then the wheels in ``site_packages``."""
    homes = [Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    on_path = shutil.which("nvcc")
    installed = sorted(_INSTALLED.glob("cuda-*"), key=_numbers, reverse=True)
    wheels = [folder for packages in site_packages for folder in sorted(packages.glob("nvidia/*"), reverse=True)]
    candidates = [home / "bin/nvcc" for home in homes]
    candidates += [Path(on_path)] if on_path else []
    candidates += [home / "bin/nvcc" for home in (_INSTALLED / "cuda", *installed, *wheels)]
    for candidate in candidates:
        if os.access(candidate, os.X_OK) and candidate.is_file():
            return _identify_nvcc(candidate, os.environ.get("NVCC_CCBIN") or os.environ.get("CUDAHOSTCXX") or "")
    raise EnvironmentFault(
        "nvcc, the CUDA compiler, was not found.",
        next_step="Install the CUDA toolkit, or set CUDA_HOME to the folder that holds bin/nvcc.",
    )


def find_ninja() -> Path:
    """Find ninja: the one installed with the application, then ``PATH``."""
    import ninja

    beside = Path(ninja.BIN_DIR) / "ninja"
    found = str(beside) if beside.is_file() else shutil.which("ninja")
    if found is None:
        raise EnvironmentFault("ninja was not found.", next_step="Install it with `pip install ninja`.")
    return Path(found)


def find_library(name: str, site_packages: Iterable[Path], root: Path) -> Library:
    """Find a library of ``LIBRARIES``, with its headers from the same place.

    A CUDA build of torch in ``site_packages`` comes first, since its copy is the one already loaded in the process.
    """
    bases = [base for packages in site_packages for base in sorted(packages.glob("nvidia/*"), reverse=True)]
    bases += [root, root / "targets/x86_64-linux", root / "targets/sbsa-linux", Path("/usr")]
    for base in bases:
        include = base / "include"
        files = [
            f for folder in ("lib", "lib64", "lib/x86_64-linux-gnu") for f in base.glob(f"{folder}/{_FILES[name]}")
        ]
        if files and (include / LIBRARIES[name]).is_file():
            return Library(name, include, min(files, key=lambda file: (len(file.name), file.name)))
    raise EnvironmentFault(
        f"{_FILES[name].removesuffix('.so*')} and its header {LIBRARIES[name]} were not found.",
        next_step=f"Install {_WHEELS[name]} beside torch, or with the CUDA toolkit.",
    )


def cpu_identity() -> str:
    """Return a hash of this CPU's model and features: what ``-march=native`` depends on."""
    text = Path("/proc/cpuinfo").read_text(errors="replace")
    lines = sorted(
        {line for line in text.splitlines() if line.startswith(("model name", "flags", "Features", "CPU part"))}
    )
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _numbers(path: Path) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", path.name))


def _ask(command: list[str | Path]) -> str:
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=False, env={**os.environ, "LC_ALL": "C"}
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentFault(
            f"{command[0]} does not answer: {error}", next_step="Mend or remove this compiler."
        ) from error
    return answer.stdout + answer.stderr


@cache
def _identify(path: Path) -> HostCompiler | None:
    """Ask a compiler what it is; null if it is none."""
    text = _ask([path, "--version"])
    first = (text.strip().splitlines() or [""])[0]
    version = re.search(r"(\d+)\.\d+(\.\d+)?", first)
    if version is None or not re.search(r"clang|gcc|g\+\+|Free Software", text, re.IGNORECASE):
        return None
    static = Path(_ask([path, "-print-file-name=libstdc++.a"]).strip())
    return HostCompiler(
        path, "clang++" if "clang" in text.lower() else "g++", first, int(version[1]), static.is_absolute()
    )


@cache
def _identify_nvcc(path: Path, ccbin: str) -> Nvcc:
    build = re.search(r"V(\d+)\.(\d+)\.(\d+)", _ask([path, "--version"]))
    top = re.search(r"TOP=(.+)", _ask([path, "--dryrun", "-c", "none.cu", "-o", "none.o"]))
    if build is None or top is None:
        raise EnvironmentFault(
            "nvcc does not say its version.", where=str(path), next_step="Install the CUDA toolkit anew."
        )
    root = Path(top[1].strip()).resolve()
    real = root / "bin/nvcc"
    architectures = frozenset(re.findall(r"sm_\d+\b", _ask([path, "--list-gpu-code"])))
    version = (int(build[1]), int(build[2]))
    host = _host_for_nvcc(ccbin, root, ".".join(build.groups()))
    return Nvcc(real if real.is_file() else path, version, ".".join(build.groups()), root, architectures, host)


def _host_for_nvcc(ccbin: str, root: Path, build: str) -> HostCompiler:
    """Pick a host compiler that this nvcc accepts: the chosen one, else the newest g++ that is not too new."""
    newest = _newest_gcc(root)
    named = shutil.which(ccbin) if ccbin else None
    usual = _identify(Path(named)) if named else find_host_compiler()
    if usual is None:
        raise EnvironmentFault(f"{ccbin} is not a C++ compiler.", where="NVCC_CCBIN", next_step="Name a g++.")
    if usual.kind != "g++" or usual.major <= newest or named:
        return usual
    for major in range(min(newest, _NEWEST_GCC), _OLDEST_GCC - 1, -1):
        found = shutil.which(f"g++-{major}")
        if found and (compiler := _identify(Path(found))):
            return compiler
    raise EnvironmentFault(
        f"g++ {usual.major} is too new for nvcc {build}, which takes g++ {newest} at most.",
        where=str(usual.path),
        next_step=f"Install g++-{newest} (or older), or set NVCC_CCBIN to one.",
    )


def _newest_gcc(root: Path) -> int:
    """Read the newest g++ that the toolkit accepts from its own header; a large number if it does not say."""
    for header in root.glob("**/crt/host_config.h"):
        limit = re.search(r"#if\s+__GNUC__\s*>\s*(\d+)", header.read_text(errors="replace"))
        if limit:
            return int(limit[1])
    return 1000

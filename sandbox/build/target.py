"""What kernel files are compiled for: a CPU or a GPU, with the commands, flags and folders that takes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from sandbox.build import calls
from sandbox.build.phases import Phases, take_apart
from sandbox.build.sources import Source
from sandbox.build.toolchain import (
    HostCompiler,
    Library,
    Nvcc,
    cpu_identity,
    find_host_compiler,
    find_library,
    find_nvcc,
)
from sandbox.errors import EnvironmentFault
from sandbox.machine.compatibility import driver_cuda, refuse_old_driver

_LINK = ("-Wl,--no-undefined", "-Wl,--exclude-libs,ALL", "-Wl,-Bsymbolic")
_CPU_COMPILE = ("-O3", "-march=native", "-fopenmp", "-std=c++17", "-fPIC")
_GPU_COMPILE = ("-O3", "-std=c++17", "-Xptxas=-v", "-Xcompiler=-fPIC", "-lineinfo", "--expt-relaxed-constexpr")
_QUIET = {
    "g++": ("-fdiagnostics-color=never", "-fno-diagnostics-show-caret", "-fmax-errors=30"),
    "clang++": ("-fno-color-diagnostics", "-fno-caret-diagnostics", "-ferror-limit=30"),
}


@dataclass(frozen=True)
class ExtraFlags:
    """Flags beside the usual ones, for looking at kernels in a way that is no verdict; like all flags, part of the keys."""

    compile: tuple[str, ...] = ()
    link: tuple[str, ...] = ()


@dataclass(frozen=True)
class Target:
    """How to compile for one device.

    Attributes:
        suffix: Of the files it compiles.
        compiler: The program that compiles, and its arguments that depend on this machine only.
        linker: The program that links.
        identity: Everything about the machine that decides what comes out.
        description: The compilers, for people.
        flags: Flags that matter to what comes out.
        fast_math: Those added for a file that asks for fast-math.
        link_flags: Flags of the linker that matter to what comes out.
        search: Arguments of the linker that name folders of this machine.
        libraries: CUDA libraries named by the files.
        readable: Folders of the tools.
    """

    suffix: str
    compiler: tuple[str, ...]
    linker: str
    identity: str
    description: str
    flags: tuple[str, ...]
    fast_math: tuple[str, ...]
    link_flags: tuple[str, ...]
    search: tuple[str, ...] = ()
    libraries: tuple[Library, ...] = ()
    readable: tuple[Path, ...] = ()

    def with_flags(self, extra: ExtraFlags) -> Target:
        """Return the same target with more flags, which come last and so win."""
        return replace(self, flags=self.flags + extra.compile, link_flags=self.link_flags + extra.link)

    def compile_flags(self, source: Source) -> tuple[str, ...]:
        """Return the flags of one file, free of this machine's folders."""
        return self.flags + (self.fast_math if source.fast_math else ())

    def compile_command(self, source: Source, output: str) -> list[str]:
        """Return the command that compiles one file."""
        return [*self._compiler_for(source), "-c", source.file, "-o", output]

    def preprocess_command(self, source: Source, output: str) -> list[str]:
        """Return the command that writes what the preprocessor leaves of one file."""
        return [*self._compiler_for(source), "-E", source.file, "-o", output]

    def phases(self, source: Source, output: str) -> Phases | None:
        """Return the commands that nvcc runs for one file; null for another compiler, and where they are not known."""
        return take_apart(self._compiler_for(source), source.file, output) if source.file.endswith(".cu") else None

    def link_command(self, objects: Iterable[str], output: str) -> list[str]:
        """Return the command that links all objects; a library is found again at run time where it was found now."""
        files = [str(library.file) for library in self.libraries]
        paths = [f"-Wl,-rpath,{library.file.parent}" for library in self.libraries]
        return [self.linker, "-shared", *objects, "-o", output, *files, *paths, *self.search, *self.link_flags]

    def _compiler_for(self, source: Source) -> list[str]:
        if source.file == calls.FILE:
            return [self.linker, *calls.FLAGS]
        named = [library for library in self.libraries if library.name in source.libraries]
        return [*self.compiler, *self.compile_flags(source), *(f"-I{library.include}" for library in named)]


def cpu_target() -> Target:
    """Return the target for this machine's CPU."""
    host = find_host_compiler()
    return Target(
        suffix=".cpp",
        compiler=(str(host.path), *_QUIET[host.kind]),
        linker=str(host.path),
        identity=f"{host} {cpu_identity()}",
        description=host.version,
        flags=_CPU_COMPILE,
        fast_math=("-ffast-math",),
        link_flags=("-fopenmp", *_LINK),
        search=_static_library(host),
        readable=_folders(host),
    )


def cuda_target(arch: str, libraries: Iterable[str], site_packages: tuple[Path, ...]) -> Target:
    """Return the target for a GPU architecture (``sm_90``) and the CUDA libraries that the files name."""
    nvcc = find_nvcc(site_packages)
    refuse_old_driver(nvcc.cuda, driver_cuda(), str(nvcc.path))
    found = tuple(find_library(name, site_packages, nvcc.root) for name in sorted(set(libraries)))
    return Target(
        suffix=".cu",
        compiler=(str(nvcc.path), "-ccbin", str(nvcc.host.path)),
        linker=str(nvcc.host.path),
        identity=f"{nvcc} {nvcc.host.version} {[str(library.file) for library in found]}",
        description=f"nvcc {nvcc.build} with {nvcc.host.version}",
        flags=("-gencode", nvcc.gencode(arch), *_GPU_COMPILE),
        fast_math=("--use_fast_math",),
        link_flags=("-lcudart_static", "-ldl", "-lrt", "-lpthread", *_LINK),
        search=(f"-L{_static_runtime(nvcc)}", *_static_library(nvcc.host)),
        libraries=found,
        readable=(
            nvcc.root,
            *_folders(nvcc.host),
            *(path for each in found for path in (each.include, each.file.parent)),
        ),
    )


def _static_runtime(nvcc: Nvcc) -> Path:
    """Find the static CUDA runtime: linked in, the library works beside whatever runtime torch has loaded."""
    for folder in (nvcc.root / "lib64", nvcc.root / "lib", *sorted(nvcc.root.glob("targets/*/lib"))):
        if (folder / "libcudart_static.a").is_file():
            return folder
    raise EnvironmentFault(
        "The CUDA toolkit has no libcudart_static.a.",
        where=str(nvcc.root),
        next_step="Install the toolkit's development files (cuda-cudart-dev), or point CUDA_HOME at a full toolkit.",
    )


def _static_library(host: HostCompiler) -> tuple[str, ...]:
    """Link the C++ library statically where it can be: an interpreter may bring an older one than this compiler's."""
    return ("-static-libstdc++", "-static-libgcc") if host.has_static_library else ()


def _folders(host: HostCompiler) -> tuple[Path, ...]:
    """Return what a compiler consists of where it lies outside the system's folders, but nothing else that lies beside it."""
    real = host.path.resolve()
    prefix = real.parent.parent
    parts = [prefix / name for name in ("bin", "lib", "lib64", "libexec", "include")]
    return (host.path, real, *parts, *prefix.glob("*-linux-gnu*"))

"""The description that goes with a built library: what can be called, what runs on the device, how it was made."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sandbox.build.resources import DeviceKernel
from sandbox.build.signature import Launcher


@dataclass(frozen=True)
class Recipe:
    """How to make the library again: compile each file with its flags (``-c FILE -o OBJECT``), then link the objects.

    Attributes:
        compiler: What compiled it, with its version.
        compile: Flags of each file, by its path relative to the workspace.
        link: Flags of ``c++ -shared OBJECTS -o LIBRARY``; folders of this machine are left out.
    """

    compiler: str
    compile: dict[str, tuple[str, ...]]
    link: tuple[str, ...]


@dataclass(frozen=True)
class Manifest:
    """A built library.

    Attributes:
        library: The shared object.
        key: Hash of all that decides its content: sources, flags, compilers, architecture.
        arch: ``cpu``, or the GPU's ``sm_90``.
        functions: What Python can call, by file and line.
        kernels: The device code's kernels.
        libraries: CUDA libraries that were named with ``// link:``.
        fast_math: Files that asked for fast-math.
    """

    library: Path
    key: str
    arch: str
    functions: tuple[Launcher, ...]
    kernels: tuple[DeviceKernel, ...]
    libraries: tuple[str, ...]
    fast_math: tuple[str, ...]
    recipe: Recipe

    def to_json(self) -> dict[str, Any]:
        """Return the manifest as JSON data, as ``warpsmith_harness.kernels.bind`` reads it."""
        return {**asdict(self), "library": str(self.library)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Manifest:
        """Rebuild a manifest from its JSON data."""
        recipe = data["recipe"]
        flags = {file: tuple(each) for file, each in recipe["compile"].items()}
        return cls(
            library=Path(data["library"]),
            key=data["key"],
            arch=data["arch"],
            functions=tuple(map(Launcher.from_json, data["functions"])),
            kernels=tuple(DeviceKernel(**kernel) for kernel in data["kernels"]),
            libraries=tuple(data["libraries"]),
            fast_math=tuple(data["fast_math"]),
            recipe=Recipe(recipe["compiler"], flags, tuple(recipe["link"])),
        )

"""Both halves of CUDA files side by side: what nvcc does for the device, and for the host as far as its compiler.

Errors of either show up as soon as both are through, before the host compiler reads all headers once more. Its object
depends on launchers, kernels' names and headers, and not on what kernels do: it is kept, and gets the new device image.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from sandbox.build import ninja
from sandbox.build.inspection import OwnText, own_texts
from sandbox.build.ninja import Ninja, read_text
from sandbox.build.phases import MODULE_ID, PARTS, PREPROCESSED, Phases, without_places
from sandbox.build.sources import Sources
from sandbox.build.target import Target

_RULES = """\
rule half
  command = { $run; } > $out.log 2>&1; status=$$?; c++filt < $out.log > $out.txt; exit $$status
"""
_HOST_OBJECT = "host.o"
_SECTION = ".nv_fatbin"


@dataclass(frozen=True)
class Half:
    """What the two halves of one file left.

    Attributes:
        phases: nvcc's commands.
        parts: What the host compiler reads, by ``PARTS``; one that is missing was not made.
        log: The beginning of what was printed.
        readable_log: The same with demangled names.
        overflowed: Whether more was printed than may be.
        own: What the preprocessor left of the workspace's files for the host; null where that cannot be had.
        host: The object of the host's half, if there is one already.
    """

    phases: Phases
    parts: Mapping[str, bytes]
    log: str
    readable_log: str
    overflowed: bool
    own: tuple[OwnText, ...] | None = None
    host: bytes | None = None

    @property
    def ok(self) -> bool:
        """Whether both halves came through."""
        return len(self.parts) == len(PARTS)

    def host_inputs(self) -> tuple[str, bytes, bytes]:
        """Return all that the host's object follows from, but for the compilers and the device image."""
        return self.phases.host, self.parts["text"], self.parts["stub"]

    def with_host(self, host: bytes | None) -> Half:
        """Return the same with the host's object."""
        return replace(self, host=host)

    def files(self) -> dict[str, bytes]:
        """Return the files that the rest of the compilation reads."""
        files = {f"{self.phases.folder}/{PARTS[name]}": data for name, data in self.parts.items()}
        return files if self.host is None else {**files, f"{self.phases.folder}/{_HOST_OBJECT}": self.host}


def compile_halves(
    sources: Sources, waiting: Mapping[str, Phases], target: Target, folder: Path, run: Ninja
) -> tuple[dict[str, Half], int]:
    """Compile both halves of some files.

    Args:
        sources: What the compilers may see.
        waiting: nvcc's commands by file.
        target: What to compile for.
        folder: An empty folder to work in.
        run: How.

    Returns:
        The halves by file, and ninja's exit status.

    Raises:
        InterruptedError: It was cancelled; everything started is gone.
    """
    files = dict(sources.headers)
    files.update({source.file: source.data for source in sources.sources})
    files.update({f"{phases.folder}/{MODULE_ID}": phases.module_id.encode() for phases in waiting.values()})
    edges = [_edge(phases, half, file) for file, phases in waiting.items() for half in ("front", "device")]
    ninja.write_files(folder, {**files, "build.ninja": "".join([_RULES, *edges]).encode()})
    status = run.run(folder, [], target)
    return {file: _collect(phases, file, folder / phases.folder) for file, phases in waiting.items()}, status


def host_edge(half: Half, output: str, usual: str) -> str:
    """Return the command that makes the object from both halves; where that fails, nvcc does all of it as usual.

    It leaves ``OUTPUT.joined`` where it did not fail.
    """
    folder = half.phases.folder
    join = half.phases.host
    if half.host is not None:
        image = f"{_SECTION}={folder}/{PARTS['image']}"
        join = f"objcopy --update-section {image} {folder}/{_HOST_OBJECT} {output}"
    return f"( {join} ) > {folder}/host.log 2>&1 && touch {output}.joined || {usual}"


def _edge(phases: Phases, half: str, file: str) -> str:
    command = phases.front if half == "front" else phases.device
    done = f"{phases.folder}/{half}"
    return ninja.edge("half", file, done, f"{command} && touch {done}")


def _collect(phases: Phases, file: str, folder: Path) -> Half:
    logs = [folder / f"{half}.log" for half in ("front", "device")]
    readable = [folder / f"{half}.txt" for half in ("front", "device")]
    parts: dict[str, bytes] = {}
    if all((folder / half).is_file() for half in ("front", "device")):
        parts = {name: data for name, file in PARTS.items() if (data := ninja.read_whole(folder / file)) is not None}
        parts |= {name: without_places(parts[name]) for name in ("text", "stub") if name in parts}
    texts = ["".join(map(read_text, files)) for files in (logs, readable)]
    preprocessed = ninja.read_whole(folder / PREPROCESSED)
    own = None if preprocessed is None else own_texts(preprocessed, file)
    return Half(phases, parts, texts[0], texts[1] or texts[0], any(map(ninja.is_cut, logs)), own)

"""Run the compilers on a set of files in isolation, through ninja, and collect what they leave.

Compiling is as untrusted as running: an ``#include`` or an ``.incbin`` reads files, a template eats memory.
"""

from __future__ import annotations

import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from sandbox.build.sources import Source, Sources
from sandbox.build.target import Target
from sandbox.build.toolchain import find_ninja
from sandbox.errors import EnvironmentFault, InternalError
from sandbox.isolation import Cell, CellProcess, Isolation, Limits

LIBRARY = "kernels.so"
LARGEST_FILE = 64 * 1024**2
"""Bytes that a compiler may write into one file, its messages included."""

_MOST_MEMORY = 8 * 1024**3
_READ = 1024**2
_SAID_WHEN_FULL = re.compile("No space left on device|Disk quota exceeded|Bus error")  # ld maps the file that it writes
_RULES = """\
rule compile
  command = $run > $out.log 2>&1; status=$$?; c++filt < $out.log > $out.txt; exit $$status
rule link
  command = $run > $out.log 2>&1
rule symbols
  command = nm -D --defined-only $in > $out && { ldd -r ./$in 2>&1 | c++filt > $out.loads; }
"""
_NOT_THERE = re.compile(r"\s*(\S+) => not found|(?P<file>\S+): version `(?P<version>\S+)' not found")


@dataclass(frozen=True)
class Compiled:
    """What compiling one file left.

    Attributes:
        data: The object, or null if it failed.
        log: The beginning of what the compiler printed.
        readable_log: The same with demangled names.
        overflowed: Whether it printed more than it may.
    """

    data: bytes | None
    log: str
    readable_log: str
    overflowed: bool = False


@dataclass(frozen=True)
class Outcome:
    """What a run left.

    Attributes:
        compiled: By source file; files whose object was given are not in it.
        library: The linked library, or null.
        link_log: What the linker printed.
        symbols: Names that the library exports.
        loads: What the dynamic loader says of the library, without running any of it.
        timed_out: Whether the time limit ended it.
    """

    compiled: dict[str, Compiled]
    library: bytes | None
    link_log: str
    symbols: frozenset[str]
    loads: str
    timed_out: bool


def compile_and_link(
    sources: Sources,
    target: Target,
    ready: Mapping[str, bytes],
    folder: Path,
    isolation: Isolation,
    *,
    jobs: int,
    seconds: float,
    cancel: threading.Event | None = None,
) -> Outcome:
    """Compile what is not ready, link everything, list what the library exports.

    Args:
        sources: What the compilers may see.
        target: What to compile for, and with what.
        ready: Objects that need no compiling, by source file.
        folder: An empty folder to work in.
        isolation: What the compilers run in.
        jobs: How many compilers may run at once.
        seconds: Time limit for all of it.
        cancel: Set to stop.

    Raises:
        EnvironmentFault: A tool of this machine cannot be run, or the disk is full.
        InterruptedError: ``cancel`` was set; everything started is gone.
    """
    _lay_out(sources, target, ready, folder)
    waiting = [source for source in sources.sources if source.file not in ready]
    with (folder / "ninja.log").open("wb") as log:
        process = isolation.popen(
            [str(find_ninja()), "-k", "0", "-j", str(jobs), "symbols.txt"],
            _cell(target, folder, seconds),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    _wait(process, isolation, cancel)
    outcome = _collect(waiting, folder, timed_out=process.returncode == -signal.SIGALRM)
    _blame_the_machine(outcome, folder, process.returncode)
    return outcome


def object_path(file: str) -> str:
    """Return where the object of a source goes, relative to the work folder."""
    return f"obj/{file}.o"


def _lay_out(sources: Sources, target: Target, ready: Mapping[str, bytes], folder: Path) -> None:
    """Write sources, headers, the objects there are, and the ninja file for the rest."""
    files = dict(sources.headers)
    files.update({source.file: source.data for source in sources.sources})
    files.update({object_path(file): data for file, data in ready.items()})
    edges = [_RULES]
    for source in sources.sources:
        output = object_path(source.file)
        (folder / output).parent.mkdir(parents=True, exist_ok=True)
        if source.file not in ready:
            edges.append(_edge("compile", source.file, output, target.compile_command(source, output)))
    objects = [object_path(source.file) for source in sources.sources]
    edges.append(_edge("link", " ".join(objects), LIBRARY, target.link_command(objects, LIBRARY)))
    edges.append(f"build symbols.txt: symbols {LIBRARY}\n")
    files["build.ninja"] = "".join(edges).encode()
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def _edge(rule: str, inputs: str, output: str, command: Sequence[str]) -> str:
    return f"build {output}: {rule} {inputs}\n  run = {shlex.join(command).replace('$', '$$')}\n"


def _cell(target: Target, folder: Path, seconds: float) -> Cell:
    tools = (Path(target.compiler[0]).parent, Path(target.linker).parent)
    path = ":".join([*dict.fromkeys(map(str, tools)), "/usr/local/bin", "/usr/bin", "/bin"])
    memory = min(_MOST_MEMORY, psutil.virtual_memory().total * 3 // 4)
    return Cell(
        readable=(find_ninja(), *target.readable),
        writable=(folder,),
        cwd=folder,
        env={"PATH": path, "LC_ALL": "C"},
        limits=Limits(seconds, memory, processes=256, file_bytes=LARGEST_FILE, open_files=1024),
    )


def _wait(process: CellProcess, isolation: Isolation, cancel: threading.Event | None) -> None:
    """Wait for a process without polling it, looking at ``cancel`` ten times a second."""
    descriptor = os.pidfd_open(process.pid)
    try:
        while not select.select([descriptor], [], [], 0.1)[0]:
            if cancel is not None and cancel.is_set():
                raise InterruptedError("compiling was interrupted")
        process.wait()
    finally:
        os.close(descriptor)
        isolation.kill(process)


def _collect(waiting: Sequence[Source], folder: Path, *, timed_out: bool) -> Outcome:
    compiled = {}
    for source in waiting:
        output = folder / object_path(source.file)
        logs = [_read(output.with_name(f"{output.name}.{kind}")) for kind in ("log", "txt")]
        data = output.read_bytes() if output.is_file() else None
        log = output.with_name(f"{output.name}.log")
        overflowed = log.is_file() and log.stat().st_size >= LARGEST_FILE - _READ // 2
        compiled[source.file] = Compiled(data, logs[0], logs[1] or logs[0], overflowed)
    library = folder / LIBRARY
    listing = _read(folder / "symbols.txt").splitlines()
    return Outcome(
        compiled,
        library.read_bytes() if library.is_file() else None,
        _read(folder / f"{LIBRARY}.log"),
        frozenset(line.split()[-1] for line in listing if " T " in line),
        _read(folder / "symbols.txt.loads"),
        timed_out,
    )


def _read(path: Path) -> str:
    """Return the beginning of a text, however long it is; an empty text if it is not there."""
    try:
        with path.open("rb") as file:
            return file.read(_READ).decode(errors="replace")
    except FileNotFoundError:
        return ""


def _is_unexplained(outcome: Outcome) -> bool:
    """Whether something failed without a message: on a full disk there is no room for one."""
    failed = [each.log for each in outcome.compiled.values() if each.data is None] or [outcome.link_log]
    told = [any(line.strip() and "ld returned" not in line for line in log.splitlines()) for log in failed]
    return outcome.library is None and not outcome.timed_out and not all(told)


def _is_almost_full(folder: Path) -> bool:
    return shutil.disk_usage(folder).free < LARGEST_FILE


def _blame_the_machine(outcome: Outcome, folder: Path, status: int) -> None:
    """Raise what is this machine's fault and not the candidate's."""
    logs = [outcome.link_log, *(each.log for each in outcome.compiled.values())]
    unlocated = [line for log in logs for line in log.splitlines() if not line.startswith("kernels/")]
    if (_is_unexplained(outcome) or any(_SAID_WHEN_FULL.search(line) for line in unlocated)) and _is_almost_full(
        folder
    ):
        raise EnvironmentFault("The disk is full.", where=str(folder), next_step="Free some space and try again.")
    failed = [line for line in unlocated if "cannot execute" in line or line.endswith(": not found")]
    if failed:
        raise EnvironmentFault(
            f"A part of the compiler cannot be run: {failed[0].strip()}", next_step="Install the compiler anew."
        )
    _blame_the_libraries(outcome.loads, folder)
    silent = not any(logs) and not outcome.timed_out and outcome.compiled and outcome.library is None
    if silent or (outcome.library is not None and not outcome.symbols and status not in (0, -signal.SIGALRM)):
        raise InternalError(
            f"ninja ended with status {status}: {_read(folder / 'ninja.log').strip()[-500:]}", where=str(folder)
        )


def _blame_the_libraries(loads: str, folder: Path) -> None:
    """Raise where a library that this one was linked with is not found again when it is loaded, or is another version."""
    missing = next((found for line in loads.splitlines() if (found := _NOT_THERE.match(line))), None)
    if missing is None:
        return
    what = f"{missing['file']} has no version {missing['version']}" if missing["file"] else f"{missing[1]} is not found"
    raise EnvironmentFault(
        f"The kernels compile and link, but cannot be loaded: {what}.",
        where=str(folder),
        next_step="Install the library anew where its headers are (cuBLAS and cuDNN: the wheels beside torch, or the toolkit).",
    )

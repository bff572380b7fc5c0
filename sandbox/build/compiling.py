"""Compile a set of files in isolation and link them, and collect what that leaves."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sandbox.build import calls, inspection, ninja
from sandbox.build.halves import Half, host_edge
from sandbox.build.inspection import ObjectSymbols, OwnText, own_texts
from sandbox.build.ninja import LARGEST_FILE, Ninja, read_text
from sandbox.build.sources import Source, Sources
from sandbox.build.target import Target
from sandbox.errors import EnvironmentFault, InternalError
from sandbox.processes import ProcessLost

LIBRARY = "kernels.so"
_KILLED = re.compile(
    r"Killed signal|died due to signal 9|terminated with signal 9|^(?:\S+: (?:line )?\d+: +\d+ )?Killed\b", re.MULTILINE
)
OUT_OF_MEMORY = re.compile(
    rf"out of memory|virtual memory exhausted|Cannot allocate memory|bad_alloc|{_KILLED.pattern}", re.MULTILINE
)
"""What compilers print when they get no more memory, or are killed."""
_SAID_WHEN_FULL = re.compile("No space left on device|Disk quota exceeded|Bus error")  # ld maps the file that it writes
_RULES = """\
rule compile
  command = { $run; } > $out.log 2>&1; status=$$?; c++filt < $out.log > $out.txt; exit $$status
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
        is_host: Whether the object can be kept as the host's half of others, see ``halves``.
        own: What the preprocessor left of the workspace's files; null where that cannot be had.
    """

    data: bytes | None
    log: str
    readable_log: str
    overflowed: bool = False
    is_host: bool = False
    own: tuple[OwnText, ...] | None = ()


@dataclass(frozen=True)
class Outcome:
    """What a run left.

    Attributes:
        compiled: By source file; files whose object was given are not in it.
        library: The linked library, or null.
        link_log: What the linker printed.
        symbols: Names that the library exports.
        loads: What the dynamic loader says of the library, without running any of it.
        objects: What the objects of all sources need and hold.
        timed_out: Whether the time limit ended it.
        killed: Whether a compiler was killed: for its memory, or by anybody.
    """

    compiled: dict[str, Compiled]
    library: bytes | None = None
    link_log: str = ""
    symbols: frozenset[str] = frozenset()
    loads: str = ""
    objects: tuple[ObjectSymbols, ...] = ()
    timed_out: bool = False
    killed: bool = False


def compile_and_link(
    sources: Sources,
    target: Target,
    ready: Mapping[str, bytes],
    halves: Mapping[str, Half],
    folder: Path,
    run: Ninja,
) -> Outcome:
    """Compile what is not ready, link everything, list what the library exports.

    Args:
        sources: What the compilers may see.
        target: What to compile for, and with what.
        ready: Objects that need no compiling, by source file.
        halves: Files whose device code is compiled already.
        folder: An empty folder to work in.
        run: How.

    Raises:
        EnvironmentFault: A tool of this machine cannot be run, or the disk is full.
        InterruptedError: It was cancelled; everything started is gone.
    """
    ninja.write_files(folder, _files(sources, target, ready, halves))
    waiting = [source for source in sources.sources if source.file not in ready]
    for source in waiting:
        (folder / object_path(source.file)).parent.mkdir(parents=True, exist_ok=True)
    status = run.run(folder, [], target)
    outcome = _collect(sources, waiting, halves, folder, timed_out=ninja.ran_out_of_time(status))
    outcome = replace(outcome, killed=outcome.library is None and was_killed(outcome, status))
    if outcome.library is not None and ninja.was_killed(status):
        raise ProcessLost("Who looks into compiled kernels was killed.")
    blame_the_machine(outcome, folder, status)
    if outcome.library is not None:
        _blame_who_killed(outcome, halves, folder)
        _blame_the_binutils(sources, outcome, folder)
    return outcome


def was_killed(outcome: Outcome, status: int) -> bool:
    """Tell whether a compiler was killed, or whoever ran it."""
    logs = (outcome.link_log, *(each.log for each in outcome.compiled.values()))
    return ninja.was_killed(status) or any(OUT_OF_MEMORY.search(log) for log in logs)


def object_path(file: str) -> str:
    """Return where the object of a source goes, relative to the work folder."""
    return f"obj/{file}.o"


def _files(
    sources: Sources, target: Target, ready: Mapping[str, bytes], halves: Mapping[str, Half]
) -> dict[str, bytes]:
    """Return sources, headers, the objects there are, and the ninja file for the rest."""
    files = dict(sources.headers)
    files.update({source.file: source.data for source in sources.sources})
    files.update({object_path(file): data for file, data in ready.items()})
    edges = [f"calls = {inspection.SYSTEM_CALLS}\n", _RULES, inspection.RULES]
    for source in sources.sources:
        output = object_path(source.file)
        if source.file != calls.FILE:
            edges.append(f"build {output}.symbols: inspect {output}\n")
        if source.file in ready:
            continue
        usual = shlex.join(target.compile_command(source, output))
        if source.file in halves:
            files.update(halves[source.file].files())
            usual = host_edge(halves[source.file], output, usual)
        elif source.file != calls.FILE:
            preprocess = shlex.join(target.preprocess_command(source, f"{output}.ii.part"))
            edges.append(ninja.edge("preprocess", source.file, f"{output}.ii", preprocess))
        edges.append(ninja.edge("compile", source.file, output, usual))
    objects = [object_path(source.file) for source in sources.sources]
    edges.append(ninja.edge("link", " ".join(objects), LIBRARY, shlex.join(target.link_command(objects, LIBRARY))))
    edges.append(f"build symbols.txt: symbols {LIBRARY}\n")
    return {**files, "build.ninja": "".join(edges).encode()}


def _written(sources: Sources) -> list[Source]:
    return [source for source in sources.sources if source.file != calls.FILE]


def _collect(
    sources: Sources, waiting: Sequence[Source], halves: Mapping[str, Half], folder: Path, *, timed_out: bool
) -> Outcome:
    compiled = {source.file: _collect_one(source, halves.get(source.file), folder) for source in waiting}
    listing = read_text(folder / "symbols.txt").splitlines()
    return Outcome(
        compiled,
        ninja.read_whole(folder / LIBRARY),
        read_text(folder / f"{LIBRARY}.log"),
        frozenset(line.split()[-1] for line in listing if " T " in line),
        read_text(folder / "symbols.txt.loads"),
        tuple(filter(None, (_inspected(source.file, folder) for source in _written(sources)))),
        timed_out,
    )


def _inspected(file: str, folder: Path) -> ObjectSymbols | None:
    """Read what was seen in a file's object; null where that is more than can be written, or was never looked for."""
    listing = folder / f"{object_path(file)}.symbols"
    found = listing.with_name(f"{listing.name}.calls")
    texts = [(ninja.read_whole(each) or b"").decode(errors="replace") for each in (listing, found)]
    return inspection.read_object(file, *texts) if inspection.was_inspected(*texts) else None


def _collect_one(source: Source, half: Half | None, folder: Path) -> Compiled:
    output = folder / object_path(source.file)
    log, readable = (output.with_name(f"{output.name}.{kind}") for kind in ("log", "txt"))
    texts = read_text(log), read_text(readable) or read_text(log)
    joined = half is not None and output.with_name(f"{output.name}.joined").is_file()
    if half is not None and joined:
        texts = half.log, half.readable_log
    is_host = joined and half is not None and half.host is None
    return Compiled(ninja.read_whole(output), *texts, ninja.is_cut(log), is_host, _own(source, half, folder))


def _own(source: Source, half: Half | None, folder: Path) -> tuple[OwnText, ...] | None:
    """Return what the preprocessor left of the workspace's files, or null if that was too much."""
    if source.file == calls.FILE:
        return ()
    if half is not None:
        return half.own
    preprocessed = folder / f"{object_path(source.file)}.ii"
    text = None if ninja.is_cut(preprocessed) else ninja.read_whole(preprocessed)
    return None if text is None else own_texts(text, source.file)


def _is_unexplained(outcome: Outcome) -> bool:
    """Whether something failed without a message: on a full disk there is no room for one."""
    failed = [each.log for each in outcome.compiled.values() if each.data is None] or [outcome.link_log]
    told = [any(line.strip() and "ld returned" not in line for line in log.splitlines()) for log in failed]
    return outcome.library is None and not outcome.timed_out and not all(told)


def _is_almost_full(folder: Path) -> bool:
    return shutil.disk_usage(folder).free < LARGEST_FILE


def blame_the_machine(outcome: Outcome, folder: Path, status: int) -> None:
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
    unlisted = outcome.library is not None and not outcome.symbols and status and not ninja.ran_out_of_time(status)
    if silent and not outcome.killed:
        raise ProcessLost(f"Compilers ended without a word: {ninja.last_words(folder)}")
    if unlisted and was_killed(outcome, status):  # what it had written so far looks like a library
        raise ProcessLost(f"The linker was killed: {ninja.last_words(folder)}")
    if unlisted:
        told = outcome.link_log.strip() or ninja.last_words(folder)
        raise InternalError(f"ninja ended with status {status}: {told}", where=str(folder))


def _blame_who_killed(outcome: Outcome, halves: Mapping[str, Half], folder: Path) -> None:
    """Raise where a preprocessor was killed: of a text that nobody has read, nobody can say that it is too long."""
    for file in (file for file, each in outcome.compiled.items() if each.own is None):
        text = folder / f"{object_path(file)}.ii"
        log = halves[file].log if file in halves else read_text(text.with_name(f"{text.name}.log"))
        silent = file not in halves and not log.strip() and not ninja.is_cut(text.with_name(f"{text.name}.part"))
        if silent or _KILLED.search(log):
            raise ProcessLost(f"The preprocessor was killed: {log.strip() or ninja.last_words(folder)}")


def _blame_the_binutils(sources: Sources, outcome: Outcome, folder: Path) -> None:
    """Raise where an object was not looked into, unless there was more to tell than a file may hold."""
    told = {each.file for each in outcome.objects}
    silent = [source.file for source in _written(sources) if source.file not in told]
    if any(not ninja.is_cut(folder / f"{object_path(file)}.symbols") for file in silent):
        raise EnvironmentFault(
            "The kernels compile, but nobody can look into their objects: readelf or objdump does not work.",
            where=ninja.last_words(folder),
            next_step="Install binutils anew.",
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

"""Build the kernel files of a workspace: one library, its manifest and a report; answered from the cache where it can be."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

from sandbox.build import calls
from sandbox.build import diagnostics as reduce
from sandbox.build.advice import from_assembler
from sandbox.build.compiling import (
    LIBRARY,
    Compiled,
    Outcome,
    blame_the_machine,
    compile_and_link,
    object_path,
    was_killed,
)
from sandbox.build.failures import clashes, errors_of, known_errors, unbound
from sandbox.build.halves import Half, compile_halves
from sandbox.build.inspection import Inspection, OwnText, inspected
from sandbox.build.manifest import Manifest, Recipe
from sandbox.build.ninja import Ninja, ran_out_of_time
from sandbox.build.phases import Phases
from sandbox.build.resources import DeviceKernel, read_resources
from sandbox.build.signature import Parsed, parse_launchers
from sandbox.build.slots import compile_slots, one_build
from sandbox.build.sources import Source, Sources, read_sources
from sandbox.build.store import Store
from sandbox.build.target import ExtraFlags, Target, cpu_target, cuda_target
from sandbox.errors import EnvironmentFault
from sandbox.isolation import Isolation
from sandbox.machine.cache import kernel_parts, tidy
from sandbox.machine.scratch import scratch_folder
from sandbox.progress import Progress, Stage, silent
from sandbox.verdict import BuildReport, Diagnostic, KernelResources

FORMAT = "3"
"""Part of every key: changes when what is stored changes."""

TIME_LIMIT = 120.0
"""Seconds that compiling may take unless the caller allows more."""

_OBJECT = "object.o"


@dataclass(frozen=True)
class Built:
    """Outcome of a build; ``manifest`` is null when it failed, ``inspection`` is for the guard.

    ``killed`` says that it failed because a compiler was killed: for its memory, or by anybody.
    """

    report: BuildReport
    manifest: Manifest | None
    inspection: Inspection = field(default_factory=Inspection)
    killed: bool = False


@dataclass(frozen=True)
class _Result:
    kernels: tuple[KernelResources, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    manifest: Manifest | None = None
    inspection: Inspection = field(default_factory=Inspection)
    killed: bool = False


@dataclass(frozen=True)
class _Job:
    """What is to be built, how, and the keys of each object and of the whole."""

    sources: Sources
    parsed: Mapping[str, Parsed]
    target: Target
    arch: str

    @cached_property
    def everything(self) -> Sources:
        """The workspace's sources and the one that goes with them."""
        launchers = [launcher for parsed in self.parsed.values() for launcher in parsed.launchers]
        return replace(self.sources, sources=(*self.sources.sources, Source(calls.FILE, calls.source(launchers))))

    def object_key(self, source: Source) -> str:
        seen = [(name, _sha256(data)) for name, data in sorted(self.sources.headers.items())]
        command = self.target.compile_command(source, "")
        return _hash(FORMAT, self.target.identity, command, source.file, _sha256(source.data), seen)

    def host_key(self, half: Half) -> str:
        command, text, stub = half.host_inputs()
        return _hash(FORMAT, self.target.identity, command, _sha256(text), _sha256(stub))

    def key(self) -> str:
        objects = [self.object_key(source) for source in self.everything.sources]
        return _hash(FORMAT, self.arch, self.target.link_command([], ""), objects)


@dataclass(frozen=True)
class _Run:
    """Where and how a build happens."""

    cache: Path
    isolation: Isolation
    progress: Progress
    seconds: float
    cancel: threading.Event | None

    @cached_property
    def libraries(self) -> Store:
        return Store(self.cache / "libraries")

    @cached_property
    def objects(self) -> Store:
        return Store(self.cache / "objects")

    @cached_property
    def hosts(self) -> Store:
        return Store(self.cache / "hosts")

    def work_folder(self) -> AbstractContextManager[Path]:
        """A folder that is gone afterwards; what a killed build left of its own goes with the next."""
        work = self.cache / "work"
        work.mkdir(parents=True, exist_ok=True)
        return scratch_folder("", work)

    def ninja(self, jobs: int, seconds: float) -> Ninja:
        return Ninja(self.isolation, jobs, seconds, self.cancel)


def build_kernels(
    kernels: Path,
    *,
    arch: str,
    cache: Path,
    isolation: Isolation,
    progress: Progress = silent,
    site_packages: Sequence[Path] = (),
    seconds: float = TIME_LIMIT,
    cancel: threading.Event | None = None,
    flags: ExtraFlags | None = None,
) -> Built:
    """Compile every kernel file below a folder into one library.

    Args:
        kernels: The workspace's ``kernels`` folder.
        arch: ``cpu``, or the present GPU's architecture such as ``sm_90``.
        cache: Where objects and libraries are kept by the hash of what they were made from.
        isolation: What the compilers run in.
        progress: Told what is being compiled.
        site_packages: Folders of the developer's interpreter where a CUDA build of torch keeps cuBLAS and cuDNN.
        seconds: Time limit.
        cancel: Set from another thread to stop.
        flags: Flags beside the usual ones.

    Raises:
        EnvironmentFault: This machine lacks a compiler or a library, or its disk is full.
        InterruptedError: ``cancel`` was set.
    """
    began = time.monotonic()
    sources = read_sources(kernels, suffix=".cpp" if arch == "cpu" else ".cu")
    parsed = {source.file: parse_launchers(source.data, source.file) for source in sources.sources}
    wrong = [*sources.diagnostics, *(each for file in parsed.values() for each in file.diagnostics), *clashes(parsed)]
    if wrong:
        return _built(began, _Result(diagnostics=tuple(wrong)))
    names = [name for source in sources.sources for name in source.libraries]
    target = cpu_target() if arch == "cpu" else cuda_target(arch, names, tuple(site_packages))
    target = target.with_flags(flags or ExtraFlags())
    try:
        result = _build(_Job(sources, parsed, target, arch), _Run(cache, isolation, progress, seconds, cancel))
    except InterruptedError:
        raise
    except OSError as error:
        raise EnvironmentFault(
            f"Compiled kernels cannot be kept: {error.strerror or error}.",
            where=str(cache),
            next_step="Free some disk space, or choose another cache folder.",
        ) from error
    return _built(began, result)


def _built(began: float, result: _Result) -> Built:
    ok = result.manifest is not None
    report = BuildReport(ok, time.monotonic() - began, result.kernels, reduce.limit(result.diagnostics))
    return Built(report, result.manifest, result.inspection, result.killed)


def _build(job: _Job, run: _Run) -> _Result:
    """Answer from the cache, or else build; while somebody else builds this state, wait for it."""
    key = job.key()
    if (known := _recall(run.libraries, key)) is not None:
        run.progress(Stage("build", "this state is compiled already"))
        return known
    wait = partial(run.progress, Stage("build", "waiting for another build of this state"))
    with one_build(run.cache / "locks", key, waiting=wait, cancel=run.cancel):
        return _recall(run.libraries, key) or _build_now(job, key, run)


def _build_now(job: _Job, key: str, run: _Run) -> _Result:
    keys = {source.file: job.object_key(source) for source in job.everything.sources}
    compiled = {file: found for file, each in keys.items() if (found := _recall_object(run.objects, each))}
    missing = [source for source in job.everything.sources if source.file not in compiled]
    apart = {each.file: phases for each in missing if (phases := job.target.phases(each, object_path(each.file)))}
    ready = {file: each.data for file, each in compiled.items() if each.data is not None}
    wait = partial(run.progress, Stage("build", "waiting for other compilers to end"))
    with compile_slots(run.cache / "slots", len(missing) + len(apart), waiting=wait, cancel=run.cancel) as slots:
        names = ", ".join(source.file for source in missing if source.file != calls.FILE)
        run.progress(Stage("build", f"compiling {names}" if names else "linking"))
        outcome = _compile(job, ready, apart, slots, run)
    for file, each in outcome.compiled.items():
        if each.data is not None:
            texts = {
                "log": each.log,
                "readable": each.readable_log,
                "own": json.dumps(list(map(asdict, each.own or ()))),
            }
            encoded = {name: text.encode() for name, text in texts.items()}
            run.objects.put(keys[file], {_OBJECT: each.data, **encoded})
    compiled.update(outcome.compiled)
    errors = errors_of(outcome, run.seconds) or unbound(outcome.symbols, job.parsed, job.sources.sources)
    if errors or outcome.library is None:
        return _Result(diagnostics=tuple(errors), killed=outcome.killed)
    result = _remember(run.libraries, key, job, compiled, outcome)
    tidy(run.cache, kernel_parts(run.cache))
    return result


def _compile(job: _Job, ready: Mapping[str, bytes], apart: Mapping[str, Phases], slots: int, run: _Run) -> Outcome:
    """Compile what is not ready: files that can be taken apart by halves first, whose errors then come early."""
    began = time.monotonic()
    halves: dict[str, Half] = {}
    if apart:
        with run.work_folder() as folder:
            halves, status = compile_halves(job.everything, apart, job.target, folder, run.ninja(slots, run.seconds))
            failed = _failed(halves, timed_out=ran_out_of_time(status))
            if failed.timed_out or any(known_errors(*each) for each in failed.compiled.items()):
                failed = replace(failed, killed=was_killed(failed, status))
                blame_the_machine(failed, folder, status)
                return failed
    keys = {file: job.host_key(half) for file, half in halves.items() if half.ok}
    known = {file: halves[file].with_host(_recall_host(run.hosts, each)) for file, each in keys.items()}
    left = max(1.0, run.seconds - (time.monotonic() - began))
    with run.work_folder() as folder:
        outcome = compile_and_link(job.everything, job.target, ready, known, folder, run.ninja(slots, left))
    for file, each in outcome.compiled.items():
        if each.is_host and each.data is not None:
            run.hosts.put(keys[file], {_OBJECT: each.data})
    return outcome


def _failed(halves: Mapping[str, Half], *, timed_out: bool) -> Outcome:
    failed = {file: half for file, half in halves.items() if not half.ok}
    return Outcome(
        {file: Compiled(None, half.log, half.readable_log, half.overflowed) for file, half in failed.items()},
        timed_out=timed_out,
    )


# --- the cache -----------------------------------------------------------------------------------------------------


def _remember(store: Store, key: str, job: _Job, compiled: Mapping[str, Compiled], outcome: Outcome) -> _Result:
    """Store the outcome's library with its manifest, its report and what was seen in it."""
    files = [source.file for source in job.sources.sources]
    used = [pair for file in files for pair in read_resources(compiled[file].log, compiled[file].readable_log)]
    warnings = [each for source in job.sources.sources for each in _warnings(source, compiled[source.file])]
    manifest = _manifest(store.folder / key / LIBRARY, key, job, [kernel for kernel, _ in used], outcome.symbols)
    inspection = inspected((text for file in files for text in compiled[file].own or ()), outcome.objects)
    result = _Result(tuple(resources for _, resources in used), tuple(warnings), manifest, inspection)
    report = {"kernels": list(map(asdict, result.kernels)), "diagnostics": list(map(asdict, warnings))}
    texts = {"manifest.json": manifest.to_json(), "report.json": report, "inspection.json": inspection.to_json()}
    encoded = {name: json.dumps(data).encode() for name, data in texts.items()}
    store.put(key, {LIBRARY: outcome.library or b"", **encoded})
    return result


def _warnings(source: Source, compiled: Compiled) -> list[Diagnostic]:
    log = compiled.readable_log
    slow = from_assembler(log, source.file, source.data.decode(errors="replace"))
    return [*slow, *reduce.from_compiler(log, source.file)]


def _manifest(library: Path, key: str, job: _Job, kernels: Sequence[DeviceKernel], symbols: frozenset[str]) -> Manifest:
    sources = job.sources.sources
    flags = {source.file: job.target.compile_flags(source) for source in sources}
    return Manifest(
        library=library,
        key=key,
        arch=job.arch,
        functions=tuple(each for file in job.parsed.values() for each in file.launchers if each.name in symbols),
        kernels=tuple(kernels),
        libraries=tuple(sorted({name for source in sources for name in source.libraries})),
        fast_math=tuple(source.file for source in sources if source.fast_math),
        recipe=Recipe(job.target.description, flags, job.target.link_flags),
    )


def _recall(store: Store, key: str) -> _Result | None:
    """Return what was built under a key, or null; an entry that cannot be read is removed."""
    entry = store.find(key)
    if entry is None:
        return None
    try:
        report = json.loads((entry / "report.json").read_text())
        manifest = Manifest.from_json(json.loads((entry / "manifest.json").read_text()) | {"library": entry / LIBRARY})
        kernels = tuple(KernelResources(**each) for each in report["kernels"])
        inspection = Inspection.from_json(json.loads((entry / "inspection.json").read_text()))
        return _Result(kernels, tuple(Diagnostic(**each) for each in report["diagnostics"]), manifest, inspection)
    except (OSError, ValueError, KeyError, TypeError):
        store.discard(key)
        return None


def _recall_object(store: Store, key: str) -> Compiled | None:
    entry = store.find(key)
    if entry is None:
        return None
    try:
        log, readable = ((entry / name).read_text() for name in ("log", "readable"))
        own = tuple(OwnText(**each) for each in json.loads((entry / "own").read_text()))
        return Compiled((entry / _OBJECT).read_bytes(), log, readable, own=own)
    except (OSError, ValueError, TypeError):
        store.discard(key)
        return None


def _recall_host(store: Store, key: str) -> bytes | None:
    entry = store.find(key)
    with suppress(OSError):
        return (entry / _OBJECT).read_bytes() if entry else None
    return None


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _hash(*parts: object) -> str:
    return _sha256(json.dumps(parts).encode())

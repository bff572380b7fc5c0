"""Loading one candidate in workers, and what is seen of it from outside while it is there."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sandbox.crew import Crew
from sandbox.guard.extension import check_extensions
from sandbox.guard.left_running import left_running
from sandbox.guard.mappings import executable, foreign_code
from sandbox.guard.names import POLICY_RULES
from sandbox.guard.triton_libraries import TritonFolders, make_folders, tritons_own
from sandbox.house import written
from sandbox.processes import ProcessLost
from sandbox.snapshot import Snapshot
from sandbox.task import TaskSpec
from sandbox.verdict import Finding
from sandbox.verifying import death_findings, describe_death, describe_failure
from sandbox.workers import CandidateFailed, Worker, WorkerDied, stop_all

_COMPILE_SECONDS = 20.0


class LoadFailed(Exception):
    """The candidate could not be loaded in a worker; says why."""


class Loader:
    """Starts workers that have the candidate.

    Args:
        crew: The judge's processes.
        candidate: What is loaded.
        found: Told what the guard finds while the candidate is loaded.
        forgive: Told how a worker ended; raises where that may have been an accident.

    Attributes:
        manifest: Of the candidate's kernels as workers see them, once they are built.
    """

    def __init__(
        self,
        crew: Crew,
        candidate: Snapshot,
        *,
        found: Callable[[Sequence[Finding]], None],
        forgive: Callable[[WorkerDied], None],
    ) -> None:
        self._crew = crew
        self._candidate = candidate
        self._found = found
        self._forgive = forgive
        self._extensions = _extensions_folder(candidate, crew.spec)
        self._jitted: list[str] = []
        self._triton: TritonFolders | None = None
        self._mapped: frozenset[str] = frozenset()
        self._ready: list[Worker] = []
        self.manifest: dict[str, Any] | None = None

    def expect_kernels(self, manifest: Mapping[str, Any] | None) -> None:
        """Let the candidate have its compiled kernels, or none."""
        shown = {} if manifest is None else {"library": str(self._crew.show(Path(manifest["library"])))}
        self.manifest = None if manifest is None else {**manifest, **shown}

    def expect_triton(self, jitted: list[str]) -> None:
        """Let the candidate compile its Triton kernels, which have these names, where it runs on a GPU."""
        self._jitted = jitted
        if jitted and self._crew.on_gpu:
            work = self._candidate.folder.parent
            self._triton = make_folders(work / "compiler", written(work) / "triton", self._crew.variables.programs)

    def begin_workers(self, count: int) -> None:
        """Let so many workers of the placements to come be on their way; none of them has the candidate yet.

        Not those of a candidate that keeps an extension of its own: its folder belongs to one worker's user at a time.
        """
        if self._extensions is None and count > len(self._ready):
            self._ready += self._crew.begin_workers(count - len(self._ready), *self._given(None))

    def make_ready(self, count: int) -> None:
        """Have so many workers ready before anything is timed."""
        self.begin_workers(count)
        self.await_begun()

    def await_begun(self) -> None:
        """Wait until those that are on their way are ready."""
        begun, self._ready = self._ready, []
        self._crew.await_workers(begun)
        self._ready = begun

    def let_go(self) -> None:
        """End the workers that were made ready and not used."""
        stop_all(self._ready)
        self._ready = []

    def start_worker(self, variables: Mapping[str, str] | None = None) -> Worker:
        """Load the candidate in a worker, one that is ready or a new one; raises ``LoadFailed``."""
        worker = self._next_worker(variables)
        before = worker.family()
        self._mapped = executable(before)
        request = {
            "op": "load",
            "folder": str(self._candidate.landed or self._candidate.folder),
            "landed": self._crew.spec.kernels_module if self._candidate.landed else "",
            "kernels": kernels_name(self._crew.spec),
            "manifest": self.manifest,
            "jitted": self._jitted,
            "threads": self._crew.threads,
        }
        seconds = self._crew.limits.inline_load_seconds if self._extensions else self._crew.limits.load_seconds
        try:
            worker.ask(request, seconds)
        except WorkerDied as died:
            self._forgive(died)
            self._found(death_findings(died.death))
            raise LoadFailed(
                f"the candidate {describe_death(died.death, self._candidate.files)} while loading"
            ) from died
        except CandidateFailed as failure:
            worker.stop()
            raise LoadFailed(describe_failure(failure)) from failure
        except BaseException:
            worker.stop()
            raise
        self._found(left_running(worker.family(), before))
        return worker

    def _next_worker(self, variables: Mapping[str, str] | None) -> Worker:
        if not self._ready or variables:
            return self._crew.start_worker(*self._given(variables))
        worker = self._ready.pop()
        self._crew.await_workers([worker])
        return worker

    def look_at_extensions(self) -> None:
        """Tell what the guard finds in what a candidate compiled that brings its own extension."""
        if self._extensions is not None:
            lifted = POLICY_RULES if self._crew.spec.policy == "library-ok" else frozenset()
            found = check_extensions(self._extensions, self._crew.isolation)
            self._found([each for each in found if each.rule not in lifted])

    def foreign_code(self, worker: Worker) -> list[Finding]:
        """Look from outside at what has been mapped to execute since the candidate was loaded."""
        expected = [*self._crew.readable(), *self._library(), *([self._extensions] if self._extensions else [])]
        own = self._crew.spec.policy == "own-kernels" and not self._crew.on_gpu
        after = executable(worker.family())
        if self._triton is not None:
            cell = self._crew.cell([], [], {}, seconds=_COMPILE_SECONDS)
            new = after - self._mapped
            expected += tritons_own(new, self._triton, self._crew.site_packages, self._crew.isolation, cell)
        return foreign_code(self._mapped, after, expected, severity="reject" if own else "label")

    def _library(self) -> list[Path]:
        return [] if self.manifest is None else [Path(self.manifest["library"])]

    def _given(self, variables: Mapping[str, str] | None) -> tuple[list[Path], Path | None, dict[str, str], list[Path]]:
        """Return what a worker is given of the candidate, see ``Crew.start_worker``."""
        library = self._library()
        if not all(file.exists() for file in library):
            raise ProcessLost("Its compiled kernels were removed meanwhile.")
        readable, given = [self._candidate.landed or self._candidate.folder, *library], dict(variables or {})
        if self._triton is None:
            return readable, self._extensions, given, []
        readable.append(self._triton.compiler)
        return readable, self._extensions, {**given, **self._triton.variables}, [self._triton.cache]


def _extensions_folder(candidate: Snapshot, spec: TaskSpec) -> Path | None:
    """Return a new folder for the extension of a candidate that compiles its own, or None for any other."""
    if b"cpp_extension" not in candidate.files[spec.candidate_file]:
        return None
    folder = written(candidate.folder.parent) / "extensions"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def kernels_name(spec: TaskSpec) -> str:
    """Return the qualified name under which the candidate's file imports its kernels."""
    package = spec.module_name.rpartition(".")[0] if spec.kind == "module" else ""
    return f"{package}.{spec.kernels_module}" if package else spec.kernels_module

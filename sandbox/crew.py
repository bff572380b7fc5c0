"""The judge's processes for one task: its bench and its zygote, and the cells its workers live in."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sandbox.bench_client import Bench
from sandbox.build import Built, ExtraFlags, build_kernels
from sandbox.build.toolchain import find_ninja
from sandbox.house import House, house_of
from sandbox.isolation import Cell, Isolation, Limits, interpreter_paths
from sandbox.judge_limits import JudgeLimits
from sandbox.machine.cache import baseline_parts, baselines_folder, keep_compiled_headers, kernels_folder, tidy
from sandbox.machine.devices import gpu_of, refuse_unshareable
from sandbox.machine.pool import Pool, pool_folders
from sandbox.processes import close_all
from sandbox.progress import Progress
from sandbox.task import TaskSpec
from sandbox.timing.gpu_watch import DeviceWatch, LeasedWatch, watch_device
from sandbox.variables import Variables
from sandbox.wire import HARNESS, Message, device_name, sweep_control_groups
from sandbox.workers import CandidateFailed, TransportFailed, Worker, WorkerDied, await_all
from sandbox.zygote import Zygote

_PATIENCE = 10.0
_COPIES = 12
_CONTEXT_BYTES = 768 * 1024 * 1024
"""What a process's context takes of a GPU's memory, at most."""
_USABLE = 0.9
_SLOWEST_CROSSING = 500e6
"""Bytes a second between the device and fresh memory of the host, at least."""


class Crew:
    """Starts, replaces and ends the processes.

    Args:
        spec: The task.
        isolation: How workers are isolated.
        cache: Where compiled baselines and kernels are kept.
        work: The judge's folder; what a candidate brings lies below it.
        temporary: An empty folder for whatever bench and zygote leave lying about: a compiler that is killed leaves its
            intermediate files.
        limits: Time and memory limits.
        check: Called while waiting; raises to give up.

    Attributes:
        spec, isolation, limits: As above.
        accepted: What accepting the task found out (``warpsmith_harness.original.accept``).
        inputs: The task's input tensors: ``name``, ``shape`` and whether they are ``floating``.
        environment: Versions and device, as the developer's interpreter tells them.
        threads: Threads of a CPU operation, on both sides.
        modes: The baselines there may be, eager first.
        broken_modes: Baselines that took the bench with them, and how.
        site_packages: Where the interpreter keeps packages.
        fresh: Why workers are started afresh instead of forked, or empty.
        transport: How tensors cross to workers: ``host`` or ``cuda``.
        check: Called while waiting; raises to give up.
        kernels_cache: Where compiled kernels are.
        variables: What each kind of process finds in its environment.
        pool: The way to the device, which other judges use too.
        clocks: The device's clocks while something was last timed on it; empty where nothing tells.
    """

    def __init__(
        self,
        spec: TaskSpec,
        isolation: Isolation,
        cache: Path,
        work: Path,
        temporary: Path,
        limits: JudgeLimits,
        check: Callable[[], None],
    ) -> None:
        self.spec = spec
        self.isolation = isolation
        self._work = work
        self._temporary = temporary
        self.limits = limits
        self.check = check
        self._bench: Bench | None = None
        self._zygote: Zygote | None = None
        self._house: House | None = None
        self.accepted: dict[str, Any] = {}
        self.inputs: list[dict[str, Any]] = []
        self.environment: dict[str, Any] = {}
        self.threads = 1
        self._reference_seconds = 0.0
        self.modes: list[str] = []
        self.broken_modes: dict[str, str] = {}
        self.site_packages: tuple[Path, ...] = ()
        self.fresh = ""
        self.transport = "host" if spec.device == "cpu" else "cuda"
        self.kernels_cache = kernels_folder(cache)
        self._compiled = baselines_folder(cache)
        self.variables = Variables(spec, self._compiled, temporary)
        gpu = gpu_of(spec.device)
        refuse_unshareable(gpu)
        self.pool = Pool(device_name(gpu.uuid if gpu else "", spec.device), spec.id, check)
        self.clocks: dict[str, float] = {}

    def open(self) -> None:
        """Start what does not run, and wait until it is ready."""
        keep_compiled_headers(self._compiled, self._temporary)
        tidy(self._compiled, baseline_parts(self._compiled))
        opening = self._bench is None or not self._bench.alive
        if opening:
            self._bench = Bench(
                self.spec, self.variables.bench(), self.check, pool_folders(), self.limits.device_memory
            )
        if self._zygote is None or not self._zygote.alive:
            self._start_zygote()
        assert self._bench is not None  # it runs, or was started
        assert self._zygote is not None
        if opening:
            self._take(self._bench.open(self.limits.open_seconds))
        self.fresh = self._zygote.await_ready(self.limits.open_seconds)["fresh"]

    def _start_zygote(self) -> None:
        if self._zygote is not None:
            self._zygote.stop()
        self._house = house_of(self.isolation, self.spec, self._work, self.readable(), self.limits)
        environment = self.variables.zygote()
        self._zygote = Zygote(self.spec, environment, self.variables.worker(), self.check, self._house)

    def show(self, file: Path) -> Path:
        """Return where workers see a file of the candidate's that lies outside of the judge's folder."""
        return file if self._house is None else self._house.show(file)

    @property
    def on_gpu(self) -> bool:
        """Whether the task runs on a GPU."""
        return self.spec.device != "cpu"

    @property
    def interpreter(self) -> str:
        """The developer's interpreter."""
        return str(self.spec.python)

    @property
    def crowded(self) -> bool:
        """Whether the task's tensors leave no room for the copies that judging usually makes."""
        return bool(self.accepted.get("crowded"))

    def room_for(self, workers: int) -> bool:
        """Whether so many workers may wait beside the one that has the task's copies."""
        if self.crowded or not self.on_gpu:
            return not self.crowded
        gpu = gpu_of(self.spec.device)
        memory = self.limits.device_memory or (gpu.memory if gpu else 0)
        return contexts_fit(workers, self.accepted["bytes_moved"], memory)

    def patience(self, calls: int) -> float:
        """Return how many seconds the candidate may take for so many calls: much more than the reference would."""
        crossing: float = self.accepted["bytes_moved"] / _SLOWEST_CROSSING
        return crossing + self.limits.call_seconds + _PATIENCE * calls * self._reference_seconds

    def watch(self) -> DeviceWatch:
        """Return a watch on the device, for as long as something is timed."""
        return watch_device(self.spec.device, self.environment.get("gpu_uuid", ""))

    @contextmanager
    def alone(self, part: str, doing: str, progress: Progress) -> Iterator[LeasedWatch]:
        """Have the device alone, and look at it; ``part`` and ``doing`` say what for, as in ``timing``."""
        with self.pool.exclusive(part, doing, progress) as lease:
            watch = LeasedWatch(self.watch(), lease)
            try:
                yield watch
            finally:
                self.clocks = watch.clocks()
                watch.close()

    def rest(self) -> None:
        """Let the bench prepare what the next verdict needs."""
        self.bench.rest(self.limits.compile_seconds)

    @property
    def bench(self) -> Bench:
        """The running bench."""
        if self._bench is None or not self._bench.alive:
            self.open()
        assert self._bench is not None  # open() made it
        return self._bench

    def start_worker(
        self,
        candidate: Sequence[Path],
        extensions: Path | None,
        variables: Mapping[str, str],
        writable: Sequence[Path] = (),
    ) -> Worker:
        """Start an isolated worker that sees the task, the interpreter and the candidate, and nobody else's work.

        Args:
            candidate: Its files and its library.
            extensions: Where a candidate that compiles its own extension may keep it, for the workers that follow.
            variables: Environment variables beside the usual ones.
            writable: Other folders that it may write to.
        """
        workers = self._start_workers(1, candidate, extensions, variables, writable)
        self.await_workers(workers)
        return workers[0]

    def begin_workers(
        self,
        count: int,
        candidate: Sequence[Path],
        extensions: Path | None,
        variables: Mapping[str, str],
        writable: Sequence[Path] = (),
    ) -> list[Worker]:
        """Start such workers beside each other, and wait for none: each gets its device ready, and then stands idle."""
        workers = self._start_workers(count, candidate, extensions, variables, writable)
        for worker in workers:
            worker.use_device(self.limits.load_seconds)
        return workers

    def await_workers(self, workers: Sequence[Worker]) -> None:
        """Wait until workers that were begun are ready; where one does not get there, all are ended."""
        await_all(workers, self.limits.open_seconds)

    def _start_workers(
        self,
        count: int,
        candidate: Sequence[Path],
        extensions: Path | None,
        variables: Mapping[str, str],
        writable: Sequence[Path],
    ) -> list[Worker]:
        if self._zygote is None or not self._zygote.alive:
            self.open()
        assert self._zygote is not None  # open() made it
        if extensions is None:
            cell = self.cell(candidate, writable, variables)
        else:
            kept = self.variables.extension(extensions, self.environment["sm"])
            cell = self.cell([*candidate, find_ninja().parent], [extensions, *writable], {**variables, **kept})
        cells = [self.isolation.worker_cell(cell) for _ in range(count)]
        return self._zygote.start_workers(cells, self.limits.open_seconds)

    def build(
        self, kernels: Path, progress: Progress, cancel: threading.Event | None, flags: ExtraFlags | None = None
    ) -> Built:
        """Build a folder of kernels for the present device; see ``build_kernels``."""
        return build_kernels(
            kernels,
            arch=self.environment["sm"] or "cpu",
            cache=self.kernels_cache,
            isolation=self.isolation,
            progress=progress,
            site_packages=self.site_packages,
            cancel=cancel,
            flags=flags,
        )

    def can_share(self) -> bool:
        """Tell whether a worker without a candidate can open the memory that the bench shares with workers."""
        worker = self.start_worker([], None, {})
        seconds = self.limits.load_seconds
        try:
            worker.ask({"op": "probe"}, seconds)
            request = {"op": "place", "worker": worker.number, "transport": self.transport}
            placed, descriptors = self.bench.ask(request, self.limits.bench_seconds)
            try:
                worker.ask({"op": "probe", "regions": placed["regions"]}, seconds, descriptors)
            finally:
                close_all(descriptors)
        except (TransportFailed, CandidateFailed, WorkerDied):
            return False
        finally:
            worker.stop()
        return True

    def cell(
        self,
        readable: Sequence[Path],
        writable: Sequence[Path],
        variables: Mapping[str, str],
        *,
        seconds: float | None = None,
        sparse: bool = False,
    ) -> Cell:
        """Return the cell of whatever runs the candidate: it sees the task, the interpreter, and what is named here.

        Args:
            readable: The candidate's files, its library, and tools.
            writable: What it may write to.
            variables: Environment variables beside the usual ones.
            seconds: Time limit of all of it.
            sparse: Whether it maps far more memory than it uses.
        """
        return Cell(
            readable=(*self.readable(), *readable),
            writable=tuple(writable),
            cwd=Path("/tmp"),  # noqa: S108  # its own, and gone with it
            env={**self.variables.worker(), **variables},
            limits=Limits(
                seconds=seconds,
                memory_bytes=self.limits.memory_bytes + _COPIES * self.accepted["bytes_moved"],
                processes=self.limits.tasks,
                file_bytes=self.limits.file_bytes,
                disk_bytes=2 * self.limits.file_bytes,
                sparse=sparse,
            ),
            gpu=self.spec.device != "cpu",
        )

    def close(self) -> None:
        """End everything."""
        for process in (self._zygote, self._bench):
            if process is not None:
                process.stop()
        self._zygote = self._bench = None
        sweep_control_groups()

    def _take(self, opened: Message) -> None:
        self.accepted = opened["accepted"]
        self.inputs = opened["inputs"]
        self.environment = opened["environment"]
        self.threads = self.environment["threads"]
        self._reference_seconds = float(opened["call_seconds"])
        self.modes = [mode for mode in opened["modes"] if mode not in self.broken_modes]
        self.site_packages = tuple(Path(folder) for folder in opened["site_packages"])
        self.pool.device = device_name(self.environment.get("gpu_uuid", ""), self.spec.device)
        if self.on_gpu:
            watch = self.watch()
            self.environment["driver"] = watch.driver
            watch.close()

    def readable(self) -> tuple[Path, ...]:
        """Return what every worker may read, and nobody in its cell write: interpreter, project, harness."""
        project = self.spec.root if "." in self.spec.module_name else self.spec.path.parent
        captured = (Path(self.spec.capture),) if self.spec.capture else ()
        return (*interpreter_paths(self.spec.python), project, HARNESS, *captured)


def contexts_fit(workers: int, bytes_moved: int, memory: int) -> bool:
    """Whether a GPU holds the contexts of so many workers and of the bench beside the copies that judging makes.

    Args:
        workers: How many there are at once.
        bytes_moved: Of the task (``warpsmith_harness.original.accept``).
        memory: Bytes of the device, or 0 where that is not known: then they do not.
    """
    return (workers + 1) * _CONTEXT_BYTES + _COPIES * bytes_moved < _USABLE * memory

"""Runs a candidate once under Nsight Compute, in a cell, and keeps the report.

It replays each kernel many times to read all counters, so its times are its own; what it tells is why a kernel takes as long
as it does. It never runs inside another profiler.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sandbox.build import Manifest, has_sources
from sandbox.errors import UsageError
from sandbox.looking.nsight_csv import Launch, read_raw
from sandbox.looking.nsight_digest import digest
from sandbox.looking.nsight_view import KernelView, view_kernels
from sandbox.looking.solo import Look, SoloRun, read_left, run_in_cell, run_solo, solo_folder
from sandbox.looking.study import Study

SUFFIX = ".ncu-rep"
SECTIONS = (
    "SpeedOfLight",
    "ComputeWorkloadAnalysis",
    "MemoryWorkloadAnalysis",
    "MemoryWorkloadAnalysis_Tables",
    "SchedulerStats",
    "WarpStateStats",
    "LaunchStats",
    "Occupancy",
)
METRICS = (
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio",
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
)
_MOST_LAUNCHES = 24
_WARM_CALLS = 2
_SECONDS = 240.0
_READ_SECONDS = 60.0
_LARGEST_REPORT = 512 * 1024**2
_LARGEST_TABLE = 32 * 1024**2
_LARGEST_LOG = 1024**2
_REPORT, _LOG = "kernels", "ncu.log"
_PARAMETERS = Path("/proc/driver/nvidia/params")

OPEN_COUNTERS = (
    "Open them to all users: put `options nvidia NVreg_RestrictProfilingToAdminUsers=0` into a file in /etc/modprobe.d, rebuild "
    "the initramfs and reboot (on WSL2: the NVIDIA Control Panel of Windows, Developer, Manage GPU Performance Counters). A "
    "container's --cap-add SYS_ADMIN is not enough: the candidate runs without privileges"
)
_FAULTS = {
    "ERR_NVGPUCTRPERM": f"This user may not read the GPU's performance counters (ERR_NVGPUCTRPERM). {OPEN_COUNTERS}.",
    "driver resource was unavailable": (
        "Something else holds the GPU's performance counters: DCGM, or another profiler. Pause DCGM with `dcgmi profile "
        "--pause` (and --resume afterwards), or end the other profiler."
    ),
    "driver is not compatible": (
        "This ncu does not fit the GPU's driver. Install a Nsight Compute as old or as new as the driver, and put it on PATH."
    ),
    "nsight-compute-lock": (
        "Another user's ncu left its lock in the temporary folder. Remove nsight-compute-lock there, or set TMPDIR."
    ),
    "ailed to connect": (
        "ncu could not reach the process it started: it talks to it over a local port, which this isolation closes. Allow "
        "namespaces (see `warpsmith doctor`)."
    ),
}
"""What ncu says when it cannot profile, and what that means for a person."""


@dataclass(frozen=True)
class KernelProfile:
    """What Nsight Compute saw of one call.

    Attributes:
        kernels: The candidate's kernels, those that took longest first.
        report: The kept ``.ncu-rep``, or None.
        problem: Why there is nothing to see and what to do, or empty.
        at_fault: Whether the problem is the candidate's.
    """

    kernels: tuple[KernelView, ...] = ()
    report: Path | None = None
    problem: str = ""
    at_fault: bool = False

    @property
    def digest(self) -> list[str]:
        """The profile as lines, at most a screen of them; the last but the report's place is the likeliest limiter."""
        if self.problem:
            return [self.problem]
        kept = [f"report (for ncu-ui): {self.report}"] if self.report else []
        return [*digest(self.kernels), *kept]

    def to_json(self) -> dict[str, Any]:
        """Return the profile as JSON data."""
        return {
            "problem": self.problem,
            "report": None if self.report is None else str(self.report),
            "kernels": [asdict(view) for view in self.kernels],
            "digest": self.digest,
        }


def profile_kernels(study: Study, keep: Path, seconds: float = _SECONDS) -> KernelProfile:
    """Profile one call of the candidate, and keep the report at ``keep`` (``.ncu-rep`` is added where it is missing).

    Raises:
        UsageError: The report cannot be written there.
    """
    if not study.crew.on_gpu:
        return KernelProfile(
            problem="Nsight Compute looks at NVIDIA GPUs, and this task runs on the CPU (see --device)."
        )
    ncu = find_ncu()
    if ncu is None:
        return KernelProfile(problem=_MISSING)
    if study.crowded:
        return KernelProfile(problem=study.crowded)
    if closed := counters_closed():
        return KernelProfile(problem=closed)
    manifest: Manifest | None = None
    if has_sources(study.kernels):
        built = study.build()
        if built.manifest is None:
            return KernelProfile(problem="The kernels do not build; Check says why.", at_fault=True)
        manifest = built.manifest
    with study.alone():
        study.tell("ncu", "running the candidate once under Nsight Compute, which replays each kernel")
        return _profiled(study, ncu, manifest, keep, seconds)


_MISSING = (
    "Nsight Compute (ncu) was not found. Install it with the CUDA toolkit (nsight-compute), or put its folder on PATH."
)


def find_ncu() -> Path | None:
    """Find ncu: ``CUDA_HOME``, ``PATH``, then the installed toolkits and Nsight Compute's own folders, the newest first."""
    homes = [Path(os.environ[name]) / "bin" for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    found = shutil.which("ncu", path=":".join(map(str, homes))) or shutil.which("ncu")
    places = (
        Path("/usr/local").glob("cuda*/bin/ncu"),
        Path("/opt/nvidia/nsight-compute").glob("*/ncu"),
        Path("/usr/local").glob("cuda*/nsight-compute*/ncu"),
    )
    installed = [path for place in places for path in sorted(place, key=_version, reverse=True)]
    return Path(found) if found else next(iter(installed), None)


def counters_closed(parameters: Path = _PARAMETERS) -> str:
    """Return that the driver keeps its counters from ordinary users, and what to do; empty where it does not or cannot say."""
    try:
        text = parameters.read_text()
    except OSError:
        return ""
    return _FAULTS["ERR_NVGPUCTRPERM"] if re.search(r"^RmProfilingAdminOnly:\s*1", text, re.MULTILINE) else ""


def explain(log: str, run: SoloRun, seconds: float) -> KernelProfile:
    """Say why there is no report, from what ncu and the candidate said."""
    for sign, told in _FAULTS.items():
        if sign in log:
            return KernelProfile(problem=told)
    if run.problem:
        return KernelProfile(problem=f"The candidate failed under the profiler: {run.problem}", at_fault=True)
    if run.timed_out:
        return KernelProfile(problem=f"Nsight Compute did not finish within {seconds:.0f} s; profile smaller inputs.")
    if "No kernels were profiled" in log:
        return KernelProfile(problem="The candidate launched no kernel in the call that was profiled.", at_fault=True)
    said = [line.partition("== ")[2] for line in log.splitlines() if line.startswith("==ERROR==")]
    last = " ".join((said or log.split("\n"))[-2:]).strip()[-400:]
    return KernelProfile(problem=f"Nsight Compute ended with status {run.status}: {last or 'it said nothing'}")


def _profiled(study: Study, ncu: Path, manifest: Manifest | None, keep: Path, seconds: float) -> KernelProfile:
    with solo_folder(study) as folder:
        look = Look(
            tool=tuple(_command(ncu, folder)),
            seconds=seconds,
            readable=_readable(ncu),
            variables={"LC_ALL": "C"},
            warm=_WARM_CALLS,
            bracket=True,
        )
        run = run_solo(study, manifest, look, folder)
        log = read_left(folder / _LOG, _LARGEST_LOG).decode(errors="replace") + "\n" + run.log
        report = read_left(folder / f"{_REPORT}{SUFFIX}", _LARGEST_REPORT)
    launches = _launches(study, ncu, report) if report else []
    if not launches:
        return explain(log, run, seconds)
    return KernelProfile(tuple(view_kernels(launches)), _keep(report, keep))


def _command(ncu: Path, folder: Path) -> Iterable[str]:
    """Return ncu's command line: the bracketed call only, at the clocks the device has, with cold caches."""
    yield from (str(ncu), "--profile-from-start", "off", "--clock-control", "none", "--cache-control", "all")
    yield from ("--target-processes", "all", "--launch-count", str(_MOST_LAUNCHES))
    for section in SECTIONS:
        yield from ("--section", section)
    yield from ("--metrics", ",".join(METRICS))
    yield from ("--export", str(folder / _REPORT), "--force-overwrite", "--log-file", str(folder / _LOG))


def _launches(study: Study, ncu: Path, content: bytes) -> list[Launch]:
    """Let ncu print a report as a table: in a cell as well, because the report came out of the candidate's."""
    report, table = study.work / f"{_REPORT}{SUFFIX}", study.work / "kernels.csv"
    report.write_bytes(content)
    report.chmod(0o644)
    command = [str(ncu), "--import", str(report), "--page", "raw", "--csv", "--print-units", "base"]
    cell = study.crew.cell([report, *_readable(ncu)], [], {"LC_ALL": "C"}, seconds=_READ_SECONDS)
    with table.open("wb") as file:
        run_in_cell(study, command, cell, output=file.fileno())
    try:
        return read_raw(read_left(table, _LARGEST_TABLE).decode(errors="replace"))
    except ValueError:
        return []


def _keep(report: bytes, place: Path) -> Path:
    path = place if place.suffix == SUFFIX else place.with_name(place.name + SUFFIX)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(report)
    except OSError as error:
        raise UsageError(
            f"The profile's report cannot be written: {error.strerror}.",
            where=str(path),
            next_step="Name another place with --output.",
        ) from error
    return path.absolute()


def _readable(ncu: Path) -> tuple[Path, ...]:
    """Return what ncu consists of, beside the system's own folders: its start script looks for the rest of it."""
    real = ncu.resolve()
    parts = (ncu, real, real.parent, Path("/opt/nvidia/nsight-compute"), *ncu.parent.parent.glob("nsight-compute*"))
    return tuple(path for path in parts if path.exists() and path not in (Path("/usr/bin"), Path("/bin")))


def _version(path: Path) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", str(path)))

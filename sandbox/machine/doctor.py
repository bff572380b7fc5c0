"""What a machine must have for the judge to work on it, asked one thing at a time."""

from __future__ import annotations

import errno
import json
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from sandbox.build.slots import slot_count
from sandbox.build.toolchain import Nvcc, find_host_compiler, find_nvcc
from sandbox.errors import WarpsmithError
from sandbox.machine.cache import usage
from sandbox.machine.compatibility import driver_cuda, driver_problem, toolkit_note, torch_problem
from sandbox.machine.devices import list_gpus, sharing_of
from sandbox.target import find_interpreter
from sandbox.wire import HARNESS

LEAST_DISK = 2 * 1024**3
_ASK = """
import json, sys, sysconfig
sys.path.append(sys.argv[1])
from warpsmith_harness import startup
found = {"problem": startup.environment_problem(), "python": "%d.%d.%d" % sys.version_info[:3]}
if not found["problem"]:
    import torch
    found.update(torch=torch.__version__, cuda=torch.version.cuda or "")
    found["device_problem"] = startup.device_problem(sys.argv[2])
    found["packages"] = sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
print(json.dumps(found))
"""


@dataclass(frozen=True)
class Reading:
    """One thing looked at: whether it is well, what was found, how to mend it, and whether judging needs it at all."""

    name: str
    ok: bool
    value: str
    mend: str = ""
    needed: bool = True


def examine(*, python: str, isolation: str, home: Path, cache: Path) -> list[Reading]:
    """Look at everything; a look that fails is a reading, never an error."""
    machine = _Machine(python)
    looks: list[Callable[[], Reading]] = [
        _system,
        machine.interpreter,
        _host_compiler,
        lambda: _tool("git", "Install git."),
        _gpu,
        _gpu_sharing,
        machine.nvcc,
        machine.cuda,
        *([_nsight, _sanitizer] if list_gpus() else []),
        lambda: _isolation(isolation),
        lambda: machine.guards(isolation),
        _levels,
        _docker,
        lambda: _disk("home", home),
        lambda: _disk("cache", cache),
        lambda: _kept(cache),
    ]
    return [look() for look in looks]


class _Machine:
    """What is asked once and compared in several readings: the developer's interpreter, the toolkit, the GPU."""

    def __init__(self, python: str) -> None:
        self._python = python
        self._gpus = list_gpus()

    def interpreter(self) -> Reading:
        found = self._asked
        if found["problem"]:
            return Reading("interpreter", False, found["problem"], found["mend"])
        cuda = f"CUDA {found['cuda']}" if found["cuda"] else "without CUDA"
        value = f"{found['path']}: Python {found['python']}, torch {found['torch']}, {cuda}"
        problem = found["device_problem"]
        mend = f"On the GPU: {problem}." if problem else ""
        return Reading("interpreter", not problem, value, mend, needed=False)

    def nvcc(self) -> Reading:
        try:
            found = self._toolkit
            for gpu in self._gpus:
                found.gencode(f"sm_{gpu.sm}")
        except WarpsmithError as error:
            return Reading("nvcc", False, error.what, error.next_step, needed=bool(self._gpus))
        return Reading("nvcc", True, str(found))

    def cuda(self) -> Reading:
        """Compare the versions that have to go together."""
        try:
            toolkit = self._toolkit.cuda
        except WarpsmithError:
            toolkit = ""
        torch, driver = str(self._asked.get("cuda", "")), driver_cuda()
        versions = {"torch's": torch, "the toolkit's": toolkit, "the driver's newest": driver}
        value = ", ".join(f"{name} {version or 'none'}" for name, version in versions.items())
        problem = torch_problem(torch, driver) or driver_problem(toolkit, driver)
        note = toolkit_note(toolkit, torch)
        told = f"{value} ({note})" if note and not problem else value
        mend = f"{problem[:1].upper()}{problem[1:]}. Update the driver, or take an older torch or toolkit."
        return Reading("CUDA", not problem, told, mend if problem else "", needed=bool(self._gpus))

    def guards(self, isolation: str) -> Reading:
        """Open a judge on a task of its own, which proves its guards, and count them."""
        if self._asked["problem"]:
            return Reading("guards", False, "not tried: there is no interpreter to run them in", needed=False)
        try:
            return Reading("guards", True, f"{guards_alive(self._asked['path'], isolation, bool(self._gpus))} alive")
        except WarpsmithError as error:
            return Reading("guards", False, error.what, error.next_step)

    @cached_property
    def _toolkit(self) -> Nvcc:
        return find_nvcc([Path(folder) for folder in self._asked.get("packages", [])])

    @cached_property
    def _asked(self) -> dict[str, Any]:
        """Return what the interpreter says of itself, or ``problem`` and ``mend``."""
        try:
            interpreter = find_interpreter(self._python)
        except WarpsmithError as error:
            return {"problem": str(error), "mend": ""}
        command = [str(interpreter), "-c", _ASK, str(HARNESS), "cuda:0" if self._gpus else "cpu"]
        mend = "Install torch there, or name another interpreter with --python."
        try:
            answer = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
            found: dict[str, Any] = json.loads(answer.stdout.strip().splitlines()[-1])
        except (OSError, subprocess.TimeoutExpired) as error:
            return {"problem": f"{interpreter}: {error}", "mend": mend}
        except (IndexError, ValueError):
            last = (answer.stderr.strip().splitlines() or ["no answer"])[-1]
            return {"problem": f"{interpreter}: {last}", "mend": mend}
        problem = f"{interpreter}: {found['problem']}" if found["problem"] else ""
        return {**found, "path": interpreter, "problem": problem, "mend": mend}


def guards_alive(python: Path, isolation: str, on_gpu: bool) -> int:
    """Return how many guards a judge proves alive when it opens; raises ``EnvironmentFault`` where one is dead."""
    from sandbox.guard.alive import sample_task
    from sandbox.isolation import best_isolation
    from sandbox.judge import Judge
    from sandbox.judge_limits import JudgeLimits

    with tempfile.TemporaryDirectory(prefix="warpsmith-doctor-") as name:
        folder, limits = Path(name), JudgeLimits(compile_seconds=0.0)
        spec = sample_task(folder / "task", python, "cuda:0" if on_gpu else "cpu")
        cell = best_isolation(isolation or None)
        with Judge(spec, isolation=cell, cache=folder / "cache", scratch=folder / "scratch", limits=limits) as judge:
            return int(judge.environment["guards"])


def _system() -> Reading:
    good = platform.system() == "Linux"
    return Reading("system", good, f"{platform.system()} {platform.release()}", "Warpsmith runs on Linux and WSL2.")


def _host_compiler() -> Reading:
    try:
        return Reading("C++ compiler", True, f"{find_host_compiler()}, {slot_count()} at once for all builds together")
    except WarpsmithError as error:
        return Reading("C++ compiler", False, error.what, error.next_step)


def _tool(name: str, mend: str) -> Reading:
    found = shutil.which(name)
    return Reading(name, found is not None, _first_line([name, "--version"]) if found else "not found", mend)


def _gpu() -> Reading:
    gpus = list_gpus()
    names = ", ".join(f"{gpu.name} (sm_{gpu.sm}, {gpu.memory / 2**30:.0f} GiB, driver {gpu.driver})" for gpu in gpus)
    return Reading("GPU", bool(gpus), names or "none: judging on the CPU", "", needed=False)


def _gpu_sharing() -> Reading:
    gpus = list_gpus()
    return Reading("GPU sharing", *sharing_of(gpus), needed=bool(gpus))


def _nsight() -> Reading:
    from sandbox.looking.nsight import counters_closed, find_ncu

    found = find_ncu()
    if found is None:
        return Reading(
            "Nsight Compute",
            False,
            "no ncu found",
            "For `check --ncu`, install it with the CUDA toolkit.",
            needed=False,
        )
    closed = counters_closed()
    return Reading("Nsight Compute", not closed, str(found), closed, needed=False)


def _sanitizer() -> Reading:
    from sandbox.looking.sanitizer import find_compute_sanitizer

    found = find_compute_sanitizer()
    mend = "For `check --sanitize` on a GPU, install it with the CUDA toolkit."
    return Reading("sanitizer", found is not None, str(found or "no compute-sanitizer found"), mend, needed=False)


def _isolation(minimum: str) -> Reading:
    from sandbox.isolation import HOW_TO_ALLOW, best_isolation

    try:
        found = best_isolation(minimum or None)
    except WarpsmithError as error:
        return Reading("isolation", False, error.what, error.next_step)
    weak = found.workers == "limits"
    return Reading(
        "isolation", not weak, f"{found.name}: {found.description}", HOW_TO_ALLOW if weak else "", needed=False
    )


def _levels() -> Reading:
    """Say of each isolation whether it can be had here, and why not."""
    from sandbox.isolation import LEVELS, probe

    refusals = {level: probe(level).removeprefix("A process could not be isolated: ").rstrip(".") for level in LEVELS}
    told = [f"{level}: {refusal or 'works'}" for level, refusal in refusals.items()]
    return Reading("levels", True, "; ".join(told), needed=False)


def _docker() -> Reading:
    import docker

    try:
        client = docker.from_env(timeout=5)
        version = str(client.version()["Version"])
    except (docker.errors.DockerException, OSError) as error:
        return Reading("docker", False, f"no engine answers ({type(error).__name__}); not needed", needed=False)
    return Reading("docker", True, f"engine {version}", needed=False)


def _disk(name: str, folder: Path) -> Reading:
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    free = shutil.disk_usage(there).free
    value = f"{folder}: {free / 2**30:.1f} GiB free"
    if problem := _write_problem(there):
        return Reading(name, False, f"{value}, {problem}", f"Mend that, or name another folder with --{name}.")
    return Reading(name, free >= LEAST_DISK, value, "Free some space, or name another folder.")


def _write_problem(folder: Path) -> str:
    """Return why nothing can be written in a folder, or nothing of it loaded; an empty string if all is well."""
    if os.statvfs(folder).f_flag & os.ST_NOEXEC:
        return "mounted noexec: no library can be loaded from it"
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"x")
    except OSError as error:
        reason = "it can only be read" if error.errno in (errno.EROFS, errno.EACCES) else error.strerror
        return f"nothing can be written: {reason}"
    return ""


def _kept(cache: Path) -> Reading:
    shown = [f"{use.part.name} {in_words(use.bytes)} of {in_words(use.part.largest)}" for use in usage(cache)]
    return Reading("cached", True, ", ".join(shown), needed=False)


def in_words(size: int) -> str:
    """Return a size as people read it.

    >>> in_words(3 * 1024**2)
    '3.0 MiB'
    """
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size / 2**10:.0f} KiB"


def _first_line(command: list[str]) -> str:
    answer = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    return (answer.stdout.strip().splitlines() or ["?"])[0]

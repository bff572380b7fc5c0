"""What a machine must have for the judge to work on it, asked one thing at a time."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sandbox.devices import list_gpus
from sandbox.errors import WarpsmithError
from sandbox.target import find_interpreter

OLDEST_TORCH = (2, 4)
OLDEST_PYTHON = (3, 9)
LEAST_DISK = 2 * 1024**3
ASK_TORCH = """
import json, sys, torch
print(json.dumps({"python": sys.version_info[:3], "torch": torch.__version__, "cuda": torch.version.cuda}))
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
    looks: list[Callable[[], Reading]] = [
        _system,
        lambda: _torch(python),
        _host_compiler,
        lambda: _tool("git", "Install git."),
        _gpu,
        _nvcc,
        lambda: _isolation(isolation),
        _docker,
        lambda: _disk("home", home),
        lambda: _disk("cache", cache),
    ]
    return [look() for look in looks]


def _system() -> Reading:
    good = platform.system() == "Linux"
    return Reading("system", good, f"{platform.system()} {platform.release()}", "Warpsmith runs on Linux and WSL2.")


def _torch(python: str) -> Reading:
    name = "interpreter"
    try:
        interpreter = find_interpreter(python)
    except WarpsmithError as error:
        return Reading(name, False, str(error))
    answer = subprocess.run(
        [str(interpreter), "-c", ASK_TORCH], capture_output=True, text=True, timeout=120, check=False
    )
    if answer.returncode:
        last = (answer.stderr.strip().splitlines() or ["no answer"])[-1]
        return Reading(
            name, False, f"{interpreter}: {last}", "Install torch there, or name another interpreter with --python."
        )
    found = json.loads(answer.stdout.strip().splitlines()[-1])
    torch = tuple(int(part) for part in found["torch"].split("+")[0].split(".")[:2])
    version = ".".join(map(str, found["python"]))
    good = torch >= OLDEST_TORCH and tuple(found["python"][:2]) >= OLDEST_PYTHON
    cuda = f"CUDA {found['cuda']}" if found["cuda"] else "without CUDA"
    return Reading(
        name,
        good,
        f"{interpreter}: Python {version}, torch {found['torch']}, {cuda}",
        "Python 3.9 and torch 2.4 are the oldest that work.",
    )


def _host_compiler() -> Reading:
    compiler = next((found for name in ("g++", "clang++", "c++") if (found := shutil.which(name))), None)
    if compiler is None:
        return Reading("C++ compiler", False, "none found", "Install g++ (Debian, Ubuntu: apt install g++).")
    return Reading("C++ compiler", True, _first_line([compiler, "--version"]))


def _tool(name: str, mend: str) -> Reading:
    found = shutil.which(name)
    return Reading(name, found is not None, _first_line([name, "--version"]) if found else "not found", mend)


def _gpu() -> Reading:
    gpus = list_gpus()
    names = ", ".join(f"{gpu.name} (sm_{gpu.sm}, {gpu.memory / 2**30:.0f} GiB, driver {gpu.driver})" for gpu in gpus)
    return Reading("GPU", bool(gpus), names or "none: judging on the CPU", "", needed=False)


def _nvcc() -> Reading:
    from sandbox.build.toolchain import find_nvcc

    try:
        found = find_nvcc()
    except WarpsmithError as error:
        return Reading("nvcc", False, error.what, error.next_step, needed=bool(list_gpus()))
    return Reading("nvcc", True, str(found))


def _isolation(minimum: str) -> Reading:
    from sandbox.isolation import best_isolation

    try:
        found = best_isolation(minimum or None)
    except WarpsmithError as error:
        return Reading("isolation", False, error.what, error.next_step)
    return Reading(
        "isolation",
        found.name != "limits",
        found.name,
        "Namespaces are refused here: candidates can read your files.",
        needed=False,
    )


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
    return Reading(
        name, free >= LEAST_DISK, f"{folder}: {free / 2**30:.1f} GiB free", "Free some space, or name another folder."
    )


def _first_line(command: list[str]) -> str:
    answer = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    return (answer.stdout.strip().splitlines() or ["?"])[0]

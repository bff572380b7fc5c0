"""The scratch project of the demo: a copy of the bundled one, in a repository of its own, that may be changed freely."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from sandbox.errors import EnvironmentFault

SOURCE = Path(__file__).parent / "demo" / "project"
DEMO_TARGET = ("leafnet/blocks.py", "StemPool")
"""The file and class of the bundled project that the demo opens."""


def copy_project(home: Path) -> Path:
    """Copy the bundled project into a new folder below ``home`` and commit it there; return the folder.

    Raises:
        EnvironmentFault: The folder cannot be written, or git is missing or fails; nothing is left there.
    """
    taken = {path.name for path in home.glob("project-*")}
    folder = next(home / f"project-{n}" for n in range(1, len(taken) + 2) if f"project-{n}" not in taken)
    try:
        home.mkdir(parents=True, exist_ok=True)
        shutil.copytree(SOURCE, folder, ignore=shutil.ignore_patterns("__pycache__"))
        _commit(folder)
    except (OSError, subprocess.CalledProcessError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise EnvironmentFault(
            f"The demo's project cannot be copied: {_reason(error)}.",
            where=str(folder),
            next_step="Free some space, install git, or choose another place with --home.",
        ) from error
    return folder


def _commit(folder: Path) -> None:
    """Begin a repository with everything in it, whatever the configuration of whoever runs the demo says."""
    author = ["-c", "user.name=Warpsmith demo", "-c", "user.email=demo@warpsmith.invalid", "-c", "commit.gpgSign=false"]
    commit = [*author, "commit", "--quiet", "--no-verify", "--message", "The project as it was"]
    for arguments in (["init", "--quiet"], ["add", "--all"], commit):
        subprocess.run(["git", *arguments], cwd=folder, env=_environment(), capture_output=True, check=True)


def _environment() -> dict[str, str]:
    """Return the environment without the variables that point git at another repository."""
    return {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}


def _reason(error: OSError | subprocess.CalledProcessError) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        said: bytes = error.stderr
        return (said.decode(errors="replace").strip().splitlines() or [str(error)])[-1]
    if isinstance(error, FileNotFoundError) and error.filename == "git":
        return "git is not installed"
    if isinstance(error, shutil.Error):  # what it says of the first file holds for them all
        return str(error.args[0][0][2])
    return error.strerror or str(error)

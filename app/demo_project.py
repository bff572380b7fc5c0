"""The scratch project of the demo: a copy of the bundled one, in a repository of its own, that may be changed freely."""

from __future__ import annotations

import shutil
from pathlib import Path

import git

SOURCE = Path(__file__).parent / "demo" / "project"
DEMO_TARGET = ("leafnet/blocks.py", "StemPool")
"""The file and class of the bundled project that the demo opens."""


def copy_project(home: Path) -> Path:
    """Copy the bundled project into a new folder below ``home`` and commit it there; return the folder."""
    home.mkdir(parents=True, exist_ok=True)
    taken = {path.name for path in home.glob("project-*")}
    folder = next(home / f"project-{n}" for n in range(1, len(taken) + 2) if f"project-{n}" not in taken)
    shutil.copytree(SOURCE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    repository = git.Repo.init(folder)
    repository.git.add("--all")
    author = ["-c", "user.name=Warpsmith demo", "-c", "user.email=demo@warpsmith.invalid"]
    repository.git.execute(["git", *author, "commit", "--quiet", "--no-verify", "--message", "The project as it was"])
    return folder

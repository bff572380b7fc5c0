"""The harness in the oldest interpreter it supports: it compiles there, and what needs no torch runs there."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from warpsmith_harness import problems

HARNESS = Path(problems.__file__).parents[1]


@pytest.fixture(scope="module")
def oldest() -> str:
    """Return a Python 3.9; the tests are skipped, and say so, where there is none."""
    places = [shutil.which("python3.9"), *map(str, sorted(Path.home().glob(".pyenv/versions/3.9*/bin/python")))]
    # A launcher of a version manager may stand in for an interpreter that it does not run.
    found = next((python for python in places if python and _runs(python)), None)
    if found is None:
        pytest.skip("there is no Python 3.9 on this machine")
    return found


def test_every_file_compiles(oldest, tmp_path) -> None:
    copy = tmp_path / "harness"
    shutil.copytree(HARNESS, copy, ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run([oldest, "-m", "compileall", "-q", str(copy)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(copy.rglob("*.pyc"))


def test_parts_without_torch_run(oldest, tmp_path) -> None:
    """Modules that import only the standard library are imported for real, annotations and defaults evaluated."""
    modules = [
        f"warpsmith_harness.{path.stem}"
        for path in sorted((HARNESS / "warpsmith_harness").glob("*.py"))
        if path.stem != "__init__" and not _needs_torch(path)
    ]
    assert "warpsmith_harness.problems" in modules
    script = f"import sys; sys.dont_write_bytecode = True; sys.path[0] = {str(HARNESS)!r}\n"
    script += "\n".join(f"import {name}" for name in modules)
    done = subprocess.run([oldest, "-c", script], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr


def _runs(python: str) -> bool:
    return subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0


def _needs_torch(path: Path) -> bool:
    """Whether a module imports torch while it is imported, itself or through another of the package."""
    text = path.read_text()
    lines = [line for line in text.splitlines() if line.startswith(("import ", "from "))]
    if any(line.split()[1].split(".")[0] == "torch" for line in lines):
        return True
    imported = {
        word.strip(",") for line in lines if "warpsmith_harness" in line for word in line.replace(".", " ").split()
    }
    siblings = [path.with_name(f"{name}.py") for name in imported]
    return any(_needs_torch(sibling) for sibling in siblings if sibling.exists() and sibling != path)

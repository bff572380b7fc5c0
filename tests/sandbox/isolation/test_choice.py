"""Which isolation is chosen, as root, as an ordinary user and where namespaces are refused."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.errors import EnvironmentFault, UsageError
from sandbox.isolation import Cell, best_isolation, interpreter_paths, probe
from sandbox.isolation.namespaces import Namespaces

ROOT = Path(__file__).parents[3]
ASK = """
from sandbox.errors import EnvironmentFault
from sandbox.isolation import best_isolation, probe
print(best_isolation().name, "|", probe("namespaces"), "|", probe("limits"))
try:
    best_isolation("namespaces")
except EnvironmentFault as fault:
    print(fault)
"""


def test_the_strongest_is_chosen_and_a_minimum_is_kept() -> None:
    best = best_isolation()
    assert best.name == ("limits" if probe("namespaces") else "namespaces")
    assert best_isolation("limits").name == best.name
    assert best_isolation("").name == best.name


def test_an_unknown_minimum_is_refused() -> None:
    with pytest.raises(UsageError, match="namespaces, bubblewrap, limits"):
        best_isolation("jail")


def test_a_refusal_of_namespaces_is_explained_and_limits_are_used() -> None:
    """Inside a cell new namespaces are refused, as on a machine that forbids them."""
    if probe("namespaces"):
        pytest.skip(probe("namespaces"))
    python = Path(sys.executable)
    isolation = Namespaces()
    cell = Cell((*interpreter_paths(python), ROOT), (), ROOT)
    process = isolation.popen([str(python), "-c", ASK], cell, stdout=subprocess.PIPE)
    text = process.communicate(timeout=60)[0].decode()
    isolation.kill(process)
    assert text.startswith(
        "limits | A process could not be isolated: new namespaces refused: unshare(): Operation not permitted. |"
    )
    assert "Allow user namespaces" in text


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="these tests run as an ordinary user already")
def test_all_of_this_works_for_an_ordinary_user_too() -> None:
    """Run the tests of this folder once more, as the user that a cell of root's has."""
    if probe("namespaces"):
        pytest.skip(probe("namespaces"))
    python = Path(sys.executable)
    cell = Cell((*interpreter_paths(python), ROOT), (), ROOT, env={"PYTHONDONTWRITEBYTECODE": "1"})
    become = [
        str(python),
        str(Path(__file__).with_name("as_ordinary_user.py")),
        json.dumps(Namespaces().worker_cell(cell)),
    ]
    tests = [
        str(python),
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--tb=short",
        "-m",
        "not docker",
        "-k",
        "not torch",
    ]
    answer = subprocess.run(
        [*become, *tests, str(Path(__file__).parent)], capture_output=True, text=True, timeout=240, check=False
    )
    text = answer.stdout + answer.stderr
    assert answer.returncode == 0, text
    assert " passed" in text


def test_an_interpreter_that_does_not_run_is_the_environments_fault(tmp_path: Path) -> None:
    (tmp_path / "python").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "python").chmod(0o755)
    for python in (tmp_path / "python", tmp_path / "missing"):
        with pytest.raises(EnvironmentFault, match="does not run"):
            interpreter_paths(python)


def test_an_interpreter_brings_its_home_and_its_packages() -> None:
    paths = interpreter_paths(Path(sys.executable))
    inside = [Path(sys.executable), Path(sys.executable).resolve(), Path(os.__file__), Path(pytest.__file__)]
    assert all(any(path in (each, *each.parents) for path in (*paths, Path("/usr"))) for each in inside)

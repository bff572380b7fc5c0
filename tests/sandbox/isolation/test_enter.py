"""``enter`` as a forked worker calls it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sandbox.isolation import Limits

from .conftest import PYTHON, Room

HARNESS = Path(__file__).parents[3] / "sandbox/harness"


def run_forked(cell: dict[str, Any], body: str, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    """Fork in a process of its own, enter the cell in the child and run ``body`` there; print how the child ended."""
    code = (
        "import json, os, sys\n"
        f"sys.path.insert(0, {str(HARNESS)!r})\n"
        "from warpsmith_harness.isolate import IsolationRefused, enter\n"
        "cell = json.loads(sys.argv[1])\n"
        "result = os.pipe()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os.close(result[0])\n"
        "    try:\n"
        "        enter(cell)\n"
        "    except IsolationRefused as refused:\n"
        "        os.write(result[1], f'refused: {refused}'.encode()); os._exit(9)\n"
        f"    exec({body!r})\n"
        "    os._exit(0)\n"
        "os.close(result[1])\n"
        "said = os.fdopen(result[0], 'rb').read().decode()\n"
        "print(said, os.waitpid(child, 0)[1])\n"
    )
    return subprocess.run(
        [python, "-c", code, json.dumps(cell)], capture_output=True, text=True, check=False, timeout=60
    )


def test_a_forked_worker_is_isolated_and_keeps_its_pipe(local_room: Room) -> None:
    cell = local_room.isolation.worker_cell(local_room.cell(env={"A": "b"}))
    body = "os.write(result[1], f'{os.environ[\"A\"]} {os.getcwd()}'.encode()); os._exit(5)"
    answer = run_forked(cell, body)
    assert answer.stdout == f"b {local_room.folder} {5 << 8}\n", answer.stderr


def test_temporary_files_go_where_the_cell_has_them(local_room: Room) -> None:
    cell = local_room.isolation.worker_cell(local_room.cell())
    body = "import tempfile; tempfile.NamedTemporaryFile().write(b'x'); os._exit(6)"
    answer = run_forked(cell, body)
    assert answer.stdout == f" {6 << 8}\n", answer.stderr


def test_a_crash_is_told_as_it_was(local_room: Room) -> None:
    cell = local_room.isolation.worker_cell(local_room.cell())
    assert run_forked(cell, "import ctypes; ctypes.string_at(0)").stdout == f" {signal.SIGSEGV}\n"


def test_a_refusal_is_raised_where_enter_was_called(local_room: Room) -> None:
    cell = {**local_room.isolation.worker_cell(local_room.cell()), "cwd": "/no/such/folder"}
    answer = run_forked(cell, "pass")
    assert answer.stdout.startswith("refused: ")
    assert "/no/such/folder" in answer.stdout
    assert answer.stdout.endswith(f"{9 << 8}\n")


def test_the_time_limit_holds_for_forked_workers(local_room: Room) -> None:
    cell = local_room.isolation.worker_cell(local_room.cell(limits=Limits(seconds=0.3)))
    assert run_forked(cell, "import time; time.sleep(30)").stdout == f" {signal.SIGALRM}\n"


def test_workers_can_name_their_threads(local_room: Room) -> None:
    cell = local_room.isolation.worker_cell(local_room.cell())
    body = "os.write(os.open(f'/proc/self/task/{os.getpid()}/comm', os.O_RDWR), b'named'); os.write(result[1], b'ok')"
    answer = run_forked(cell, body)
    assert answer.stdout == "ok 0\n", answer.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="the interpreters may lie where only root looks")
@pytest.mark.parametrize("version", ["3.9", "3.12", "3.13"])
def test_other_interpreters_enter_too(local_room: Room, version: str) -> None:
    found = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    if not found:
        pytest.skip(f"there is no Python {version} here")
    cell = local_room.isolation.worker_cell(local_room.cell())
    answer = run_forked(cell, "os.write(result[1], b'in')", python=str(found[0]))
    assert answer.stdout == "in 0\n", answer.stderr


def test_keys_of_the_parent_are_not_in_the_environment(local_room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted")
    cell = local_room.isolation.worker_cell(local_room.cell())
    body = (
        f"import subprocess; os.write(result[1], subprocess.run(['env'], capture_output=True).stdout)  # {PYTHON.name}"
    )
    assert "planted" not in run_forked(cell, body).stdout

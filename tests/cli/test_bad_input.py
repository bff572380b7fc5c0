"""Bad tasks, bad candidates, bad machines, and processes that end in the middle: what is told, and that nothing stays."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.cli.conftest import Cli, command_of
from tests.scale_task import MODEL_NEW, Write, kernel

pytestmark = pytest.mark.timeout(300)

MODULE = """
import torch
from torch import nn
IMPORTS

class Block(nn.Module):
    def __init__(self, dim, eps=0.0):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return ANSWER
"""
GIVEN = ["--init", "64", "--inputs", "torch.randn(4, 64)"]
ANSWERS = "torch.tanh(x * self.weight)"
REFUSES = "return 5;"
SLOW = "for (volatile int64_t i = 0; i < 1500000000; ++i) {}"
FURTHER = pytest.mark.long
"""More of a kind, which the judge's own tests tell apart without a process and a judge for each."""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a small disk and closes a folder to cells")


def write_module(folder: Path, answer: str = ANSWERS, imports: str = "") -> Path:
    """Write a lone file with a module, and a candidate that is the same."""
    (folder / "candidate").mkdir()
    for path in (folder / "block.py", folder / "candidate" / "block.py"):
        path.write_text(MODULE.replace("ANSWER", answer).replace("IMPORTS", imports))
    return folder / "block.py"


@pytest.mark.parametrize(
    ("written", "options", "words"),
    [
        ({}, [], ["constructor of Block needs dim and the forward of Block needs x", '--init "dim=64"', "block.py:6"]),
        pytest.param({}, [*GIVEN, "--init", "64, eps="], ["--init '64, eps=' does not parse"], marks=FURTHER),
        ({"imports": "import no_such_package.parts"}, [], ["imports no_such_package", "block.py:4", "pip install"]),
        ({"answer": "1 / 0"}, GIVEN, ["ZeroDivisionError", "block.py:12"]),
        pytest.param(
            {"answer": "x + torch.randn_like(x)"},
            GIVEN,
            ["Block is not deterministic", "It draws random numbers"],
            marks=FURTHER,
        ),
    ],
    ids=["needs arguments", "bad --init", "missing package", "raises", "random"],
)
def test_a_task_that_cannot_be_used_is_2(
    cli: Cli, tmp_path: Path, written: dict[str, str], options: list[str], words: list[str]
) -> None:
    done = cli.check(write_module(tmp_path, **written), tmp_path / "candidate", *options)
    done.says("error:", "where:", "next:", *words)
    assert done.code == 2
    assert not cli.left_behind()


def test_an_interpreter_without_torch_is_3(cli: Cli, task: Path, candidate: Write) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(cli.folder / "bare")], check=True)
    done = cli.check(task, candidate(), "--python", cli.folder / "bare")
    done.says("cannot import torch", "bare/bin/python", "--python")
    assert done.code == 3
    assert not cli.left_behind()


def test_without_a_compiler_it_is_3_and_not_the_candidates_fault(cli: Cli, task: Path, candidate: Write) -> None:
    tools = cli.folder / "tools"
    tools.mkdir()
    for name in ("git", "bash", "sh", "env"):
        (tools / name).symlink_to(shutil.which(name) or "/bin/sh")
    cli.variables.update(PATH=str(tools), CXX="")
    done = cli.check(task, candidate())
    done.says("No C++ compiler was found", "Install g++")
    assert done.code == 3
    assert not cli.left_behind()


@pytest.mark.parametrize(
    ("before", "includes", "words"),
    [
        pytest.param('int wrong = "text";', "", ["does not build", "kernels/scale_add.cpp:5"], marks=FURTHER),
        ("*(volatile int*)0 = 1;", "", ["crashed with SIGSEGV in scale_add (model_new.py:"]),
        (
            "static char many[1 << 20]; memset(many, 'a', sizeof many);"
            "for (int i = 0; i < 1024; ++i) fwrite(many, 1, sizeof many, stdout);" + REFUSES,
            "cstdio cstring",
            ["scale_add returned error 5"],
        ),
    ],
    ids=["does not compile", "crashes", "prints 1 GB"],
)
def test_a_bad_kernel_is_1_and_told_with_its_place(
    cli: Cli, task: Path, candidate: Write, before: str, includes: str, words: list[str]
) -> None:
    done = cli.check(task, candidate(kernel(before, includes=includes)))
    done.says("The candidate is at fault", "reward   -1", *words)
    assert done.code == 1
    assert len(done.err) < 10_000
    assert not cli.left_behind()


@pytest.mark.parametrize(
    ("python", "words"),
    [
        (MODEL_NEW.replace("import torch\n", "import os, torch\nos._exit(0)\n", 1), ["os._exit"]),
        pytest.param(MODEL_NEW + "\ndef (\n", ["syntax", "model_new.py"], marks=FURTHER),
        pytest.param(MODEL_NEW.replace("ModelNew", "Other"), ["ModelNew"], marks=FURTHER),
    ],
    ids=["leaves", "does not parse", "has no such class"],
)
def test_bad_python_is_1(cli: Cli, task: Path, candidate: Write, python: str, words: list[str]) -> None:
    done = cli.check(task, candidate(python=python))
    done.says("The candidate is at fault", *words)
    assert done.code == 1
    assert not cli.left_behind()


@needs_root
def test_folders_that_are_closed_to_everyone_else_are_not_the_candidates_fault(cli: Cli, tmp_path: Path) -> None:
    project = tmp_path / "closed"
    (project / "tmp").mkdir(parents=True)
    project.chmod(0o700)
    (project / "helper.py").write_text("SCALE = 2.0\n")
    late = "def late():\n    from helper import SCALE\n    return SCALE\n"
    write_module(project, answer=f"{ANSWERS} * late()", imports=late)
    other = project / "candidate" / "block.py"
    other.write_text(other.read_text().replace("* late()", "* late() + 1"))
    cli.variables["TMPDIR"] = str(project / "tmp")
    done = cli.check(project / "block.py", project / "candidate", *GIVEN, "--policy", "library-ok")
    done.says("it is not correct", "fresh inputs 1: The output has all elements off")
    assert done.code == 1
    assert not cli.left_behind()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one megabyte that is full but for some pages."""
    folder = Path(tempfile.mkdtemp(dir=tmp_path))
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], check=False)
    if mounted.returncode:
        pytest.skip("mounting is refused here")
    (folder / "fill").write_bytes(b"0" * 1000 * 1024)
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@needs_root
@pytest.mark.parametrize("option", ["--cache", "TMPDIR"])
def test_a_full_disk_is_3_and_not_the_candidates_fault(
    cli: Cli, task: Path, candidate: Write, small_disk: Path, option: str
) -> None:
    folder = candidate(kernel())
    if option == "TMPDIR":
        (small_disk / "fill").write_bytes(b"0" * 1020 * 1024)
        cli.variables["TMPDIR"] = str(small_disk)
        done = cli.check(task, folder)
    else:
        done = cli.check(task, folder, "--cache", small_disk / "cache")
    done.says("error: ", "space")
    assert done.code == 3
    (small_disk / "fill").unlink()
    assert not cli.left_behind()


@needs_root
@pytest.mark.parametrize(
    "command", [["demo", "--headless"], ["run", "scale.py", "--model", "replay:demo-cpu"]], ids=["demo", "run"]
)
def test_a_full_home_is_3(cli: Cli, task: Path, small_disk: Path, command: list[str]) -> None:
    done = cli.run(*command, "--device", "cpu", "--home", small_disk)
    done.says("space")
    assert done.code == 3
    assert not cli.left_behind()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--model", "openai/none"], ["ended: model_error", "has no key", "API key", "next: mend that"]),
        (["--model", "replay:nope"], ["no recording 'nope'", "demo-cpu"]),
    ],
    ids=["no key", "no recording"],
)
def test_no_model_is_3(cli: Cli, task: Path, options: list[str], words: list[str]) -> None:
    cli.variables["OPENAI_API_KEY"] = ""
    done = cli.run("run", task, "--device", "cpu", *options)
    done.says(*words)
    assert done.code == 3
    assert not cli.left_behind()


def until_said(cli: Cli, process: subprocess.Popen[str], word: str) -> str:
    """Read what a command tells until a word is in it."""
    said = ""
    assert process.stderr is not None
    while word not in said:
        line = process.stderr.readline()
        assert line, f"{word!r} never came: {said}"
        said += line
    return said


def find(cli: Cli, role: str) -> psutil.Process:
    """Return the process of a command that plays a role."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for process in cli.processes():
            if role in command_of(process):
                return process
        time.sleep(0.02)
    raise AssertionError(f"there is no {role}")


@pytest.mark.parametrize(
    ("word", "number"),
    [
        ("loading", signal.SIGINT),
        pytest.param("verifying", signal.SIGINT, marks=FURTHER),
        ("timing", signal.SIGINT),
        ("verifying", signal.SIGTERM),
    ],
)
def test_an_interrupted_check_is_130(cli: Cli, task: Path, candidate: Write, word: str, number: signal.Signals) -> None:
    process = cli.start("check", task, candidate(), "--device", "cpu")
    until_said(cli, process, word)
    process.send_signal(number)
    done = cli.finish(process)
    done.says("Interrupted.")
    assert done.code == 130
    assert not cli.left_behind()


@pytest.mark.parametrize("role", [pytest.param("main.py bench", marks=FURTHER), "main.py zygote"])
def test_a_lost_process_is_started_again(cli: Cli, task: Path, candidate: Write, role: str) -> None:
    process = cli.start("check", task, candidate(kernel(SLOW + REFUSES)), "--device", "cpu")
    lost = find(cli, role)
    until_said(cli, process, "verifying")
    time.sleep(0.3)
    lost.kill()
    done = cli.finish(process)
    done.says("starting again", "scale_add returned error 5")
    assert done.code == 1
    assert not cli.left_behind()


def test_a_killed_check_takes_its_processes_along_and_the_next_removes_its_files(
    cli: Cli, task: Path, candidate: Write
) -> None:
    process = cli.start("check", task, candidate(), "--device", "cpu")
    until_said(cli, process, "verifying")
    process.kill()
    cli.finish(process)
    assert cli.check(task, candidate(python="def (")).code == 1
    assert not cli.left_behind()


@pytest.mark.slow
def test_a_killed_engine_loses_nothing_and_the_next_check_removes_its_files(
    cli: Cli, task: Path, candidate: Write
) -> None:
    process = cli.start("demo", "--headless", "--device", "cpu")
    until_said(cli, process, "attempt 1")
    find(cli, "agent.engine").kill()
    done = cli.finish(process)
    done.says("The engine was killed by SIGKILL", "1 attempts", "warpsmith sessions resume")
    assert done.code == 4
    assert cli.check(task, candidate(python="def (")).code == 1
    assert not cli.left_behind()
    shown = cli.run("sessions", "show", "last")
    shown.says("attempt 1", "stopped")


@pytest.mark.parametrize("word", [pytest.param("", marks=FURTHER), pytest.param("loading", marks=FURTHER), "attempt 1"])
def test_an_interrupted_run_is_130_and_can_go_on(cli: Cli, word: str) -> None:
    process = cli.start("demo", "--headless", "--device", "cpu")
    until_said(cli, process, word) if word else find(cli, "agent.engine")
    process.send_signal(signal.SIGINT)
    done = cli.finish(process)
    assert "Traceback" not in done.err
    assert done.code == 130
    assert not cli.left_behind()
    assert "leafnet.blocks:StemPool" in cli.run("sessions").out

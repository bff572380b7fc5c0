"""What the commands refuse before anything is loaded: the request, the settings, the machine."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path

import pytest

from agent.settings import load_settings
from sandbox.errors import UsageError
from sandbox.machine.scratch import scratch_folder
from sandbox.target import resolve_target
from tests.cli.conftest import Cli, Done
from tests.scale_task import Write


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ("chekc model.py good", 2, ["no command", "Did you mean: warpsmith check"]),
        ("frobnicate", 2, ["no command", "open, run, check"]),
        ("--home x sessions show last", 2, ["behind the command", "Try: warpsmith sessions --home x show last"]),
        ("check scale.py candidate --nope", 2, ["unrecognized arguments: --nope"]),
        ("check", 2, ["required: TARGET, CANDIDATE"]),
        ("check scale.py candidate --precision fp9", 2, ["fp9", "fp32"]),
        ("check scale.py candidate --device gpu7", 2, ["'gpu7' is not a device", "Use auto"]),
        ("check scale.py candidate --isolation foo", 2, ["'foo'", "namespaces, bubblewrap, limits"]),
        ("check scale.py candidate --python /nowhere", 3, ["interpreter", "/nowhere", "--python"]),
        ("check scale.py nowhere", 2, ["no such candidate", "nowhere", "Name a file"]),
        ("check scale.py . --device cpu", 2, ["no model_new.py", "ModelNew"]),
        ("run scale.py --turns x", 2, ["--turns", "a whole number"]),
        ("run scale.py --turns -3", 2, ["--turns", "1 or more"]),
        ("run scale.py --api-base foo", 2, ["'api_base' must be an http or https address"]),
        ("open", 2, ["needs a terminal", "warpsmith run TARGET"]),
        ("sessions show nope", 2, ["no session 'nope'", "warpsmith sessions"]),
        ("sessions resume nope --headless", 2, ["no session 'nope'"]),
        ("sessions prune --older-than -1", 2, ["not a number of days"]),
        ("sessions show", 2, ["SESSION"]),
        ("sessions", 0, ["No sessions yet"]),
        ("--version", 0, ["warpsmith "]),
        ("--help", 0, ["doctor"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_request_that_is_wrong_is_told_at_once(
    cli: Cli, task: Path, candidate: Write, arguments: str, code: int, words: list[str]
) -> None:
    candidate()
    done = cli.run(*arguments.split())
    done.says(*words)
    assert done.code == code
    assert not cli.left_behind()


@pytest.mark.parametrize(
    ("target", "source", "words"),
    [
        ("broken.py", "class A(:\n", ["does not parse", "broken.py:1", "Mend the file"]),
        ("zero.py", "x = 1\0\n", ["does not parse", "zero.py"]),
        ("latin.py", b"\xff\xfe", ["does not parse", "latin.py"]),
        ("plain.py", "x = 1\n", ["no class with a forward method"]),
        (
            "two.py",
            "class A:\n def forward(s): 0\nclass B:\n def forward(s): 0\n",
            ["several modules: A, B", "two.py:B"],
        ),
        ("in/two.py", "class A:\n def forward(s): 0\nclass B:\n def forward(s): 0\n", ["Name one: in/two.py:B"]),
        ("two.py:C", "class A:\n def forward(s): 0\n", ["no class 'C'", "its classes are: A"]),
        ("gone.py", None, ["no such file", "gone.py"]),
        ("no.such.module:A", None, ["neither a file nor a module", "--python"]),
        ("", None, ["No file or module is named"]),
        (":A", None, ["No file or module is named"]),
        (".", None, ["A folder is not a module"]),
    ],
)
def test_a_target_that_is_wrong_is_told_with_its_place_and_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, source: str | bytes | None, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    if source is not None:
        Path(target).parent.mkdir(exist_ok=True)
        Path(target.partition(":")[0]).write_bytes(source if isinstance(source, bytes) else source.encode())
    with pytest.raises(UsageError) as caught:
        resolve_target(target, python=sys.executable)
    assert caught.value.next_step
    assert "None" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="there may be a GPU")
def test_a_gpu_that_is_not_there_is_the_environments_fault(cli: Cli, task: Path, candidate: Write) -> None:
    done = cli.run("check", task, candidate(), "--device", "cuda")
    done.says("Device cuda does not exist", "--device auto or cpu")
    assert done.code == 3


def test_without_git_the_demo_and_the_doctor_say_so(cli: Cli) -> None:
    cli.variables["PATH"] = "/nowhere"
    done = cli.run("demo", "--headless", "--device", "cpu")
    done.says("git is not installed", "--home")
    assert done.code == 3
    assert not list((cli.folder / "home" / "demo").iterdir())
    doctor = cli.run("doctor", "--device", "cpu")
    doctor.says("Install git", "Install g++")
    assert doctor.code == 3


def test_the_doctor_compares_versions_and_makes_room(cli: Cli) -> None:
    entry = cli.folder / "cache/kernels/objects/key"
    entry.mkdir(parents=True)
    (entry / "object.o").write_bytes(b"x" * 5000)
    for path in (entry / "object.o", entry):
        os.utime(path, (time.time() - 7200,) * 2)
    done = cli.run("doctor", "--prune", "all", "--json", "--device", "cpu", "--cache", cli.folder / "cache")
    done.says("8 KiB freed")
    assert not entry.exists()
    found = json.loads(done.out)
    names = [reading["name"] for reading in found["readings"]]
    assert {"interpreter", "C++ compiler", "nvcc", "CUDA", "cache", "cached"} <= set(names)
    assert "torch's" in found["readings"][names.index("CUDA")]["value"]
    assert {"objects", "hosts", "libraries", "baselines", "Triton kernels", "headers"} == {
        part["name"] for part in found["cache"]
    }


def test_a_place_that_cannot_be_written_is_the_environments_fault(cli: Cli, task: Path) -> None:
    for command in (["demo", "--headless"], ["run", str(task), "--model", "replay:demo-cpu"]):
        done = cli.run(*command, "--device", "cpu", "--home", "/proc/nothing")
        done.says("error:", "/proc/nothing", "--home")
        assert done.code == 3


def test_relative_folders_are_meant_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = load_settings({"cache": "here/cache", "home": Path("home")})
    assert (settings.cache, settings.home) == (tmp_path / "here" / "cache", tmp_path / "home")


def ended_at_once(cli: Cli, task: Path) -> Done:
    """Make a session that ends before anything is asked: its model has no key."""
    cli.variables["OPENAI_API_KEY"] = ""
    return cli.run("run", task, "--device", "cpu", "--model", "openai/none")


def test_a_session_whose_last_line_is_torn_is_shown_without_it(cli: Cli, task: Path) -> None:
    assert ended_at_once(cli, task).code == 3
    events = next((cli.folder / "home" / "sessions").glob("*/events.jsonl"))
    events.write_bytes(events.read_bytes()[:-20])
    done = cli.run("sessions", "show", "last")
    done.says("scale:Model")
    assert done.code == 0
    resume = cli.run("sessions", "resume", "last")
    resume.says("warpsmith sessions resume last --headless")
    assert resume.code == 2


def test_an_unreadable_session_hides_no_other(cli: Cli, task: Path) -> None:
    ended_at_once(cli, task)
    broken = cli.folder / "home" / "sessions" / "20200101-000000-abcd1234-x"
    broken.mkdir()
    (broken / "session.json").write_text("{")
    assert "scale:Model" in cli.run("sessions").out
    done = cli.run("sessions", "show", "abcd")
    done.says("not a session that can be read", "session.json")
    assert done.code == 2


def test_a_reader_that_leaves_is_no_error(cli: Cli, task: Path) -> None:
    process = cli.start("--help")
    assert process.stdout is not None
    process.stdout.close()
    process.wait(60)
    assert process.stderr is not None
    assert "Traceback" not in process.stderr.read()


def test_a_scratch_folder_goes_with_its_owner_and_others_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    abandoned = tmp_path / "mine-abandoned"
    abandoned.mkdir()
    (tmp_path / "yours").mkdir()
    with scratch_folder("mine-") as outer:
        assert not abandoned.exists()
        with scratch_folder("mine-") as inner:
            assert outer.is_dir()
            assert inner.is_dir()
        assert not inner.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["yours"]


def test_a_landing_named_without_an_action_is_told_where_it_goes(cli: Cli) -> None:
    done = cli.run("landed", "Block")
    done.says("'Block' is no action", "warpsmith landed check Block")
    assert done.code == 2

"""Commands that cannot be recorded, or not be started: what a person is told."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sandbox.errors import EnvironmentFault, UsageError, WarpsmithError
from sandbox.hotspots.command import parse_command
from sandbox.hotspots.recording import Recording, read_recording
from sandbox.hotspots.refusal import require_modules
from sandbox.hotspots.run import Limits, RunEnd, watch

OLD_TORCH = "__version__ = '2.1.0'\n"


def refusal(folder: Path, *words: str) -> WarpsmithError:
    """Run a command and return why it cannot be ranked."""
    command = parse_command([sys.executable, *words])
    end = watch(command, folder, Limits(), lambda _: None)
    with pytest.raises(WarpsmithError) as refused:
        require_modules(read_recording(folder), end, command)
    return refused.value


def test_a_command_that_fails_imports_no_torch_or_hides_from_the_recorder(tmp_path: Path) -> None:
    for number, (words, error, said) in enumerate(
        [
            (("-c", "raise SystemExit(3)"), UsageError, "failed after"),
            (("-c", "pass"), UsageError, "did not import torch"),
            (("-I", "-c", "pass"), UsageError, "No Python process"),
        ]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        refused = refusal(folder, *words)
        assert type(refused) is error
        assert said in refused.what
        assert refused.next_step


def test_an_old_torch_is_named_and_its_import_goes_on(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "torch.py").write_text(OLD_TORCH)
    monkeypatch.setenv("PYTHONPATH", str(project))
    refused = refusal(tmp_path, "-c", "import torch; assert torch.__version__ == '2.1.0'")
    assert isinstance(refused, EnvironmentFault)
    assert "torch 2.1.0 is too old" in refused.what


def test_an_old_python_is_named() -> None:
    command = parse_command([sys.executable, "train.py"])
    recording = Recording((), ((3, 8, 1),), (), ())
    with pytest.raises(EnvironmentFault, match=r"Python 3\.8\.1 is too old"):
        require_modules(recording, RunEnd(0, 1.0), command)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no command"),
        (["A=1 B=2"], "no command"),
        (["python 'train.py"], "cannot be read"),
        (["no-such-program train.py"], "no such program"),
        (["cd src && python train.py"], "without a shell"),
        (["train.py"], "started by an interpreter"),
    ],
)
def test_what_cannot_be_started_is_refused_before_anything_runs(project: Path, words: list[str], said: str) -> None:
    (project / "train.py").touch()
    with pytest.raises(UsageError, match=said) as refused:
        parse_command(words)
    assert refused.value.next_step


def test_a_command_is_one_text_or_words_with_variables_before_it(tmp_path: Path) -> None:
    one = parse_command([f"LR='1 2' {sys.executable} train.py --name 'a b'"])
    assert one.argv == (sys.executable, "train.py", "--name", "a b")
    assert one.variables == {"LR": "1 2"}
    assert parse_command([sys.executable, "-c", "a && b"]).argv == (sys.executable, "-c", "a && b")
    program = tmp_path / "bin" / "python"
    program.parent.mkdir()
    program.symlink_to(sys.executable)
    for words, python in (("python train.py", tmp_path), ("python3 train.py", program)):
        assert parse_command([words], python=str(python)).argv[0] == str(program)


def test_an_interpreter_is_found_from_here_and_never_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "env" / "bin" / "python"
    program.parent.mkdir(parents=True)
    program.symlink_to(sys.executable)
    monkeypatch.chdir(tmp_path)
    command = parse_command(["python train.py"], python="env")
    assert command.argv[0] == str(program)
    assert command.search.startswith(f"{program.parent}:")
    for mistyped in ("evn", "env/bin/pyhton"):
        with pytest.raises(EnvironmentFault, match="no interpreter here"):
            parse_command(["python train.py"], python=mistyped)

from pathlib import Path

import pytest

from app.editor import editor_command
from sandbox.errors import EnvironmentFault


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the whole search path, with a few editors in it."""
    for name in ("vim", "nano", "code", "hx", "ed"):
        program = tmp_path / name
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("editor", "command"),
    [
        ("vim", ["vim", "+7", "a b.py"]),
        ("vim -u NONE", ["vim", "-u", "NONE", "+7", "a b.py"]),
        ("hx", ["hx", "a b.py:7"]),
        ("code -n", ["code", "-n", "--wait", "--goto", "a b.py:7"]),
        ("ed", ["ed", "a b.py"]),
        ("", ["nano", "+7", "a b.py"]),
    ],
)
def test_the_editor_opens_at_the_line(
    programs: Path, monkeypatch: pytest.MonkeyPatch, editor: str, command: list[str]
) -> None:
    monkeypatch.setenv("EDITOR", editor)
    assert editor_command(Path("a b.py"), 7) == command


def test_visual_wins_over_editor(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDITOR", "ed")
    monkeypatch.setenv("VISUAL", "vim")
    assert editor_command(Path("a.py"), 1)[0] == "vim"


def test_an_editor_that_is_not_there_is_named(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDITOR", "emacs")
    with pytest.raises(EnvironmentFault, match="'emacs' is not installed"):
        editor_command(Path("a.py"), 1)


def test_no_editor_at_all_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    with pytest.raises(EnvironmentFault, match="none is installed"):
        editor_command(Path("a.py"), 1)

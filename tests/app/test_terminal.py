"""Without a terminal nothing is drawn; with one, a real one, the IDE comes up, is used and leaves."""

import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from tests.app import sessions

IMPORTS = (
    "import os, signal, sys; from pathlib import Path\n"
    "from app.ide import run_ide; from sandbox.boundary import exit_code_of\n"
)
SECONDS = 60.0


def test_without_a_terminal_it_points_to_the_way_without_one(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "app.cli", "open", str(tmp_path)],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert "warpsmith run" in done.stderr


class Terminal:
    """A process in a terminal of its own."""

    def __init__(self, *argv: str) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execv(sys.executable, [sys.executable, *argv])
        termios.tcsetwinsize(self.fd, (40, 120))
        self.seen = b""

    def until(self, text: str) -> None:
        """Read until the terminal has shown a text."""
        end = time.monotonic() + SECONDS
        while text.encode() not in self.seen:
            assert time.monotonic() < end, f"{text!r} never came: {self.seen[-2_000:]!r}"
            if select.select([self.fd], [], [], 0.1)[0]:
                self.seen += os.read(self.fd, 1 << 16)

    def press(self, keys: bytes) -> None:
        self.seen = b""
        os.write(self.fd, keys)

    def ended(self) -> int:
        """Read to the end and return the exit code."""
        end = time.monotonic() + SECONDS
        try:
            while time.monotonic() < end:
                if select.select([self.fd], [], [], 0.1)[0]:
                    self.seen += os.read(self.fd, 1 << 16)
            os.kill(self.pid, signal.SIGKILL)
        except OSError:
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def ide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> Terminal:
    """Run code that opens the IDE on a recorded session, and wait until it is drawn."""
    folder = sessions.record(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    terminal = Terminal("-c", IMPORTS + code, str(folder))
    terminal.until("Quit")
    terminal.until("Reading")
    return terminal


@pytest.mark.parametrize("leave", [b"\x11", b"\x03\x11"], ids=["ctrl-q", "ctrl-c first"])
def test_in_a_terminal_it_is_drawn_and_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leave: bytes) -> None:
    terminal = ide(tmp_path, monkeypatch, "sys.exit(run_ide(Path(sys.argv[1])))")
    terminal.until("3.12")
    terminal.press(leave)
    assert terminal.ended() == 0
    assert b"warpsmith sessions resume 3f9a1c2e" in terminal.seen


def test_one_that_is_told_to_end_and_then_woken_ends_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = ide(tmp_path, monkeypatch, "sys.exit(exit_code_of(lambda: run_ide(Path(sys.argv[1]))))")
    os.kill(terminal.pid, signal.SIGTERM)
    os.kill(terminal.pid, signal.SIGCONT)
    assert terminal.ended() == 130
    assert b"warpsmith sessions resume 3f9a1c2e" in terminal.seen
    assert b"Interrupted." in terminal.seen
    for words in (b"Traceback", b"Exception ignored", b"never retrieved", b"was destroyed"):
        assert words not in terminal.seen


def test_being_woken_while_it_ends_does_not_bring_it_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A terminal that is closed wakes whatever runs in it, and at any moment of its end.
    terminal = ide(tmp_path, monkeypatch, "run_ide(Path(sys.argv[1])); os.kill(os.getpid(), signal.SIGCONT)")
    terminal.press(b"\x11")
    assert terminal.ended() == 0


@pytest.mark.parametrize("command", ["open", "demo"])
def test_in_the_background_of_a_terminal_it_is_refused_and_not_stopped(tmp_path: Path, command: str) -> None:
    code = (
        "import subprocess, sys; sys.exit(subprocess.run([sys.executable, *sys.argv[1:]], process_group=0).returncode)"
    )
    arguments = [str(tmp_path)] if command == "open" else []
    terminal = Terminal("-c", code, "-m", "app.cli", command, *arguments, "--home", str(tmp_path / "home"))
    assert terminal.ended() == 2
    assert b"timeout --foreground" in terminal.seen
    assert not (tmp_path / "home" / "sessions").exists()
    assert not (tmp_path / "home" / "demo").exists()

"""What limits promise where Landlock is there, and that they say what they do not."""

import socket
from pathlib import Path

import pytest

from sandbox.isolation.limits import _landlock_version

from .conftest import Room

landlocked = pytest.mark.skipif(_landlock_version() < 4, reason="this kernel's Landlock is missing or too old")


def test_the_description_warns(limits: Room) -> None:
    assert limits.isolation.description.startswith("WEAK: ")


@landlocked
def test_other_files_are_closed(limits: Room, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("planted")
    (tmp_path / "open").mkdir(mode=0o777)
    script = f"cat {tmp_path}/secret; echo x > {tmp_path}/open/x; cat /etc/shadow; rm {tmp_path}/secret"
    _, text = limits.run("sh", "-c", script)
    assert text.count("ermission denied") >= 3
    assert (tmp_path / "secret").read_text() == "planted"
    assert list((tmp_path / "open").iterdir()) == []


@landlocked
def test_tcp_is_closed(limits: Room) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 5)"
        assert "PermissionError" in limits.python(code)[1]

"""What only namespaces promise, made by system calls or by bubblewrap."""

import os
import socket
from pathlib import Path

import pytest

from sandbox.errors import EnvironmentFault
from sandbox.isolation import Cell

from .conftest import PYTHON, Room


def test_nothing_outside_is_seen(namespaces: Room, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("planted")
    (tmp_path / "scratch/link").symlink_to(tmp_path / "secret")
    _, text = namespaces.run("sh", "-c", f"cat {tmp_path}/secret link /etc/shadow; ls {tmp_path} /home /root /")
    assert "planted" not in text
    assert "scratch\n" in text
    assert "secret\n" not in text


def test_nothing_outside_is_written(namespaces: Room, tmp_path: Path) -> None:
    readable = tmp_path / "readable"
    readable.mkdir(mode=0o777)
    (readable / "file").write_text("old")
    (readable / "file").chmod(0o666)
    script = f"echo x > {readable}/file; rm {readable}/file; echo x > /usr/x; echo x > {tmp_path}/x; echo x > /x; mkdir /dev/x"
    _, text = namespaces.run("sh", "-c", script, readable=(readable,))
    assert text.count("Read-only") >= 3
    assert (readable / "file").read_text() == "old"
    assert not (tmp_path / "x").exists()


def test_a_folder_inside_a_writable_one_can_be_kept_read_only(namespaces: Room) -> None:
    kept = namespaces.folder / ".git"
    kept.mkdir()
    (kept / "config").write_text("ours")
    _, text = namespaces.run("sh", "-c", "echo x > .git/config; mv .git git; rm -rf .git; touch y", readable=(kept,))
    assert "Read-only" in text
    assert (kept / "config").read_text() == "ours"
    assert (namespaces.folder / "y").exists()


def test_keys_inside_a_readable_folder_are_hidden(
    namespaces: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    for name in (
        ".ssh/id_rsa",
        ".config/token",
        ".local/share/other",
        ".local/lib/needed/x",
        "project/a.py",
        "project/.env",
    ):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(f"planted {name}")
    monkeypatch.setenv("HOME", str(home))
    script = f"cd {home}; find . -type f -size +0 | sort; wc -c < project/.env"
    _, text = namespaces.run("sh", "-c", script, readable=(home, home / "project", home / ".local/lib/needed"))
    assert text == "./.local/lib/needed/x\n./project/a.py\n0\n"
    _, text = namespaces.run("cat", f"{home}/project/.env", readable=(home / "project",))
    assert text == ""


def test_there_is_no_network(namespaces: Room) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = f"import socket; socket.create_connection(('127.0.0.1', {port}), 5)"
        _, text = namespaces.python(code)
        assert "ConnectionRefusedError" in text
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
    assert (
        "Network is unreachable"
        in namespaces.python("import socket; socket.create_connection(('192.0.2.1', 80), 5)")[1]
    )


def test_an_own_loopback_works(namespaces: Room) -> None:
    code = "import socket; s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname()); print('ok')"
    assert namespaces.python(code) == (0, "ok\n")


def test_other_processes_are_not_seen(namespaces: Room) -> None:
    _, text = namespaces.run(
        "sh", "-c", f"ls /proc | grep -c '^[0-9]'; kill -0 {os.getpid()}; cat /proc/{os.getpid()}/cmdline"
    )
    assert int(text.split()[0]) < 6
    assert "pytest" not in text


def test_the_cell_cannot_look_into_its_keeper(namespaces: Room) -> None:
    _, text = namespaces.run(
        "sh", "-c", "ls /proc/1/fd /proc/1/root/; cat /proc/1/environ; kill -KILL 1; echo still here"
    )
    assert text.count("ermission denied") >= 3
    assert text.endswith("still here\n")


def test_the_user_has_a_name_and_no_rights(namespaces: Room) -> None:
    _, text = namespaces.run("sh", "-c", "id -un; id -u")
    name, number = text.split()
    assert name == "warpsmith"
    assert int(number) == os.geteuid() or (os.geteuid() == 0 and int(number) > 60000)


def test_sockets_of_the_machine_are_out_of_reach(namespaces: Room) -> None:
    _, text = namespaces.run("sh", "-c", "ls /var/run /run; ls /dev")
    assert "docker.sock" not in text
    assert not {"kmsg", "mem", "sda", "vda", "kvm"} & set(text.split())


def test_the_whole_file_system_is_no_readable_folder(namespaces: Room) -> None:
    with pytest.raises(EnvironmentFault, match="whole file system"):
        namespaces.isolation.popen(["true"], Cell((Path("/"),), (), Path("/")))


def test_odd_names_and_links_on_the_way_are_seen_under_their_own_names(namespaces: Room, tmp_path: Path) -> None:
    odd = tmp_path / 'a b "é\\x'
    (odd / "inner").mkdir(parents=True)
    (odd / "inner/file").write_text("seen")
    (tmp_path / "link").symlink_to(odd.name)
    through = tmp_path / "link/inner"
    script = f"cat '{through}/file' '{odd}/inner/file'; echo x > '{odd}/inner/file'"
    _, text = namespaces.run("sh", "-c", script, readable=(through,))
    assert text.startswith("seenseen")
    assert "Read-only" in text


def test_a_missing_readable_path_is_left_out(namespaces: Room, tmp_path: Path) -> None:
    assert namespaces.run("ls", str(tmp_path), readable=(tmp_path / "missing",)) == (0, "scratch\n")


def test_an_interpreter_below_a_closed_folder_runs(namespaces: Room) -> None:
    code = "import sys, os; print(sys.executable); os.listdir(os.path.dirname(os.__file__))"
    assert namespaces.python(code) == (0, f"{PYTHON}\n")

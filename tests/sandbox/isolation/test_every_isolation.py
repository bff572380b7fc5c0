"""What both isolations promise."""

import os
import secrets
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from sandbox.errors import EnvironmentFault
from sandbox.isolation import Cell, Limits

from .conftest import Room


def alive(marker: str) -> list[int]:
    """Return the processes whose command line holds a marker."""
    running = (
        each for each in psutil.process_iter(["cmdline", "status"]) if each.info["status"] != psutil.STATUS_ZOMBIE
    )
    return [each.pid for each in running if marker in (each.info["cmdline"] or [])]


def marks(count: int) -> list[str]:
    """Return durations for ``sleep`` that no other test uses, so that its process can be told from all others."""
    return [f"1000.{secrets.randbelow(10**12):012d}" for _ in range(count)]


def gone(*markers: str) -> bool:
    """Wait until no process with one of the markers is left; whether that came to be."""
    deadline = time.monotonic() + 20
    while any(map(alive, markers)) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not any(map(alive, markers))


def wait_for(marker: str) -> None:
    deadline = time.monotonic() + 20
    while not alive(marker):
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("script", "status"),
    [("exit 0", 0), ("exit 7", 7), ("kill -ABRT $$", -6), ("kill -SEGV $$", -11), ("kill -KILL $$", -9)],
)
def test_exit_status_and_signals_pass_through(room: Room, script: str, status: int) -> None:
    assert room.run("sh", "-c", script)[0] == status


def test_pipes_carry_everything(room: Room) -> None:
    process = room.start("sh", "-c", "cat; echo err >&2")
    assert process.communicate(b"in\0\xff\n", timeout=20)[0] == b"in\0\xff\nerr\n"


def test_a_missing_program_is_127_and_named(room: Room) -> None:
    status, text = room.run("no-such-program")
    assert status == 127
    assert "no-such-program" in text
    assert text.endswith("No such file or directory\n")


def test_a_missing_folder_is_the_environments_fault(room: Room, tmp_path: Path) -> None:
    others = set(psutil.Process().children())
    with pytest.raises(EnvironmentFault, match="nowhere"):
        room.isolation.popen(["true"], Cell((), (tmp_path / "nowhere",), tmp_path))
    with pytest.raises(EnvironmentFault, match="nowhere"):
        room.isolation.popen(["true"], Cell((), (), tmp_path / "nowhere"))
    assert set(psutil.Process().children()) <= others


def test_the_environment_is_the_cells_own(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted")
    _, text = room.run("env", env={"MINE": "1"})
    names = {line.split("=")[0] for line in text.splitlines()}
    assert names - {"HOSTNAME"} == {"MINE", "PATH", "HOME", "TMPDIR", "LANG", "USER", "LOGNAME"}
    assert "planted" not in room.run("sh", "-c", "cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'")[1]


def test_writable_folders_are_written_and_stay_ours(room: Room) -> None:
    (room.folder / "deep").mkdir()
    (room.folder / "deep/old").write_text("old")
    status, text = room.run("sh", "-c", "echo new > new; echo more >> deep/old; mkdir d; touch d/x; pwd")
    assert (status, text) == (0, f"{room.folder}\n")
    assert (room.folder / "deep/old").read_text() == "oldmore\n"
    (room.folder / "new").write_text("ours again")
    (room.folder / "d/x").unlink()
    assert room.run("cat", "new") == (0, "ours again")


def test_temporary_files_go_to_a_private_place(room: Room) -> None:
    name = f"warpsmith-{secrets.token_hex(8)}"  # the place may be named as one that others use outside
    status, text = room.run("sh", "-c", f'touch "$TMPDIR/{name}" && touch "$HOME/y" && echo "$TMPDIR"')
    assert status == 0
    assert not (Path(text.strip()) / name).exists()


def test_daemons_are_gone_after_the_end(room: Room) -> None:
    (daemon,) = marks(1)
    code = (
        "import os\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        f"    if os.fork() == 0: os.execvp('sleep', ['sleep', '{daemon}'])\n"
        "    os._exit(0)\n"
        "os.wait()\n"
    )
    assert room.python(code)[0] == 0
    assert alive(daemon) == []


def test_killing_takes_daemons_and_jobs_along(room: Room) -> None:
    sleeps = marks(3)
    process = room.start("sh", "-c", "setsid sleep {} & (sleep {} &); sleep {}".format(*sleeps))
    for marker in sleeps:
        wait_for(marker)
    room.isolation.kill(process)
    assert process.returncode is not None
    assert [alive(marker) for marker in sleeps] == [[], [], []]
    room.isolation.kill(process)


def test_everything_ends_with_the_process_that_started_it(room: Room) -> None:
    sleeps = marks(2)
    child = os.fork()
    if child == 0:
        room.start("sh", "-c", "setsid sleep {} & sleep {}".format(*sleeps))
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert gone(*sleeps)


def test_a_killed_wrapper_takes_the_cell_along(room: Room) -> None:
    sleeps = marks(2)
    process = room.start("sh", "-c", "sleep {} & sleep {}".format(*sleeps))
    wait_for(sleeps[1])
    process.kill()
    process.wait()
    if room.isolation.name == "docker":  # the engine does not know of its wrapper; the next one sweeps
        room.run("true")
    assert gone(*sleeps)


def test_the_time_limit_ends_by_an_alarm(room: Room) -> None:
    sleeps = marks(2)
    status, _ = room.run("sh", "-c", "sleep {} & sleep {}".format(*sleeps), limits=Limits(seconds=0.5))
    assert status == -signal.SIGALRM
    assert [alive(marker) for marker in sleeps] == [[], []]


def test_memory_is_bounded(room: Room) -> None:
    code = "x = bytearray(300_000_000)\nprint('got it')"
    status, text = room.python(code, limits=Limits(memory_bytes=200_000_000))
    assert "got it" not in text
    assert status != 0
    assert room.python(code, limits=Limits(memory_bytes=800_000_000))[1] == "got it\n"


def test_memory_of_gpu_cells_is_bounded_too(local_room: Room) -> None:
    code = "import time\nx = bytearray(b'1') * 300_000_000\ntime.sleep(5)\nprint('got it')"
    status, text = local_room.python(code, limits=Limits(memory_bytes=200_000_000), gpu=True)
    assert (status, text) == (-9, "")


def test_a_fork_bomb_is_bounded(room: Room) -> None:
    """New processes are refused; or the cell is killed, where neither a control group nor the user's count holds."""
    code = (
        "import os, time\n"
        "n = 0\n"
        "try:\n"
        "    while n < 200:\n"
        "        if os.fork() == 0: time.sleep(30); os._exit(0)\n"
        "        n += 1\n"
        "except OSError: pass\n"
        "if n == 200: time.sleep(30)\n"
        "print(n)\n"
    )
    status, text = room.python(code, limits=Limits(processes=40))
    assert (status, text) == (-signal.SIGKILL, "") or (status == 0 and 10 < int(text) < 60)


def test_cells_do_not_use_up_each_others_processes(local_room: Room) -> None:
    if local_room.isolation.name == "limits":
        pytest.skip("with limits only, an ordinary user's processes are counted together")
    limits = Limits(processes=30)
    first = local_room.start("sh", "-c", "for i in $(seq 20); do sleep 1000 & done; echo started; wait", limits=limits)
    assert first.stdout is not None
    assert first.stdout.readline() == b"started\n"
    script = "for i in $(seq 20); do sleep 1000 & done; echo started"
    assert local_room.run("sh", "-c", script, limits=limits) == (0, "started\n")


def test_file_size_and_open_files_are_bounded(room: Room) -> None:
    limits = Limits(file_bytes=1_000_000, open_files=50)
    room.run("sh", "-c", "head -c 5000000 /dev/zero > big", limits=limits)
    assert (room.folder / "big").stat().st_size <= 1_000_000
    code = "files = []\ntry:\n    while True: files.append(open('/dev/null'))\nexcept OSError: print(len(files))"
    assert int(room.python(code, limits=limits)[1]) < 50


def test_no_core_is_dumped(room: Room) -> None:
    assert room.run("sh", "-c", "ulimit -c; kill -SEGV $$") == (-11, "0\n")
    assert list(room.folder.iterdir()) == []


def test_privileges_are_gone(room: Room) -> None:
    _, text = room.run("cat", "/proc/self/status")
    fields = dict(line.split(":\t") for line in text.splitlines() if line.startswith(("Cap", "NoNew")))
    assert fields.pop("NoNewPrivs") == "1"
    bounding = fields.pop("CapBnd")
    assert set(fields.values()) == {"0" * 16}
    assert room.isolation.name == "limits" or bounding == "0" * 16


def test_output_is_bounded_by_its_reader(room: Room) -> None:
    process = room.start("sh", "-c", "yes")
    assert process.stdout is not None
    read = sum(len(process.stdout.read(1 << 20)) for _ in range(20))
    room.isolation.kill(process)
    assert read == 20 << 20


def test_compilers_work(room: Room) -> None:
    (room.folder / "a.cpp").write_text("#include <vector>\nint main() { return std::vector<int>(3).size(); }\n")
    assert room.run("sh", "-c", "g++ -O2 a.cpp -o a && ./a")[0] == 3


def test_torch_works(room: Room) -> None:
    status, text = room.python("import torch; print((torch.ones(64, 64) @ torch.ones(64, 64)).sum().item())")
    assert (status, text.splitlines()[-1]) == (0, "262144.0")


def test_cells_leave_no_control_groups_behind(room: Room) -> None:
    room.run("true", limits=Limits(memory_bytes=1 << 30, processes=10))
    process = room.start("sleep", "1000", limits=Limits(memory_bytes=1 << 30, processes=10))
    number = process.pid
    room.isolation.kill(process)
    found = subprocess.run(["find", "/sys/fs/cgroup", "-name", f"warpsmith-{number}"], capture_output=True, check=False)
    assert found.stdout == b""

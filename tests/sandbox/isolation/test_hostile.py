"""What a hostile program tries, at every level: none of it reaches anything outside its cell."""

import errno
import os
import platform
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from sandbox.isolation import Limits
from sandbox.isolation.limits import _landlock_version, _takes_filters
from sandbox.wire import HARNESS

from .conftest import PYTHON, Room
from .test_every_isolation import gone, marks

TRY = """
import ctypes, errno, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def attempt(what, call):
    try: print(what, "DONE", call())
    except OSError as error: print(what, errno.errorcode[error.errno])
def system_call(number, *arguments):
    if libc.syscall(ctypes.c_long(number), *arguments) < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
"""
KEY = "planted-key"


@pytest.fixture
def hostile(room: Room) -> Room:
    if room.isolation.name == "limits" and (_landlock_version() < 6 or not _takes_filters()):
        pytest.skip("this kernel's Landlock or seccomp is missing or too old, which the level says")
    return room


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process of ours with a key in its environment, in its memory and in an open file."""
    (tmp_path / "key").write_text(KEY)
    code = f"import sys; kept = '{KEY}'; file = open(sys.argv[1]); print('up', flush=True); sys.stdin.read()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    env = {"API_KEY": KEY, "PATH": os.environ["PATH"]}
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "key")], env=env, **pipes) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        yield process
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait() == 0, "somebody ended it"


def test_a_key_in_another_process_is_out_of_reach(hostile: Room, victim: subprocess.Popen[bytes]) -> None:
    """Its environment, its memory, its open files: whether by ``/proc`` or by looking into the process."""
    code = (
        TRY
        + (
            f"keeper = os.getppid() if {hostile.isolation.name != 'docker'} else -1\n"  # a container has one that knows nothing
            f"for place in ('/proc/{victim.pid}', f'/proc/{{keeper}}'):\n"
            "    for name in ('environ', 'mem', 'maps', 'fd/3'): attempt(name, lambda: open(f'{place}/{name}', 'rb').read(1))\n"
            "    for name in ('cwd', 'root'): attempt(name, lambda: os.listdir(f'{place}/{name}'))\n"
            f"attempt('signal', lambda: os.kill({victim.pid}, 15))\n"
            f"attempt('attach', lambda: system_call({_number('ptrace')}, 16, {victim.pid}, 0, 0))\n"
            f"attempt('memory', lambda: system_call({_number('process_vm_readv')}, {victim.pid}, 0, 0, 0, 0, 0))\n"
        )
    )
    status, text = hostile.python(code)
    assert (status, len(text.splitlines())) == (0, 15), text
    assert "DONE" not in text


def test_a_key_in_a_file_is_out_of_reach(hostile: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither outside, nor by a link, nor in the project, nor in the environment that started the cell."""
    monkeypatch.setenv("API_KEY", KEY)
    project = tmp_path / "project"
    project.mkdir()
    for path in (tmp_path / "key", project / ".env"):
        path.write_text(KEY)
    (hostile.folder / "link").symlink_to(tmp_path / "key")
    (hostile.folder / "show.c").write_text(f'#include "{tmp_path}/key"\n')
    looks = f"cat {tmp_path}/key link {project}/.env; env; cat /proc/*/environ; g++ -c show.c"
    script = f"{looks}; cp -rL {tmp_path} copy; grep -r {KEY} ."
    _, text = hostile.run("sh", "-c", script, readable=(project,))
    found = [line for line in text.splitlines() if KEY in line]
    assert found == []


def test_nothing_outside_is_changed(hostile: Room, tmp_path: Path) -> None:
    home, judge = tmp_path / "home", tmp_path / "judge"
    for folder in (home, judge):
        folder.mkdir(mode=0o777)
        folder.chmod(0o777)
        (folder / "file").write_text("ours")
        (folder / "file").chmod(0o666)
    (hostile.folder / "link").symlink_to(judge / "file")
    changes = "echo x > $f/file; echo x > $f/new; rm $f/file; mv $f/file $f/other"
    hostile.run("sh", "-c", f"for f in {home} {judge}; do {changes}; done; echo x > link", readable=(judge,))
    for folder in (home, judge):
        assert [path.name for path in folder.iterdir()] == ["file"]
        assert (folder / "file").read_text() == "ours"


def test_nobody_is_reached(hostile: Room, tmp_path: Path) -> None:
    """By TCP, by UDP, by sockets in the file system and by sockets with names of their own."""
    path, name = tmp_path / "s", f"\0warpsmith-test-{os.getpid()}"
    kinds = [
        (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
        (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
        (socket.AF_INET6, socket.SOCK_DGRAM, ("::1", 0)),
        (socket.AF_UNIX, socket.SOCK_STREAM, str(path)),
        (socket.AF_UNIX, socket.SOCK_DGRAM, name),
    ]
    servers = []
    for family, kind, address in kinds:
        servers.append(socket.socket(family, kind))
        servers[-1].bind(address)
        if kind == socket.SOCK_STREAM:
            servers[-1].listen()
    tries = [(int(server.family), int(server.type), server.getsockname()) for server in servers]
    code = TRY + (
        f"for family, kind, address in {tries!r}:\n"
        "    def reach():\n"
        "        with socket.socket(family, kind) as s: s.settimeout(5); s.connect(address); s.send(b'x')\n"
        "    attempt('reach', reach)\n"
    )
    try:
        status, text = hostile.python(code)
        assert (status, len(text.splitlines())) == (0, len(servers)), text
        for server, (_, kind, _) in zip(servers, kinds, strict=True):
            server.setblocking(False)
            with pytest.raises(BlockingIOError):
                server.accept() if kind == socket.SOCK_STREAM else server.recv(1)
    finally:
        for server in servers:
            server.close()


def test_sockets_that_no_network_holds_are_refused(hostile: Room) -> None:
    """Packets, and the sockets by which a virtual machine talks to its host: a network of one's own does not cover those."""
    if hostile.isolation.name == "docker":
        pytest.skip("the engine's own filter decides")
    code = (
        TRY
        + "for name in ('AF_PACKET', 'AF_VSOCK', 'AF_ALG'): attempt(name, lambda: socket.socket(getattr(socket, name), 2))"
    )
    assert {line.split()[1] for line in hostile.python(code)[1].splitlines()} <= {"EPERM", "EAFNOSUPPORT"}


def test_dangerous_system_calls_are_refused(hostile: Room) -> None:
    calls = [
        "unshare",
        "mount",
        "bpf",
        "perf_event_open",
        "keyctl",
        "userfaultfd",
        "setns",
        "finit_module",
        "io_uring_setup",
    ]
    if hostile.isolation.name == "docker":
        calls.remove("io_uring_setup")  # engines before 25 allow it
    told = "".join(
        f"attempt('{name}', lambda: system_call({_number(name)}, 0x10000000, 0, 0, 0, 0))\n" for name in calls
    )
    status, text = hostile.python(TRY + told)
    assert (status, [line.split()[0] for line in text.splitlines()]) == (0, calls), text
    assert {line.split()[1] for line in text.splitlines()} <= {"EPERM", "ENOSYS"}, text


def test_honest_threads_and_processes_go_on_under_the_filter(room: Room) -> None:
    code = (
        "import multiprocessing, subprocess, threading\n"
        "thread = threading.Thread(target=print, args=('thread',)); thread.start(); thread.join()\n"
        "print(subprocess.run(['echo', 'program'], capture_output=True, text=True).stdout, end='')\n"
        "ends, fork = multiprocessing.Pipe(), multiprocessing.get_context('fork')\n"
        "process = fork.Process(target=ends[1].send, args=('pipe',))\n"
        "process.start(); print(ends[0].recv()); process.join()\n"
    )
    assert room.python(code) == (0, "thread\nprogram\npipe\n")


FLOODS = {
    "many files": "open(str(n), 'wb').write(bytes(1 << 20))",
    "files without a name": "f = open('f', 'wb', 0); f.write(bytes(1 << 20)); os.unlink('f'); kept.append(f)",
}


@pytest.mark.parametrize("flood", FLOODS)
def test_a_flood_of_files_is_stopped(room: Room, flood: str) -> None:
    if room.isolation.name == "docker" and flood != "many files":
        pytest.skip("files without a name are seen from inside only")
    code = f"import os, time\nkept = []\nfor n in range(3000):\n    {FLOODS[flood]}\n    time.sleep(0.01)\n"
    limits = Limits(file_bytes=2 << 20, disk_bytes=20 << 20, open_files=4096)
    status, text = room.python(code, limits=limits)
    assert status == -signal.SIGXFSZ, text


def test_what_was_there_before_is_no_flood(room: Room) -> None:
    (room.folder / "old").write_bytes(bytes(30 << 20))
    code = "import time\nopen('new', 'wb').write(bytes(1 << 20))\ntime.sleep(1)\n"
    assert room.python(code, limits=Limits(disk_bytes=20 << 20)) == (0, "")


def test_who_kills_its_keeper_is_gone_with_it(local_room: Room) -> None:
    """The daemon it leaves is nobody's child any more, and would live on."""
    (daemon,) = marks(1)
    code = (
        "import os, subprocess\n"
        f"subprocess.Popen(['setsid', 'sleep', '{daemon}'])\n"
        "try: os.kill(os.getppid(), 9)\n"
        "except OSError: pass\n"
    )
    process = local_room.start(str(PYTHON), "-c", code)
    process.wait(20)
    assert gone(daemon)


def test_those_above_are_spared_by_the_filter_alone() -> None:
    """Not every kernel's Landlock keeps signals in, and none keeps a program from slowing its user's others down."""
    code = f"""if True:
        import os, resource, signal, subprocess, sys
        sys.path.insert(0, {str(HARNESS)!r})
        from warpsmith_harness import linux, seccomp
        above = os.getppid()
        changes = {{
            "signal": lambda pid: os.kill(pid, 0),
            "group": lambda pid: os.kill(-pid, 0),
            "everybody": lambda pid: os.kill(-1, 0),
            "queue": lambda pid: signal.pidfd_send_signal(os.pidfd_open(pid), 0),
            "processors": lambda pid: os.sched_setaffinity(pid, os.sched_getaffinity(pid)),
            "policy": lambda pid: os.sched_setscheduler(pid, os.SCHED_OTHER, os.sched_param(0)),
            "priority": lambda pid: os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, pid)),
        }}
        def refused(pid):
            found = []
            for name, change in changes.items():
                try: change(pid)
                except PermissionError: found.append(name)
                except ProcessLookupError: pass  # no group is led by it
            return found
        print(*refused(above))
        linux.forbid_new_privileges()
        seccomp.restrict(above=[above])
        print(*(name for name in changes if name in refused(above)))
        child = subprocess.Popen(["sleep", "60"], start_new_session=True)
        print(*refused(child.pid))
        os.kill(os.getpid(), 0)
        child.kill()
    """
    seen = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60, start_new_session=True
    )
    assert seen.stdout.splitlines() == ["", "signal group everybody queue processors policy priority", "everybody"]


def test_a_filter_for_another_processor_is_as_good() -> None:
    """The filter for aarch64, run by hand: each refused call, each allowed one, and one of another architecture."""
    from warpsmith_harness import seccomp

    filtered = seccomp.assemble(1, 0xC00000B7, families=[socket.AF_UNIX], looking=False, above=[7])

    def run(number: int, *arguments: int, architecture: int = 0xC00000B7) -> int:
        return _run_filter(filtered, number, architecture, arguments)

    refused, allowed = 0x00050000 | errno.EPERM, 0x7FFF0000
    assert [run(number) for number in (117, 97, 40, 425, 241)] == [refused] * 5
    assert [run(number) for number in (64, 63, 222, 29)] == [allowed] * 4
    assert run(64, architecture=0xC000003E) == refused
    assert (run(220, 0x10000011), run(220, 0x11), run(435)) == (refused, allowed, 0x00050000 | errno.ENOSYS)
    assert (run(198, socket.AF_INET), run(198, socket.AF_UNIX)) == (refused, allowed)
    assert (run(92, 0xFFFFFFFF), run(92, 0x0400000)) == (allowed, refused)
    assert [run(129, pid & 0xFFFFFFFF) for pid in (7, -7, -1, 8, 0)] == [refused] * 3 + [allowed] * 2
    assert [run(140, of, pid) for of, pid in ((0, 7), (1, 7), (2, 8), (0, 8), (1, 0))] == [refused] * 3 + [allowed] * 2


def _run_filter(program: list[bytes], number: int, architecture: int, arguments: Sequence[int]) -> int:
    """Interpret the few instructions that our filters are made of, as the kernel would."""
    import struct

    data = {0: number, 4: architecture, **{16 + 8 * place: value for place, value in enumerate((*arguments, 0, 0))}}
    at, value = 0, 0
    while True:
        code, if_true, if_false, constant = struct.unpack("=HBBI", program[at])
        at += 1
        if code == 0x20:
            value = data[constant]
        elif code == 0x06:
            return int(constant)
        else:
            holds = {0x15: value == constant, 0x35: value >= constant, 0x45: bool(value & constant)}[code]
            at += if_true if holds else if_false


def _number(name: str) -> int:
    """Return the number of a system call on this machine."""
    from warpsmith_harness import seccomp

    column = ["x86_64", "aarch64"].index(platform.machine())
    return int({**seccomp._REFUSED, **seccomp._LOOKING_INTO_OTHERS}[name][column] or -1)

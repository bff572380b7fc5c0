"""Enter an isolated cell from a freshly forked, single-threaded process.

``enter`` turns the process that calls it into a stand-in and returns in a new process that is isolated:

    stand-in   the process the caller started and waits for; ends as the payload ended, and takes everything with it
    └── init   reaps orphans; first process of the PID namespace, or subreaper (level ``limits``)
        └── payload   where ``enter`` returns

Level ``namespaces`` gives the payload a root of its own (``private_root``), no network but an idle loopback, no view of other
processes, no capability, and as root another user. Killing the stand-in kills all of it, however it was forked.
Level ``bubblewrap`` gives it the same through that program, which executes another interpreter: for programs, not for workers.
Level ``limits`` gives it a session, a user (as root, where the paths allow it), resource limits and, where the kernel has it,
Landlock, which closes other files to it. It sees other processes.
At every level seccomp refuses system calls that no kernel needs; at level ``limits`` with them every network.
"""

# Paths are strings here, as the system calls take them.
# ruff: noqa: PTH123, PTH208

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import shutil
import signal
import tempfile
from collections.abc import Iterator
from types import FrameType
from typing import Any, NoReturn

from warpsmith_harness import bubblewrap, landlock, linux, private_root, rights, seccomp
from warpsmith_harness.bounds import Bounds
from warpsmith_harness.control_group import ControlGroup
from warpsmith_harness.disk import DiskWatch
from warpsmith_harness.processes import ancestors, count_tasks, kill_descendants

REFUSED = 125
"""Exit status of a process that could not enter."""

_NAMESPACES = linux.CLONE_NEWIPC | linux.CLONE_NEWNET | linux.CLONE_NEWUTS | linux.CLONE_NEWPID
_FATAL = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM)
_READY = "ready"
_LOOK_SECONDS = 0.25
_LONG = 1e6
_PROGRAMS = {"PATH": "/usr/local/bin:/usr/bin:/bin"}


class IsolationRefused(OSError):
    """The kernel refused a step of the isolation; nothing was left behind. The message names the step."""


class _Stopped(Exception):
    """The stand-in was told to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def enter(cell: dict[str, Any]) -> None:
    """Return in a new, isolated process; the calling process waits for it and ends as it ends.

    Args:
        cell: ``Isolation.worker_cell(...)``: level, readable, writable, hidden, cwd, env, gpu and limits; optionally ``housed``,
            which says that it lies in a container that others of its user share; and optionally ``lifeline``, a socket that is
            told ``ready`` and whose end ends the cell. Without one, the cell ends with the thread that forked the caller.

    Raises:
        IsolationRefused: In the calling process, when the cell cannot be entered.
    """
    standing = (os.geteuid(), os.getegid())
    reports, report = os.pipe()
    watched, watch = os.pipe()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    ours = cell["level"] == "namespaces" and _leave_namespaces(standing)
    linux.adopt_orphans()  # of init, if something kills that
    init = os.fork()
    if init:
        os.close(report)
        os.close(watched)
        _stand_in(init, reports, watch, cell)
    os.close(reports)
    os.close(watch)
    bounded = _await_watch(watched, cell)
    if cell["level"] == "bubblewrap":
        _execute_bubblewrap(cell, report, bounded, standing[0])
    _finish_entry(cell, report, bounded, standing[0], in_own_namespace=ours)


def _await_watch(watched: int, cell: dict[str, Any]) -> list[str]:
    """Wait until the stand-in watches, before anything else is started; return what a control group bounds."""
    linux.set_dumpable(False)
    linux.signal_when_parent_dies(signal.SIGTERM if cell["level"] == "limits" else signal.SIGKILL)
    said = os.read(watched, 64)
    if not said:
        os._exit(REFUSED)  # the stand-in died before it could watch
    os.close(watched)
    return said.decode().split()


def _finish_entry(cell: dict[str, Any], report: int, bounded: list[str], user: int, *, in_own_namespace: bool) -> None:
    """Become init and fork the payload; returns in the payload."""
    with _reporting(report):
        _become_init(cell, report, bounded, user, in_own_namespace=in_own_namespace)
        _become_payload(cell, user, in_own_namespace=in_own_namespace)
    _tell(report, _READY)
    os.close(report)


def _execute_bubblewrap(cell: dict[str, Any], report: int, bounded: list[str], user: int) -> NoReturn:
    """Let bubblewrap make namespaces and root, and execute ``cell["inside"]``, where None stands for what ``go_on`` takes."""
    with _reporting(report):
        os.close(cell["lifeline"])
        state = os.memfd_create("state", 0)
        errors = os.dup(2)
        os.write(state, json.dumps([cell, report, bounded, errors, user]).encode())
        os.lseek(state, 0, os.SEEK_SET)
        for descriptor in (report, errors):
            os.set_inheritable(descriptor, True)
        inside = [str(state) if part is None else part for part in cell["inside"]]
        command = [bubblewrap.PROGRAM, *bubblewrap.arguments(cell, user), *inside]
        os.dup2(report, 2)  # its complaints are reports
        os.execvpe(command[0], command, _PROGRAMS)  # noqa: S606  (there is no shell to want)


def go_on(state: int) -> None:
    """Return in a new process, the payload, after bubblewrap executed this one; ``state`` is the descriptor it was given."""
    with os.fdopen(state) as file:
        cell, report, bounded, errors, user = json.load(file)
    os.dup2(errors, 2)
    os.close(errors)
    linux.set_dumpable(False)
    _finish_entry(cell, report, bounded, user, in_own_namespace=user != 0)


def _leave_namespaces(standing: tuple[int, int]) -> bool:
    """Enter new namespaces; return whether that took a user namespace, which only an ordinary user needs."""
    step = "new namespaces"
    try:
        if standing[0] == 0:
            linux.unshare(_NAMESPACES)
            return False
        linux.set_dumpable(True)
        linux.unshare(_NAMESPACES | linux.CLONE_NEWUSER)
        step = "mapping the user into a new namespace"
        for name, text in (("setgroups", "deny"), ("uid_map", "{0} {0} 1"), ("gid_map", "{1} {1} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text.format(*standing))
    except OSError as error:
        raise IsolationRefused(f"{step} refused: {error.strerror}") from error
    return True


# --- the stand-in --------------------------------------------------------------------------------------------------


def _stand_in(init: int, reports: int, watch: int, cell: dict[str, Any]) -> NoReturn:
    """Wait for the cell's end, or end it when told to; then end the same way."""
    lifeline = cell.get("lifeline")
    group = ControlGroup(cell["limits"])
    try:
        _end_on_signals(cell)
        group.add(init)
        with contextlib.suppress(BrokenPipeError):
            os.write(watch, " ".join(group.bounds).encode() + b"\n")
        said = _await_line(reports, lifeline)
        if said == _READY:
            signal.setitimer(signal.ITIMER_REAL, cell["limits"].get("seconds") or 0)
            if lifeline is not None:
                os.write(lifeline, b"ready\n")
            _close_all_but(reports, watch, lifeline)
            said = _await_line(reports, lifeline)
        _stop(init, cell, group)
    except _Stopped as stopped:
        _stop(init, cell, group)
        _end_by(stopped.number)
    kind, _, rest = said.partition(" ")
    if kind in ("error", f"{bubblewrap.PROGRAM}:"):
        raise IsolationRefused(said if kind != "error" else rest)
    _end_as(int(rest) if kind == "exit" else signal.SIGKILL)


def _end_on_signals(cell: dict[str, Any]) -> None:
    def stop(number: int, _: FrameType | None) -> NoReturn:
        raise _Stopped(number)

    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for number in _FATAL:
        signal.signal(number, stop)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    linux.set_dumpable(False)
    if cell.get("lifeline") is None:
        linux.signal_when_parent_dies(signal.SIGTERM)


def _await_line(reports: int, lifeline: int | None) -> str:
    """Return the next report, empty if there is none; the lifeline's end stops the cell."""
    poll = select.poll()
    poll.register(reports, select.POLLIN)
    if lifeline is not None:
        poll.register(lifeline, select.POLLIN)
    said = bytearray()
    while True:
        for descriptor, _ in poll.poll():
            if descriptor != reports:
                raise _Stopped(signal.SIGKILL)
            byte = os.read(reports, 1)
            if byte in (b"", b"\n"):
                return said.decode(errors="replace")
            said += byte


def _stop(init: int, cell: dict[str, Any], group: ControlGroup) -> None:
    """End the cell and wait until every process of it is gone."""
    for number in _FATAL:
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(ProcessLookupError):
        os.kill(init, signal.SIGTERM if cell["level"] == "limits" else signal.SIGKILL)
    os.waitpid(init, 0)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)  # raises where nothing is left, which is nearly always
        kill_descendants()
    group.remove()


def _end_as(status: int) -> NoReturn:
    """End as a process with that wait status ended."""
    if os.WIFSIGNALED(status):
        _end_by(os.WTERMSIG(status))
    os._exit(os.WEXITSTATUS(status))


def _end_by(number: int) -> NoReturn:
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(128 + number)


def _close_all_but(*kept: int | None) -> None:
    """Close every descriptor but these, so that pipes of the payload end when the payload does."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in kept:
            with contextlib.suppress(OSError):
                os.close(int(name))


# --- init and payload ----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _reporting(report: int) -> Iterator[None]:
    """The boundary of init and of the payload's set-up: whatever is raised is told to the stand-in."""
    try:
        yield
    except BaseException as error:
        _tell(report, f"error {_in_words(error)}")
        os._exit(REFUSED)


def _in_words(error: BaseException) -> str:
    """Return what an error says, without the number that the system calls begin with."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return str(error)


def _tell(report: int, line: str) -> None:
    with contextlib.suppress(BrokenPipeError):
        os.write(report, line.replace("\n", " ").encode() + b"\n")


def _become_init(cell: dict[str, Any], report: int, bounded: list[str], user: int, *, in_own_namespace: bool) -> None:
    """Prepare what the payload will see, fork it and reap what it leaves. Returns only in the payload."""
    level = cell["level"]
    scratch = None
    if level == "namespaces":
        # Not earlier: a new root becomes that of every process in the mount namespace, and the stand-in needs the old one.
        linux.unshare(linux.CLONE_NEWNS)
        linux.raise_loopback()
        private_root.build(cell, user if cell["user"] is None else cell["user"])
        if in_own_namespace:
            # Another user namespace would give back capabilities, and with them more of the kernel to attack.
            with open("/proc/sys/user/max_user_namespaces", "w") as file:
                file.write("0")
    elif level == "limits":
        linux.adopt_orphans()
        scratch = tempfile.mkdtemp(prefix="warpsmith-")
        cell["env"] = {"TMPDIR": scratch, "HOME": scratch, **cell["env"]}
        if cell["user"] is not None:
            os.chown(scratch, cell["user"], cell["user"])
    payload = os.fork()
    if payload:
        limits = cell["limits"]
        memory = None if "memory" in bounded else limits.get("memory_bytes")
        # The kernel counts the processes of every user but root, in a container together with those of others that it hides.
        uncounted = cell.get("housed") or (user == 0 and cell["user"] is None)
        tasks = limits.get("processes") if "processes" not in bounded and uncounted else None
        folders = [*cell["writable"], *([scratch] if scratch else [])]
        _reap(payload, report, scratch, Bounds(memory, tasks, DiskWatch(folders, limits.get("disk_bytes"))))


def _reap(payload: int, report: int, scratch: str | None, bounds: Bounds) -> NoReturn:
    """Wait for the payload, collecting every orphan on the way, and report its status; kill it over its limits."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD, signal.SIGTERM])
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _close_all_but(report)
    status = _await_payload(payload, bounds)
    if scratch is not None:
        kill_descendants()
        shutil.rmtree(scratch, ignore_errors=True)
    _tell(report, f"exit {status}")
    os._exit(0)


def _await_payload(payload: int, bounds: Bounds) -> int:
    """Return the payload's wait status; or that of how it shall end, told to or over its bounds."""
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == payload:
            return status
        if pid:
            continue
        seen = signal.sigtimedwait([signal.SIGCHLD, signal.SIGTERM], _LOOK_SECONDS if bounds.needed else _LONG)
        if seen is not None and seen.si_signo == signal.SIGTERM:
            return signal.SIGKILL
        if number := bounds.exceeded():
            return number


def _become_payload(cell: dict[str, Any], user: int, *, in_own_namespace: bool) -> None:
    """Take everything from this process that the payload shall not have."""
    os.setsid()
    _limit(cell, user, in_own_namespace=in_own_namespace)
    linux.drop_bounding_capabilities()
    if cell["user"] is not None and user == 0:
        os.setgroups([])
        os.setresgid(cell["user"], cell["user"], cell["user"])
        os.setresuid(cell["user"], cell["user"], cell["user"])
    linux.drop_capabilities()
    linux.forbid_new_privileges()
    linux.set_dumpable(True)
    linux.signal_when_parent_dies(signal.SIGKILL)
    os.umask(0o022)
    os.environ.clear()
    os.environ.update(cell["env"])
    tempfile.tempdir = None  # it was found in the environment before
    alone = cell["level"] != "limits"
    if not alone:
        landlock.restrict(rights.paths(cell))
    os.chdir(cell["cwd"])
    above = () if alone else ancestors()
    seccomp.restrict(families=rights.families(cell), looking=alone and cell["gpu"], above=above)


def _data_bytes() -> int:
    """Return what this process's data takes so far, shared with the one it was forked from: torch alone may take 700 MB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[5]) * resource.getpagesize()


def _limit(cell: dict[str, Any], user: int, *, in_own_namespace: bool) -> None:
    """Set resource limits; the tasks of a user who is not the cell's alone are counted together with all others."""
    limits = cell["limits"]
    wanted = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: limits.get("file_bytes"),
        resource.RLIMIT_NOFILE: limits.get("open_files"),
    }
    if limits.get("memory_bytes") and not (cell["gpu"] or limits.get("sparse")):
        # A CUDA context maps far more than it uses, and so does a sanitizer: there only the control group can bound it.
        wanted[resource.RLIMIT_DATA] = _data_bytes() + limits["memory_bytes"]
    if limits.get("processes") and not cell.get("housed"):
        alone = in_own_namespace or cell["user"] is not None
        already = 0 if alone else count_tasks(user)
        wanted[resource.RLIMIT_NPROC] = already + limits["processes"]
    if limits.get("seconds"):
        wanted[resource.RLIMIT_CPU] = int(limits["seconds"] * (os.cpu_count() or 1)) + 1
    for kind, value in wanted.items():
        if value is not None:
            _, hard = resource.getrlimit(kind)
            value = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(kind, (value, value))

"""Run a program in a container and end as it ends: ``python -I container.py CELL_FD LIFELINE_FD PROGRAM [ARGUMENT...]``.

``CELL_FD`` and ``LIFELINE_FD`` are as for ``enter.py``. This process passes the standard streams on; at its end, or at that of
the lifeline, the container is removed. Containers whose process was killed are swept away by the next.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import socket
import struct
import sys
import tarfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import docker
import requests
from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from docker.models.containers import Container
from docker.types import DeviceRequest, LogConfig, Mount, Ulimit

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "harness"))

from warpsmith_harness.disk import DiskWatch
from warpsmith_harness.isolate import REFUSED
from warpsmith_harness.private_root import plan

NOBODY = 65534
IMAGE = f"warpsmith-cell:1-{os.getuid()}"
LABEL = "warpsmith.process"
_DOCKERFILE = Path(__file__).with_name("Dockerfile")
_FOLDERS = ("usr", "etc", "tmp", "proc", "sys", "dev", "run", "root", "var/tmp", "sbin")
_FATAL = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM, signal.SIGXFSZ)
_SIGNALS_FROM = 128
_REMOVAL_SECONDS = 20.0
_STDERR = 2
_GPU = ["gpu", "compute", "utility"]
_LOOK_SECONDS = 0.25


def main(cell_fd: int, lifeline: int, argv: list[str]) -> NoReturn:
    """Run ``argv`` in a container; does not return."""
    with os.fdopen(cell_fd, "rb") as file:
        cell = json.load(file)
    for number in _FATAL:
        signal.signal(number, _stop)
    container, stream, status = None, None, 0
    try:
        try:
            client = docker.from_env(timeout=60)
            _sweep(client)
            _ensure_image(client)
            container = client.containers.create(IMAGE, argv, **_options(cell))
            stream = _attach(client, container)
            container.start()
        except (DockerException, requests.RequestException) as error:
            os.write(lifeline, f"refused {_explain(error)}\n".encode())
            os._exit(REFUSED)
        os.write(lifeline, b"ready\n")
        signal.setitimer(signal.ITIMER_REAL, cell["limits"].get("seconds") or 0)
        _beside(_watch, lifeline)
        _beside(_tell_process, container.id, lifeline)
        _beside(_feed, stream)
        _beside(_bound, cell)
        _pass_output(stream)
        status = int(container.wait(timeout=60)["StatusCode"])
    except _Stopped as stopped:
        status = _SIGNALS_FROM + stopped.number
    finally:
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.shutdown(socket.SHUT_RDWR)  # closing alone ends it when all that refers to it has been collected
            stream.close()  # the engine waits for whoever does not take an output
        _remove(container)
    _end_as(status)


class _Stopped(Exception):
    """This process was told to end, or its lifeline did."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def _stop(number: int, _: FrameType | None) -> NoReturn:
    raise _Stopped(number)


def _end_as(status: int) -> NoReturn:
    """End as the program did; the engine tells a signal as 128 and its number."""
    number = status - _SIGNALS_FROM
    if number in signal.valid_signals():
        with contextlib.suppress(OSError):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(status)


def _explain(error: Exception) -> str:
    """Say in a line what the engine did not do."""
    text = " ".join(str(getattr(error, "explanation", None) or error).split())
    if isinstance(error, APIError) and "could not select device driver" in text:
        return "Docker cannot hand out GPUs here: install nvidia-container-toolkit"
    if isinstance(error, APIError):
        return f"Docker refused the container: {text}"
    engine = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    known = {
        "FileNotFoundError": "there is no such socket",
        "ConnectionRefusedError": "nothing listens there",
        "PermissionError": "this user may not use it",
    }
    return f"no Docker engine answers at {engine}: {next((known[name] for name in known if name in text), text)}"


# --- the container -------------------------------------------------------------------------------------------------


def _options(cell: dict[str, Any]) -> dict[str, Any]:
    """Return what a container is created with: nothing it does not need, and bounds on everything it has."""
    limits = cell["limits"]
    mounts, covered = _mounts(cell)
    ulimits = {"core": 0, "nofile": limits.get("open_files"), "fsize": limits.get("file_bytes")}
    return {
        "mounts": mounts,
        "tmpfs": {"/tmp": "rw,exec,nosuid,nodev,mode=1777,size=4g", **dict.fromkeys(covered, "ro,size=4k")},  # noqa: S108
        "user": f"{cell['user']}:{cell['group']}",
        "environment": cell["env"],
        "working_dir": cell["cwd"],
        "network_mode": "none",
        "read_only": True,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
        "ipc_mode": "private",
        "init": True,
        "stdin_open": True,
        "log_config": LogConfig(type="none"),
        "labels": {LABEL: str(os.getpid())},
        "mem_limit": limits.get("memory_bytes"),
        "memswap_limit": limits.get("memory_bytes"),
        "pids_limit": limits.get("processes"),
        "shm_size": "1g",
        "ulimits": [Ulimit(name=name, soft=value, hard=value) for name, value in ulimits.items() if value is not None],
        "device_requests": [DeviceRequest(count=-1, capabilities=[_GPU])] if cell["gpu"] else None,
    }


def _mounts(cell: dict[str, Any]) -> tuple[list[Mount], list[str]]:
    """Return the binds of a cell, under the names they have outside, and the folders inside them to cover."""
    mounts, covered = [], []
    for place in plan({**cell, "gpu": False})[1]:
        if place.path.startswith("/sys/"):
            continue  # the engine mounts one
        if place.way != "hide":
            mounts.append(Mount(place.path, place.path, type="bind", read_only=place.way == "read"))
        elif os.path.isdir(place.path):  # noqa: PTH112  (as the plan has it)
            covered.append(place.path)
        else:
            mounts.append(Mount(place.path, os.devnull, type="bind", read_only=True))
    return mounts, covered


def _ensure_image(client: docker.DockerClient) -> None:
    """Build the image where it is missing; that takes no registry."""
    with contextlib.suppress(ImageNotFound):
        client.images.get(IMAGE)
        return
    client.images.build(fileobj=_context(), custom_context=True, tag=IMAGE, rm=True)


def _context() -> io.BytesIO:
    """Return what the image is built from: the Dockerfile, and the empty folders and links it adds."""
    root = io.BytesIO()
    with tarfile.open(fileobj=root, mode="w") as tar:
        for name in _FOLDERS:
            _add(tar, name, kind=tarfile.DIRTYPE, mode=0o1777 if name.endswith("tmp") else 0o755)
        for path in ("/bin", "/lib", "/lib32", "/lib64", "/libx32"):
            if os.path.islink(path):  # noqa: PTH114
                _add(tar, path[1:], kind=tarfile.SYMTYPE, target=os.readlink(path))  # noqa: PTH115
        user = f"warpsmith:x:{os.getuid() or NOBODY}:{os.getgid() or NOBODY}::/tmp:/bin/sh"
        _add(tar, "etc/passwd", content=f"root:x:0:0::/root:/bin/sh\n{user}\n")
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as tar:
        _add(tar, "Dockerfile", content=_DOCKERFILE.read_text())
        _add(tar, "root.tar", content=root.getvalue())
    context.seek(0)
    return context


def _add(
    tar: tarfile.TarFile,
    name: str,
    *,
    content: str | bytes = b"",
    kind: bytes = tarfile.REGTYPE,
    mode: int = 0o644,
    target: str = "",
) -> None:
    data = content.encode() if isinstance(content, str) else content
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.linkname, entry.size = kind, mode, target, len(data)
    tar.addfile(entry, io.BytesIO(data))


def _sweep(client: docker.DockerClient) -> None:
    """Remove containers whose process is gone."""
    for container in client.containers.list(all=True, filters={"label": LABEL}):
        if not Path(f"/proc/{container.labels[LABEL]}").exists():
            with contextlib.suppress(APIError):  # another one may be sweeping
                container.remove(force=True, v=True)


def _remove(container: Container | None) -> None:
    """Remove a container; a busy machine may refuse that for a moment."""
    for number in _FATAL:
        signal.signal(number, signal.SIG_IGN)
    deadline = time.monotonic() + _REMOVAL_SECONDS
    while container is not None and time.monotonic() < deadline:
        try:
            container.remove(force=True, v=True)
        except NotFound:
            return
        except (DockerException, requests.RequestException):
            time.sleep(0.1)


# --- its streams ---------------------------------------------------------------------------------------------------


def _attach(client: docker.DockerClient, container: Container) -> Any:
    """Return a socket to the streams of a container that is not started yet."""
    parameters = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
    attached = client.api.attach_socket(str(container.id), parameters)
    stream = getattr(attached, "_sock", attached)
    stream.settimeout(None)
    return stream


def _beside(work: Callable[..., None], *arguments: object) -> None:
    """Start a thread that takes no signals, because only the main thread can be interrupted by one."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _FATAL)
    threading.Thread(target=work, args=arguments, daemon=True).start()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _FATAL)


def _watch(lifeline: int) -> None:
    """Stop this process when the lifeline ends, even while nobody takes what it passes on."""
    with contextlib.suppress(ConnectionResetError):  # it was closed before what it was told had been read
        os.read(lifeline, 1)
    os.kill(os.getpid(), signal.SIGTERM)


def _tell_process(container: str, lifeline: int) -> None:
    """Tell the id of the container's process; of one that has ended the engine tells only once somebody took its output."""
    with contextlib.suppress(DockerException, requests.RequestException, OSError):
        about = docker.from_env(timeout=60).api.inspect_container(container)
        os.write(lifeline, f"{about['State']['Pid']}\n".encode())


def _bound(cell: dict[str, Any]) -> None:
    """Stop this process when more was written than the cell may."""
    disk = DiskWatch(cell["writable"], cell["limits"].get("disk_bytes"))
    while disk.needed and not disk.exceeded():
        time.sleep(_LOOK_SECONDS)
    if disk.needed:
        os.kill(os.getpid(), signal.SIGXFSZ)


def _pass_output(stream: socket.socket) -> None:
    """Pass both outputs on until the program's end; each piece comes with its stream and its size before it."""
    head = b""
    while piece := stream.recv(8 - len(head)):
        head += piece
        if len(head) == 8:
            target, size = struct.unpack(">BxxxL", head)
            _copy(stream, _STDERR if target == _STDERR else 1, size)
            head = b""


def _copy(stream: socket.socket, target: int, size: int) -> None:
    while size and (piece := stream.recv(min(size, 1 << 16))):
        size -= len(piece)
        view = memoryview(piece)
        while view:
            view = view[os.write(target, view) :]


def _feed(stream: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := os.read(0, 1 << 16):
            stream.sendall(piece)
        stream.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])

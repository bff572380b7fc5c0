"""The same file system as ``private_root`` makes, told to bubblewrap: for machines that let only that program have namespaces."""

# Paths are strings here, as the program takes them.
# ruff: noqa: PTH112, PTH208

from __future__ import annotations

import os
from typing import Any

from warpsmith_harness.private_root import SHM_BYTES, is_gpu_device, nearest, parents, plan, tmp_bytes, users

PROGRAM = "bwrap"

_HIDDEN_BYTES = 4096


def arguments(cell: dict[str, Any], user: int) -> list[str]:
    """Return what to call bubblewrap with, before the program it shall run as the first of its PID namespace.

    The data of small files is in descriptors that the call inherits.

    Args:
        cell: As for ``private_root.build``.
        user: Who calls. An ordinary user needs a user namespace; root's program stays root, to become another user itself.
    """
    links, places = plan(cell)
    told = [
        "--unshare-ipc",
        "--unshare-net",
        "--unshare-pid",
        "--unshare-uts",
        "--unshare-cgroup-try",
        "--die-with-parent",
    ]
    told += ["--as-pid-1", *(["--unshare-user"] if user else []), "--proc", "/proc", *_devices(cell)]
    told += _tmpfs("/tmp", "1777", tmp_bytes(cell))  # noqa: S108  (the private one)
    made = {"/proc", "/dev", "/tmp"}  # noqa: S108
    for place in places:
        told += _way_there(place.path, made)
        if place.way != "hide":
            told += ["--ro-bind" if place.way == "read" else "--bind", place.path, place.path]
        elif os.path.isdir(place.path):
            told += _tmpfs(place.path, "0755", _HIDDEN_BYTES)
        else:
            told += _file("", place.path)
    for link, target in links:
        above = nearest(link, places)
        if above and above.way != "hide":
            continue  # it is seen there
        told += [*_way_there(link, made), "--symlink", target, link]
    told += _way_there("/etc/passwd", made)
    for path, text in users(user if cell["user"] is None else cell["user"]).items():
        told += _file(text, path)
    covered = [place.path for place in places if place.way == "hide" and os.path.isdir(place.path)]
    return [*told, *(part for path in (*covered, "/dev", "/") for part in ("--remount-ro", path))]


def _devices(cell: dict[str, Any]) -> list[str]:
    names = sorted(filter(is_gpu_device, os.listdir("/dev"))) if cell["gpu"] else []
    nodes = [part for name in names for part in ("--dev-bind", f"/dev/{name}", f"/dev/{name}")]
    return ["--dev", "/dev", *nodes, *_tmpfs("/dev/shm", "1777", SHM_BYTES)]  # noqa: S108  (the private one)


def _tmpfs(path: str, mode: str, size: int) -> list[str]:
    return ["--perms", mode, "--size", str(size), "--tmpfs", path]


def _file(text: str, path: str) -> list[str]:
    """Return how to make a small file that is only read; bubblewrap takes its content from a descriptor."""
    descriptor = os.memfd_create("file", 0)
    os.write(descriptor, text.encode())
    os.lseek(descriptor, 0, os.SEEK_SET)
    return ["--perms", "0444", "--ro-bind-data", str(descriptor), path]


def _way_there(path: str, made: set[str]) -> list[str]:
    """Return how to make the folders above a path: those that bubblewrap makes by itself are closed to other users."""
    missing = [folder for folder in parents(path) if folder not in made]
    made.update(missing)
    return [part for folder in missing for part in ("--perms", "0755", "--dir", folder)]

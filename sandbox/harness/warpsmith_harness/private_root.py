"""A file system of its own for a process: an empty root into which only what it may see is bound.

Every path is visible under the name it has outside, so that compiler messages, virtual environments and imports stay
as they are. Built after ``unshare`` by the first process of the new namespaces.
"""

# Paths are strings here, as the system calls take them.
# ruff: noqa: PTH102, PTH103, PTH106, PTH110, PTH112, PTH114, PTH115, PTH116, PTH118, PTH120, PTH123, PTH208, PTH211

from __future__ import annotations

import os
import re
import stat
from typing import Any, NamedTuple

from warpsmith_harness import linux

_OLD = "/.old"
_EMPTY = "/.empty"
SYSTEM = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/run/current-system", "/opt/cuda",
    "/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime",
    "/etc/nsswitch.conf", "/sys/devices/system",
)  # fmt: skip
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_LINKS = {"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"}
_KEPT_FLAGS = {
    "nosuid": linux.MS_NOSUID, "nodev": linux.MS_NODEV, "noexec": linux.MS_NOEXEC, "noatime": linux.MS_NOATIME,
    "nodiratime": linux.MS_NODIRATIME, "relatime": linux.MS_RELATIME, "ro": linux.MS_RDONLY,
}  # fmt: skip
_SMALL_TMPFS = "mode=755,size=4m"
_MOST_TMP_BYTES = 4 * 1024**3
SHM_BYTES = 1024**3


class _Place(NamedTuple):
    """A path of the new root: ``read`` or ``write`` it as it is outside, or ``hide`` what is there."""

    path: str
    way: str


def build(cell: dict[str, Any], user: int) -> None:
    """Build the root described by ``cell`` and make it this process's; ``user`` gets an entry in ``/etc/passwd``.

    Raises:
        OSError: The kernel refused a step; its message names the step and the path.
    """
    links, places = plan(cell)
    os.umask(0o022)
    linux.mount("", "/", flags=linux.MS_REC | linux.MS_PRIVATE)
    base = os.path.realpath("/tmp")  # noqa: S108  (any folder that surely exists would do: only its place is used)
    linux.mount("tmpfs", base, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, _SMALL_TMPFS)
    os.mkdir(base + _OLD)
    linux.pivot_root(base, base + _OLD)
    os.chdir("/")
    _mount_proc_and_tmp(cell)
    _make_devices(cell["gpu"])
    for place in places:
        if place.way == "hide":
            _hide(place.path)
        else:
            _bind(place.path)
    for link, target in links:
        _link(link, target)
    _write_users(user)
    _restrict(places)
    linux.unmount(_OLD)
    os.rmdir(_OLD)
    for built in ("/dev", "/"):
        linux.mount(
            "", built, flags=linux.MS_REMOUNT | linux.MS_BIND | linux.MS_RDONLY | linux.MS_NOSUID | linux.MS_NODEV
        )


def is_gpu_device(name: str) -> bool:
    """Whether an entry of ``/dev`` belongs to NVIDIA's driver, or to its counterpart on WSL2."""
    return name.startswith("nvidia") or name == "dxg"


def tmp_bytes(cell: dict[str, Any]) -> int:
    """Return how large the cell's private ``/tmp`` may grow."""
    return min(cell["limits"].get("memory_bytes") or _MOST_TMP_BYTES, _MOST_TMP_BYTES)


def users(user: int) -> dict[str, str]:
    """Return the files that give the user of a cell a name, by path: some programs refuse to run for a user without one."""
    return {
        "/etc/passwd": f"root:x:0:0:root:/root:/bin/sh\nwarpsmith:x:{user}:{user}::/tmp:/bin/sh\n",
        "/etc/group": f"root:x:0:\nwarpsmith:x:{user}:\n",
    }


def parents(path: str) -> list[str]:
    """Return the folders above a path, without the root.

    >>> parents("/a/b/c")
    ['/a', '/a/b']
    """
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(2, len(parts))]


def resolve(path: str) -> tuple[list[tuple[str, str]], str]:
    """Return the symbolic links met on the way along ``path``, with their targets, and the real path at its end."""
    links: list[tuple[str, str]] = []
    ahead = path.split("/")
    here = "/"
    while ahead:
        part = ahead.pop(0)
        if part in ("", "."):
            continue
        if part == "..":
            here = os.path.dirname(here)
            continue
        step = os.path.join(here, part)
        if not os.path.islink(step):
            here = step
            continue
        target = os.readlink(step)
        links.append((step, target))
        if len(links) > 40:
            raise OSError(f"too many symbolic links in {path}")
        here = "/" if target.startswith("/") else here
        ahead = target.split("/") + ahead
    return links, here


def plan(cell: dict[str, Any]) -> tuple[list[tuple[str, str]], list[_Place]]:
    """List links and places, parents first; what is missing is left out, and what a parent shows already is not repeated."""
    wanted = [(path, "hide") for path in cell.get("hidden", [])]
    wanted += [(path, "read") for path in (*SYSTEM, *cell["readable"])]
    if cell["gpu"]:
        wanted.append(("/sys", "read"))
    wanted += [(path, "write") for path in cell["writable"]]
    links: dict[str, str] = {}
    ways: dict[str, str] = {}
    for path, way in wanted:
        met, real = resolve(path)
        if real == "/":
            raise OSError(f"{path} is the whole file system: name the folders that are needed")
        if os.path.exists(real):
            links.update(met if way != "hide" else ())
            ways[real] = way
    if cell["user"] is not None:
        _open_up(ways, links, cell["user"])
    places: list[_Place] = []
    for path in sorted(ways, key=lambda each: each.count("/")):
        above = nearest(path, places)
        if (above.way if above else "hide") != ways[path]:
            places.append(_Place(path, ways[path]))
    return list(links.items()), places


def _open_up(ways: dict[str, str], links: dict[str, str], user: int) -> None:
    """Replace folders that are closed to the cell's user by open ones that show only what may be seen inside.

    Root's home, a temporary folder and a session are closed to everyone else, and the cell's user is somebody else.
    """
    shown = {path: way for path, way in ways.items() if way != "hide"}
    way_there = {folder for path in shown for folder in (path, *parents(path)) if _is_closed(folder, user)}
    ways.update(dict.fromkeys(way_there, "hide"))
    for folder in way_there & set(shown):
        for entry in os.scandir(folder):
            if entry.is_symlink():
                links.setdefault(entry.path, os.readlink(entry.path))
            else:
                ways.setdefault(entry.path, shown[folder])


def _is_closed(path: str, user: int) -> bool:
    """Whether a path is a folder that ``user``, who is in no group of others, cannot list and enter."""
    found = os.stat(path)
    needed = 0o500 if found.st_uid == user else 0o005
    return stat.S_ISDIR(found.st_mode) and found.st_mode & needed != needed


def nearest(path: str, places: list[_Place]) -> _Place | None:
    """Return the deepest place that ``path`` is, or lies in."""
    above = [place for place in places if path == place.path or path.startswith(place.path + "/")]
    return max(above, key=lambda place: len(place.path)) if above else None


def _hide(path: str) -> None:
    """Cover what lies inside a visible folder and must not be seen, by an empty folder or an empty file."""
    if os.path.isdir(path):
        linux.mount("tmpfs", path, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, _SMALL_TMPFS)
    elif os.path.exists(path):
        os.close(os.open(_EMPTY, os.O_CREAT | os.O_WRONLY, 0o444))
        linux.mount(_EMPTY, path, flags=linux.MS_BIND)


def _bind(path: str, source: str = "") -> None:
    """Make something of the old root visible at ``path``, with its missing parents open to everyone."""
    source = source or _OLD + path
    if not os.path.lexists(path):
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        if stat.S_ISDIR(os.stat(source).st_mode):
            os.mkdir(path, 0o755)
        else:
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))
    linux.mount(source, path, flags=linux.MS_BIND | linux.MS_REC)


def _link(path: str, target: str) -> None:
    if os.path.lexists(path):
        return
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    os.symlink(target, path)


def _mount_proc_and_tmp(cell: dict[str, Any]) -> None:
    guarded = linux.MS_NOSUID | linux.MS_NODEV
    os.mkdir("/proc", 0o755)
    linux.mount("proc", "/proc", "proc", guarded | linux.MS_NOEXEC)
    os.mkdir("/tmp", 0o755)  # noqa: S108  (the private one)
    linux.mount("tmpfs", "/tmp", "tmpfs", guarded, f"mode=1777,size={tmp_bytes(cell)}")  # noqa: S108


def _make_devices(gpu: bool) -> None:
    """Fill ``/dev`` with what every program may expect, and with the GPU's nodes where they are asked for."""
    os.mkdir("/dev", 0o755)
    linux.mount("tmpfs", "/dev", "tmpfs", linux.MS_NOSUID, _SMALL_TMPFS)
    names = list(DEVICES)
    if gpu:
        names += sorted(filter(is_gpu_device, os.listdir(_OLD + "/dev")))
    for name in names:
        if os.path.exists(f"{_OLD}/dev/{name}"):
            _bind(f"/dev/{name}")
    for name, target in _LINKS.items():
        os.symlink(target, f"/dev/{name}")
    os.mkdir("/dev/shm", 0o755)  # noqa: S108  (the private one)
    linux.mount("tmpfs", "/dev/shm", "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, f"mode=1777,size={SHM_BYTES}")  # noqa: S108


def _write_users(user: int) -> None:
    os.makedirs("/etc", 0o755, exist_ok=True)
    for path, text in users(user).items():
        with open(path, "w") as file:
            file.write(text)


def _restrict(places: list[_Place]) -> None:
    """Take set-user-id, devices and, where not asked for, writing away from every place and every mount inside one."""
    with open("/proc/self/mountinfo") as file:
        lines = [line.split() for line in file]
    for fields in lines:
        path = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[4])
        place = nearest(path, places)
        if place is None:
            continue
        flags = linux.MS_REMOUNT | linux.MS_BIND | linux.MS_NOSUID | linux.MS_NODEV
        for option in fields[5].split(","):
            flags |= _KEPT_FLAGS.get(option, 0)
        try:
            linux.mount("", path, flags=flags | (0 if place.way == "write" else linux.MS_RDONLY))
        except PermissionError:
            # A mount that cannot even be reached (someone's FUSE folder) cannot be written to either.
            if path == place.path:
                raise

"""The few Linux system calls that isolation needs and Python does not offer, through the C library."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import socket
import struct

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_REMOUNT = 32
MS_NOATIME = 1024
MS_NODIRATIME = 2048
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MS_RELATIME = 1 << 21

_MNT_DETACH = 2
_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_CAPABILITY_VERSION_3 = 0x20080522
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 1

_libc = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: object, about: str = "") -> int:
    """Call a C function; a negative result becomes an ``OSError`` that names the call and what it was about."""
    result = int(getattr(_libc, name)(*arguments))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, "{}: {}".format(f"{name}({about})", os.strerror(code)))
    return result


def _prctl(option: int, *values: int) -> None:
    padded = [ctypes.c_ulong(value) for value in (*values, 0, 0, 0, 0)[:4]]
    _call("prctl", ctypes.c_int(option), *padded, about=str(option))


def unshare(flags: int) -> None:
    """Leave the namespaces named by ``flags`` for new ones."""
    _call("unshare", ctypes.c_int(flags))


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """Mount ``source`` at ``target``; see ``mount(2)``."""
    texts = [os.fsencode(text) if text else None for text in (source, target, kind)]
    _call("mount", *texts, ctypes.c_ulong(flags), data.encode() or None, about=target)


def pivot_root(new: str, old: str) -> None:
    """Make ``new`` the root and move the present one to ``old`` below it."""
    _call("pivot_root", os.fsencode(new), os.fsencode(old), about=new)


def unmount(target: str) -> None:
    """Detach a mount with all below it."""
    _call("umount2", os.fsencode(target), ctypes.c_int(_MNT_DETACH), about=target)


def signal_when_parent_dies(number: int) -> None:
    """Ask for a signal at the end of the thread that forked this process; a change of user id clears it."""
    _prctl(_PR_SET_PDEATHSIG, number)


def set_dumpable(dumpable: bool) -> None:
    """Decide whether processes of the same user may look into this one."""
    _prctl(_PR_SET_DUMPABLE, int(dumpable))


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def forbid_new_privileges() -> None:
    """Make set-user-id programs and file capabilities void from here on."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def drop_bounding_capabilities() -> None:
    """Empty the bounding set, so that nothing executed later gains a capability; void without ``CAP_SETPCAP``."""
    for capability in range(64):
        try:
            _prctl(_PR_CAPBSET_DROP, capability)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EPERM):
                raise
            return


def drop_capabilities() -> None:
    """Give up every capability of this process: ambient, inheritable, permitted and effective."""
    _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    _call("capset", header, bytes(24))


def raise_loopback() -> None:
    """Switch the loopback interface of this network namespace on."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _IFF_UP))

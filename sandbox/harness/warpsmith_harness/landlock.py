"""Landlock: a process gives up reading and writing whatever it does not name, and TCP, without any privilege.

For machines that refuse namespaces. It does not cover UDP, nor looking at names and attributes of files; before version 4
of the interface it does not cover TCP either.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
from collections.abc import Iterable

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION = 1
_PATH_BENEATH = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_ALL_BY_VERSION = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
_ALL_TCP = 0b11
_ALL_SCOPES = 0b11

_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
LIST = _READ_DIR
READ = _EXECUTE | _READ_FILE | _READ_DIR
DEVICE = _READ_FILE | _WRITE_FILE | _TRUNCATE | _IOCTL_DEV | _READ_DIR
WRITE = ~0

_libc = ctypes.CDLL(None, use_errno=True)


def version() -> int:
    """Return the version of the kernel's interface, 0 if Landlock is missing or switched off."""
    return max(0, int(_libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_ASK_VERSION))))


def restrict(allowed: Iterable[tuple[str, int]]) -> bool:
    """Allow this process the given rights below the given paths, and nothing else; needs ``no_new_privs``.

    Args:
        allowed: Paths with ``LIST``, ``READ``, ``WRITE`` or ``DEVICE``; missing paths are passed over.

    Returns:
        Whether Landlock is there. Without it nothing has changed.
    """
    level = version()
    if level == 0:
        return False
    handled = _ALL_BY_VERSION[min(level, max(_ALL_BY_VERSION))]
    attributes = [handled, *([_ALL_TCP] if level >= 4 else []), *([_ALL_SCOPES] if level >= 6 else [])]
    packed = struct.pack(f"={len(attributes)}Q", *attributes)
    ruleset = _syscall(_CREATE_RULESET, packed, ctypes.c_size_t(len(packed)), ctypes.c_uint32(0))
    try:
        for path, rights in allowed:
            with contextlib.suppress(FileNotFoundError, PermissionError):
                _allow(ruleset, path, rights & handled)
        _syscall(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    finally:
        os.close(ruleset)
    return True


def _allow(ruleset: int, path: str, rights: int) -> None:
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not os.path.isdir(path):  # noqa: PTH112
            rights &= _ON_FILES
        rule = struct.pack("=Qi", rights, descriptor)
        _syscall(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(_PATH_BENEATH), rule, ctypes.c_uint32(0))
    finally:
        os.close(descriptor)


def _syscall(number: int, *arguments: object) -> int:
    result = int(_libc.syscall(ctypes.c_long(number), *arguments))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"landlock: {os.strerror(code)}")
    return result

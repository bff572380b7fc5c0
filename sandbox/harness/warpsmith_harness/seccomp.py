"""Seccomp: a process gives up system calls that no build and no kernel needs, with all it starts and without any privilege.

A refused call fails with ``EPERM``, so that a library that can do without it goes on. Refused are looking into other processes,
new namespaces and mounts, ``io_uring`` (which would go around this filter), ``bpf``, performance events, keys, kernel modules,
the clock, and sockets of families that are not named.

A filter is written for one processor: x86-64 and aarch64 are known, on others there is none. CUDA runs under the default filter
of Docker, which refuses all of this as well but for looking into processes and for sockets. NVIDIA's tools may look into what
they start, so that cells with a GPU and processes of their own keep those calls.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Iterable, Sequence
from typing import Dict, Optional, Tuple

_Numbers = Tuple[int, Optional[int]]
"""On x86-64 and on aarch64, from the kernel's tables; None where there is no such call."""

_REFUSED: Dict[str, _Numbers] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_settime": (227, 112),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "pivot_root": (155, 41),
    "quotactl": (179, 60),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
}
_LOOKING_INTO_OTHERS: Dict[str, _Numbers] = {
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "process_madvise": (440, 440),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
}
_ON_A_PROCESS: Dict[str, _Numbers] = {
    "kill": (62, 129),
    "pidfd_open": (434, 434),
    "prlimit64": (302, 261),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "tgkill": (234, 131),
    "tkill": (200, 130),
}
"""Calls that signal, bound or slow down a process, which their first argument names."""
_ON_ONE_OR_ALL: Dict[str, Tuple[_Numbers, int]] = {"ioprio_set": ((251, 30), 3), "setpriority": ((141, 140), 2)}
"""Such calls whose second argument names it, and the first argument with which they are about all processes of a user."""
_MOST_ABOVE = 32
_CLONE, _CLONE3, _PERSONALITY, _SOCKET = (56, 220), (435, 435), (135, 92), (41, 198)
_NEW_NAMESPACES = 0x7E020000
"""Every ``CLONE_NEW...`` flag that ``clone`` takes: mounts, control groups, names, IPC, users, processes, network."""
_PERSONALITIES = (0, 0x0040000, 0xFFFFFFFF)
"""The usual one, without address space randomisation as sanitizers want it, and the question for the present one."""

_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_FOREIGN_FROM = 0x40000000
"""Calls of the x32 interface, which have the same architecture and other numbers."""

_LOAD, _IF_EQUAL, _IF_AT_LEAST, _IF_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT, _SECOND_ARGUMENT = 0, 4, 16, 24
"""Offsets in ``struct seccomp_data``; the lower half of an argument comes first on both processors."""

_SECCOMP_CALL = (317, 277)
_SET_FILTER, _GET_ACTION = 1, 2
_ALLOW_SPECULATION = 1 << 2
_libc = ctypes.CDLL(None, use_errno=True)


def available() -> bool:
    """Return whether this kernel takes filters, and one is known for this processor."""
    machine = _MACHINES.get(platform.machine())
    if machine is None:
        return False
    action = ctypes.c_uint32(_REFUSE)
    return int(_libc.syscall(ctypes.c_long(_SECCOMP_CALL[machine[0]]), _GET_ACTION, 0, ctypes.byref(action))) == 0


def restrict(*, families: Optional[Iterable[int]] = None, looking: bool = False, above: Sequence[int] = ()) -> bool:
    """Refuse system calls to this process and all it starts; needs ``no_new_privs``, and one thread.

    Args:
        families: The families of sockets that may be made; without them, all. Pairs of connected sockets are always allowed.
        looking: Whether it may look into other processes, as debuggers do.
        above: Processes and groups that it may not signal, bound or slow down although they have its user, nor all at once.

    Returns:
        Whether there is a filter now. Where the kernel or the processor has none, nothing has changed.
    """
    if not available():
        return False
    column, architecture = _MACHINES[platform.machine()]
    instructions = assemble(column, architecture, families=families, looking=looking, above=above)
    code = ctypes.create_string_buffer(b"".join(instructions))
    program = struct.pack("HxxxxxxP", len(instructions), ctypes.addressof(code))
    # Without this flag kernels before 5.16 switch speculation off for filtered processes, which would slow only one side down.
    for flags in (_ALLOW_SPECULATION, 0):
        if _libc.syscall(ctypes.c_long(_SECCOMP_CALL[column]), _SET_FILTER, flags, program) == 0:
            return True
    problem = ctypes.get_errno()
    raise OSError(problem, f"seccomp: {os.strerror(problem)}")


def assemble(
    column: int,
    architecture: int,
    *,
    families: Optional[Iterable[int]],
    looking: bool,
    above: Sequence[int] = (),
) -> list[bytes]:
    """Return the filter as instructions of the kernel's packet filter, for the numbers in one column of the tables."""
    refused = {**_REFUSED, **({} if looking else _LOOKING_INTO_OTHERS)}
    refuse = _statement(_RETURN, _REFUSE | errno.EPERM)
    parts = [
        _statement(_LOAD, _ARCHITECTURE),
        _jump(_IF_EQUAL, architecture, 1, 0),
        refuse,
        _statement(_LOAD, _NUMBER),
        _jump(_IF_AT_LEAST, _FOREIGN_FROM, 0, 1),
        refuse,
    ]
    for number in sorted(number for numbers in refused.values() if (number := numbers[column]) is not None):
        parts += [_jump(_IF_EQUAL, number, 0, 1), refuse]
    # The C library goes on with `clone`, whose flags a filter can read, where the kernel seems not to know `clone3`.
    parts += [_jump(_IF_EQUAL, _CLONE3[column], 0, 1), _statement(_RETURN, _REFUSE | errno.ENOSYS)]
    parts += _on_argument(_CLONE[column], [_jump(_IF_ANY_BIT, _NEW_NAMESPACES, 0, 1), refuse])
    parts += _on_argument(_PERSONALITY[column], _only(_PERSONALITIES, errno.EPERM))
    if above:
        parts += _spare(above, column, refuse)
    if families is not None:
        parts += _on_argument(_SOCKET[column], _only(families, errno.EPERM))
    return [*parts, _statement(_RETURN, _ALLOW)]


def _spare(above: Sequence[int], column: int, refuse: bytes) -> list[bytes]:
    """Return instructions that refuse calls on these processes and groups, and on everything that can be reached at once."""
    named = [-1, *(sign * pid for pid in above[:_MOST_ABOVE] for sign in (1, -1))]
    checks = [part for pid in named for part in (_jump(_IF_EQUAL, pid & 0xFFFFFFFF, 0, 1), refuse)]
    parts = []
    for numbers in _ON_A_PROCESS.values():
        parts += _on_argument(numbers[column], checks)
    for numbers, everybody in _ON_ONE_OR_ALL.values():
        of_one = [_jump(_IF_EQUAL, everybody, 0, 1), refuse, _statement(_LOAD, _SECOND_ARGUMENT), *checks]
        parts += _on_argument(numbers[column], of_one)
    return parts


def _on_argument(number: Optional[int], checks: list[bytes]) -> list[bytes]:
    """Return instructions that look at the first argument of one call, which is allowed when no check refuses it."""
    body = [_statement(_LOAD, _FIRST_ARGUMENT), *checks, _statement(_RETURN, _ALLOW)]
    return [] if number is None else [_jump(_IF_EQUAL, number, 0, len(body)), *body]


def _only(values: Iterable[int], error: int) -> list[bytes]:
    """Return checks that allow these values of what is loaded, and refuse every other."""
    allowed = [part for value in values for part in (_jump(_IF_EQUAL, value, 0, 1), _statement(_RETURN, _ALLOW))]
    return [*allowed, _statement(_RETURN, _REFUSE | error)]


def _statement(code: int, value: int) -> bytes:
    return struct.pack("=HBBI", code, 0, 0, value)


def _jump(code: int, value: int, if_true: int, if_false: int) -> bytes:
    """Return a comparison with two distances to jump; 0 goes on with the next instruction."""
    return struct.pack("=HBBI", code, if_true, if_false, value)

"""Every error Warpsmith raises on purpose.

    WarpsmithError
    ├── UsageError            the request itself is wrong (exit 2)
    │   └── TaskError         the task cannot be used: it raises, is not deterministic, needs arguments (exit 2)
    ├── EnvironmentFault      this machine lacks something or is at fault (exit 3)
    │   └── ModelUnavailable  the language model cannot be asked (exit 3)
    ├── LandingRefused        the developer's tree is not as the landing expects (exit 1)
    └── InternalError         a fault of ours (exit 4)

Each error says what happened, where, and what to do next. A fault of the environment is never raised as the
candidate's, nor the other way round: what the candidate does wrong is part of a verdict, not an exception.
"""

from __future__ import annotations

import errno
from enum import IntEnum


class ExitCode(IntEnum):
    """What a command's exit status means."""

    OK = 0
    FAILED = 1
    USAGE = 2
    ENVIRONMENT = 3
    INTERNAL = 4
    INTERRUPTED = 130


class ToldToEnd(KeyboardInterrupt):
    """This process was told to end, by a signal or because its terminal is gone; Ctrl-C alone may mean less than that."""


class WarpsmithError(Exception):
    """Base of all errors: what happened, where, and the next step.

    Args:
        what: One sentence on what happened.
        where: File, line, command or setting it happened at; empty if it is nowhere in particular.
        next_step: What the reader can do about it; empty if there is nothing to do.
    """

    exit_code = ExitCode.INTERNAL

    def __init__(self, what: str, *, where: str = "", next_step: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.next_step = next_step

    def __str__(self) -> str:
        where = f" ({self.where})" if self.where else ""
        next_step = f" {self.next_step}" if self.next_step else ""
        return f"{self.what}{where}{next_step}"


class UsageError(WarpsmithError):
    """The request itself is wrong."""

    exit_code = ExitCode.USAGE


class TaskError(UsageError):
    """The task cannot be used: its module does not load, raises, needs arguments or is not deterministic."""


class EnvironmentFault(WarpsmithError):
    """This machine lacks something, or is at fault: no compiler, no torch, no GPU, a full disk."""

    exit_code = ExitCode.ENVIRONMENT


_MACHINE = {
    errno.ENOSPC: ("The disk is full", "Free some space, or name another folder, and do it again."),
    errno.EDQUOT: ("The disk quota is used up", "Free some space, or name another folder, and do it again."),
    errno.EROFS: ("This place can only be read", "Name another folder, with --home, --cache or TMPDIR."),
    errno.EACCES: ("Access is refused", "Give yourself access, or name another folder with --home or --cache."),
    errno.EMFILE: ("Too many files are open", "Raise the limit (ulimit -n) and do it again."),
    errno.ENOMEM: ("Memory is used up", "Free some memory and do it again."),
    errno.EAGAIN: ("No more processes can be started", "End some, or raise the limit (ulimit -u), and do it again."),
}


def machine_fault(error: OSError) -> EnvironmentFault | None:
    """Return what an error of the system says about this machine, or None where it may be anybody's fault."""
    if error.errno not in _MACHINE:
        return None
    what, next_step = _MACHINE[error.errno]
    return EnvironmentFault(f"{what}.", where=str(error.filename or ""), next_step=next_step)


class ModelUnavailable(EnvironmentFault):
    """The language model cannot be asked: no key, unknown name, server down."""


class LandingRefused(WarpsmithError):
    """The developer's tree is not as the landing or its undo expects; nothing was written."""

    exit_code = ExitCode.FAILED


class InternalError(WarpsmithError):
    """A fault of ours."""

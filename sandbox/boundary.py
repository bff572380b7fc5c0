"""The one boundary of a process that a person starts: every error becomes one message on stderr and one exit code."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sandbox.errors import ExitCode, ToldToEnd, WarpsmithError, machine_fault


def exit_code_of(command: Callable[[], int]) -> int:
    """Run a command to its end, tell what went wrong, and return its exit code (``sandbox.errors.ExitCode``)."""
    try:
        with _ended_as_interrupted():
            return command()
    except KeyboardInterrupt:
        _tell("Interrupted.")
        return ExitCode.INTERRUPTED
    except WarpsmithError as error:
        _tell(describe(error))
        return error.exit_code
    except BrokenPipeError:
        _forget_stdout()
        return ExitCode.OK
    except Exception as error:  # noqa: BLE001 - the one boundary of this process
        if isinstance(error, OSError) and (fault := machine_fault(error)):
            _tell(describe(fault))
            return fault.exit_code
        traceback.print_exc()
        _tell("This is a fault of Warpsmith's, not of your code. Please report it with the lines above.")
        return ExitCode.INTERNAL


def describe(error: WarpsmithError) -> str:
    """Return an error as the lines a person reads: what, where, next step."""
    lines = [f"error: {error.what}"]
    if error.where:
        lines.append(f"  where: {error.where}")
    if error.next_step:
        lines.append(f"  next:  {error.next_step}")
    return "\n".join(lines)


@contextmanager
def _ended_as_interrupted() -> Iterator[None]:
    """Take being told to end (SIGTERM, a closed terminal) as Ctrl-C, so that nothing started is left behind."""

    def interrupt(*_: object) -> None:
        raise ToldToEnd

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _forget_stdout() -> None:
    """Let nothing be written any more to a reader that has gone, not even when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _tell(text: str) -> None:
    print(text, file=sys.stderr)  # noqa: T201 - what a person reads of an error

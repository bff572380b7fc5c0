"""The command line: parses, dispatches, and turns every error into one message and one exit code.

stdout is data, stderr is narration. Subcommands are imported when they are asked for, so that ``--help`` is instant and
the IDE's first frame waits for nothing it does not draw.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import os
import re
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sandbox.errors import ExitCode, ToldToEnd, UsageError, WarpsmithError, machine_fault

COMMANDS = {
    "open": "open a module in the IDE and optimise it there",
    "run": "the same session without a screen",
    "check": "judge a candidate: build, guard, verify, profile",
    "hotspots": "run your own script and rank its modules by their share of time",
    "landed": "what has landed in this project: judge it again, retune, undo",
    "mcp": "the judge as an MCP server, for other coding agents",
    "sessions": "list, show, resume, export and prune sessions",
    "skills": "what the agent can read up on: list, validate, trust a project's",
    "doctor": "what this machine has, what is missing, how to mend it",
    "demo": "watch a bundled module get faster, with no key and no GPU needed",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (``sandbox.errors.ExitCode``)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        with _ended_as_interrupted():
            return _dispatch(arguments)
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return ExitCode.INTERRUPTED
    except WarpsmithError as error:
        print(describe(error), file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        _forget_stdout()
        return ExitCode.OK
    except Exception as error:  # noqa: BLE001 - the one boundary of this process
        if isinstance(error, OSError) and (fault := machine_fault(error)):
            print(describe(fault), file=sys.stderr)
            return fault.exit_code
        traceback.print_exc()
        print(
            "This is a fault of Warpsmith's, not of your code. Please report it with the lines above.", file=sys.stderr
        )
        return ExitCode.INTERNAL


def describe(error: WarpsmithError) -> str:
    """Return an error as the lines a person reads: what, where, next step."""
    lines = [f"error: {error.what}"]
    if error.where:
        lines.append(f"  where: {error.where}")
    if error.next_step:
        lines.append(f"  next:  {error.next_step}")
    return "\n".join(lines)


def _dispatch(arguments: list[str]) -> int:
    """Find the command (``open`` when none is named), parse its options and run it."""
    if arguments[:1] in (["-h"], ["--help"]):
        _help().print_help()
        return ExitCode.OK
    if arguments[:1] == ["--version"]:
        print(_version())
        return ExitCode.OK
    name = _take_command(arguments)
    command = importlib.import_module(f"app.commands.{name}")
    parser = argparse.ArgumentParser(prog=f"warpsmith {name}", description=command.__doc__)
    command.add_options(parser)
    return int(command.main(parser.parse_args(arguments)))


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


def _take_command(arguments: list[str]) -> str:
    """Take the command off the arguments; a target without one is to be opened.

    Raises:
        UsageError: The first word is neither a command nor can it be a target.
    """
    first = arguments[0] if arguments else ""
    if first in COMMANDS:
        return arguments.pop(0)
    if re.fullmatch(r"[a-z]+", first) and not Path(first).exists():
        near = difflib.get_close_matches(first, COMMANDS, n=1)
        meant = f"Did you mean: warpsmith {near[0]}" if near else f"The commands are: {', '.join(COMMANDS)}."
        raise UsageError(f"'{first}' is no command, and no file or folder.", where="command line", next_step=meant)
    return "open"


def _forget_stdout() -> None:
    """Let nothing be written any more to a reader that has gone, not even when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _help() -> argparse.ArgumentParser:
    listing = "\n".join(f"  {name:10} {text}" for name, text in COMMANDS.items())
    return argparse.ArgumentParser(
        prog="warpsmith",
        usage="warpsmith [COMMAND] [OPTIONS]   (each command has --help)",
        description="Make PyTorch modules fast: an agent writes fused kernels, a judge measures them, you accept.",
        epilog=f"commands:\n{listing}\n\nwithout a command: warpsmith open",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _version() -> str:
    from importlib.metadata import version

    return f"warpsmith {version('warpsmith')}"


if __name__ == "__main__":
    sys.exit(main())

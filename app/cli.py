"""The command line: parses, dispatches, and turns every error into one message and one exit code.

stdout is data, stderr is narration. Subcommands are imported when they are asked for, so that ``--help`` is instant and
the IDE's first frame waits for nothing it does not draw.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from sandbox.boundary import exit_code_of
from sandbox.errors import ExitCode, UsageError

COMMANDS = {
    "open": "open a module in the IDE and optimise it there",
    "run": "the same session without a screen",
    "check": "judge a candidate: build, guard, verify, profile",
    "hotspots": "run your own script and rank its modules by their share of time",
    "landed": "what has landed in this project: judge it again, retune, undo",
    "mcp": "the judge as an MCP server, for other coding agents",
    "sessions": "list, show, resume, export and prune sessions",
    "train": "from stored sessions to a better policy: the stages of the trainer",
    "skills": "what the agent can read up on: list, validate, trust a project's",
    "doctor": "what this machine has, what is missing, how to mend it",
    "demo": "watch a bundled module get faster, with no key and no GPU needed",
}

HANDED_ON = ("train",)
"""Commands that another program reads the options of."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (``sandbox.errors.ExitCode``)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    return exit_code_of(lambda: _dispatch(arguments))


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
    if name in HANDED_ON:
        return int(command.main(arguments))
    parser = argparse.ArgumentParser(prog=f"warpsmith {name}", description=command.__doc__)
    command.add_options(parser)
    return int(command.main(parser.parse_args(arguments)))


def _take_command(arguments: list[str]) -> str:
    """Take the command off the arguments; a target without one is to be opened.

    Raises:
        UsageError: The first word is neither a command nor can it be a target, or options stand before the command.
    """
    first = arguments[0] if arguments else ""
    if first in COMMANDS:
        return arguments.pop(0)
    if first.startswith("-") and (late := _late_command(arguments)):
        others = [word for number, word in enumerate(arguments) if number != late]
        line = shlex.join(["warpsmith", arguments[late], *others])
        raise UsageError("Options stand behind the command.", where="command line", next_step=f"Try: {line}")
    if re.fullmatch(r"[a-z]+", first) and not Path(first).exists():
        near = difflib.get_close_matches(first, COMMANDS, n=1)
        meant = f"Did you mean: warpsmith {near[0]}" if near else f"The commands are: {', '.join(COMMANDS)}."
        raise UsageError(f"'{first}' is no command, and no file or folder.", where="command line", next_step=meant)
    return "open"


def _late_command(arguments: Sequence[str]) -> int:
    """Return where a command stands behind options, each with one value or none; 0 where none does."""
    for number, word in enumerate(arguments):
        if word in COMMANDS and not Path(word).exists():
            return number
        if not word.startswith("-") and not arguments[number - 1].startswith("-"):
            break
    return 0


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

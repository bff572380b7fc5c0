"""Serve the judge to another coding agent (Claude Code, Codex, Cursor) over the Model Context Protocol.

It speaks on stdin and stdout and is started by the client: claude mcp add warpsmith -- warpsmith mcp. The client opens
tasks in the current folder, or below those named with --allow, and checks what it writes; it lands nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import NoReturn

from app.commands.options import add_machine_options, settings_from
from sandbox.errors import ExitCode, UsageError


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("targets", metavar="TARGET", nargs="*", help="modules that the client is told you care about")
    parser.add_argument(
        "--allow",
        action="append",
        default=[],
        type=Path,
        metavar="FOLDER",
        help="the client may name modules, captures and candidates below it (default: the current folder); repeatable; "
        "relative paths begin at the first",
    )
    add_machine_options(parser)


def main(options: argparse.Namespace) -> NoReturn:
    """Serve until the client goes."""
    allowed = tuple(folder.resolve() for folder in options.allow) or (Path.cwd(),)
    for folder in allowed:
        if not folder.is_dir():
            raise UsageError("There is no such folder.", where=f"--allow {folder}", next_step="Name a folder.")
    if sys.stdin.isatty():
        raise UsageError(
            "This is spoken to by another program, not typed to.",
            where="warpsmith mcp",
            next_step="Name it to your coding agent, such as: claude mcp add warpsmith -- warpsmith mcp",
        )
    from agent.mcp.server import serve

    os.chdir(allowed[0])  # some clients start their servers anywhere
    serve(settings_from(options), allowed, tuple(options.targets))
    sys.stderr.flush()
    os._exit(ExitCode.OK)  # a thread that still waits for the client's next line holds up nothing

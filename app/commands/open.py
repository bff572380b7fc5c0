"""Open a module in the IDE: watch an agent optimise it, steer, accept or reject every hunk.

Without TARGET, pick a module of the current folder.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from app.commands.options import add_machine_options, add_model_options, add_task_options, settings_from, task_from


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("target", metavar="TARGET", nargs="?", help="path.py, path.py:Class, or package.module:Class")
    parser.add_argument("--start", action="store_true", help="let the agent begin at once")
    add_task_options(parser)
    add_model_options(parser)
    add_machine_options(parser)


def main(options: argparse.Namespace) -> int:
    """Open the IDE on the target, or on the picker."""
    from app.ide import require_terminal, run_ide, run_picker

    require_terminal()
    settings = settings_from(options)
    if not options.capture and (options.target is None or Path(options.target).is_dir()):
        return run_picker(Path(options.target or "."), settings)
    from agent.session import create_session

    spec = task_from(options, options.target, settings)
    return run_ide(create_session(spec, settings, settings.home), autostart=options.start)

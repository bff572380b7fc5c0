"""Run a session without a screen: the agent optimises the module, narration goes to stderr, the result to stdout.

Exit code 0: there is a correct candidate.
"""

from __future__ import annotations

import argparse

from app.commands.options import (
    add_machine_options,
    add_model_options,
    add_task_options,
    require_named,
    settings_from,
    task_from,
)
from sandbox.errors import UsageError


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("target", metavar="TARGET", nargs="?", help="path.py, path.py:Class, or package.module:Class")
    parser.add_argument("--json", action="store_true", help="print events, one JSON object a line")
    parser.add_argument(
        "--land",
        default="never",
        choices=["never", "full-pass"],
        help="full-pass: write the best attempt into the project if its full verdict is correct and faster than eager",
    )
    parser.add_argument(
        "--commit", action="store_true", help="what lands is also one commit, of the landed files alone"
    )
    add_task_options(parser)
    add_model_options(parser)
    add_machine_options(parser)


def main(options: argparse.Namespace) -> int:
    """Run the session to its end."""
    from agent.headless import run
    from agent.model import require_model

    if options.commit and options.land == "never":
        what = "Nothing lands, so there is nothing to commit."
        raise UsageError(what, where="--commit", next_step="Add --land full-pass, or leave --commit out.")
    require_named(options)
    settings = settings_from(options)
    require_model(settings)
    spec = task_from(options, options.target, settings)
    return run(spec, settings, json=options.json, land=options.land, commit=options.commit)

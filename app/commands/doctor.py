"""What this machine has, what is missing, and how to mend it.

Exit code 0: Warpsmith can judge on this machine (on the CPU at least); 3: something it needs is missing.
"""

from __future__ import annotations

import argparse
import dataclasses
import json

from app.commands.options import add_machine_options, add_model_options, settings_from
from app.report import mark
from sandbox.doctor import Reading, examine
from sandbox.errors import ExitCode


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("--json", action="store_true", help="print the readings as JSON")
    add_model_options(parser)
    add_machine_options(parser)


def main(options: argparse.Namespace) -> ExitCode:
    """Examine the machine and print each reading, then each setting with its origin."""
    settings = settings_from(options)
    readings = examine(python=settings.python, isolation=settings.isolation, home=settings.home, cache=settings.cache)
    values = {name: {"value": value, "origin": settings.origins[name]} for name, value in settings.to_json().items()}
    if options.json:
        print(json.dumps({"readings": [dataclasses.asdict(reading) for reading in readings], "settings": values}))
    else:
        print(
            "\n".join(
                [
                    *map(line, readings),
                    "",
                    *(f"  {k:15} {v['value'] or '-'}  ({v['origin']})" for k, v in values.items()),
                ]
            )
        )
    return ExitCode.OK if all(reading.ok for reading in readings if reading.needed) else ExitCode.ENVIRONMENT


def line(reading: Reading) -> str:
    """Return a reading as a line, with how to mend it below."""
    text = f"{mark(reading.ok)} {reading.name:15} {reading.value}"
    return text if reading.ok or not reading.mend else f"{text}\n    {reading.mend}"

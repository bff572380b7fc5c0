"""What this machine has, what is missing, and how to mend it.

Exit code 0: Warpsmith can judge on this machine (on the CPU at least); 3: something it needs is missing.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path

from app.commands.options import add_machine_options, add_model_options, settings_from
from app.report import mark
from sandbox.errors import ExitCode
from sandbox.machine.cache import prune, usage
from sandbox.machine.doctor import Reading, examine, in_words


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("--json", action="store_true", help="print the readings as JSON")
    parser.add_argument(
        "--prune",
        nargs="?",
        const="old",
        choices=["old", "all"],
        help="make room in the cache first: what was not used for a month and what is over its bound (old), or everything that "
        "was not used in the last hour (all); other sessions may go on meanwhile",
    )
    add_model_options(parser)
    add_machine_options(parser)


def main(options: argparse.Namespace) -> ExitCode:
    """Examine the machine and print each reading, then each setting with its origin."""
    settings = settings_from(options)
    if options.prune:
        freed = prune(settings.cache, everything=options.prune == "all")
        print(f"{in_words(freed)} freed in {settings.cache}", file=sys.stderr)
    readings = examine(python=settings.python, isolation=settings.isolation, home=settings.home, cache=settings.cache)
    values = {name: {"value": value, "origin": settings.origins[name]} for name, value in settings.to_json().items()}
    if options.json:
        print(
            json.dumps(
                {
                    "readings": [dataclasses.asdict(reading) for reading in readings],
                    "cache": _kept(settings.cache),
                    "settings": values,
                }
            )
        )
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


def _kept(cache: Path) -> list[dict[str, object]]:
    return [
        {"name": use.part.name, "entries": use.units, "bytes": use.bytes, "largest": use.part.largest}
        for use in usage(cache)
    ]


def line(reading: Reading) -> str:
    """Return a reading as a line, with how to mend it below; what can be done without is no fault."""
    sign = mark(reading.ok) if reading.ok or reading.needed else "–"
    text = f"{sign} {reading.name:15} {reading.value}"
    return text if reading.ok or not reading.mend else f"{text}\n    {reading.mend}"

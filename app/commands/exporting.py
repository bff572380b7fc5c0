"""``warpsmith sessions export``: sessions in the formats of other tools, one JSON object a line."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from agent.chosen import chosen_sessions
from agent.exports import FORMATS
from agent.exports.atif import file_name
from agent.exports.plain import with_objects
from agent.exports.trajectory import Note, Trajectory, read_trajectory
from agent.store import write_atomically
from app.commands.options import settings_from
from sandbox.errors import EnvironmentFault, ExitCode, UsageError

_CONVERSATIONS = ("messages", "prompt", "chosen", "rejected")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the action's options."""
    parser.add_argument(
        "sessions", nargs="*", metavar="SESSION", help="'last', a folder, the beginning of an id, a bundled recording"
    )
    parser.add_argument("--all", action="store_true", help="every session there is")
    parser.add_argument("--format", choices=FORMATS, required=True, help="what reads it")
    parser.add_argument("--out", metavar="FILE", help="write here and not to stdout; with atif also a folder")
    parser.add_argument(
        "--arguments", choices=("text", "objects"), default="text", help="of tool calls: as sent, or as templates want"
    )


def export(options: argparse.Namespace) -> ExitCode:
    """Print or write the rows; stderr says how many there are, and what was left out and why."""
    notes: Counter[str] = Counter()

    def note(text: str) -> None:
        notes[text] += 1

    folders = chosen_sessions(options.sessions, settings_from(options).home, everything=options.all)
    rows = FORMATS[options.format](_read(folders, note, skip=options.all), note)
    if options.arguments == "objects":
        rows = map(_with_objects, rows)
    count = _write(rows, options)
    sessions = "1 session" if len(folders) == 1 else f"{len(folders)} sessions"
    print(f"{count} {'row' if count == 1 else 'rows'} of {sessions}.", file=sys.stderr)
    for text, times in notes.items():
        print(f"  {times} × {text}", file=sys.stderr)
    return ExitCode.OK if count else ExitCode.FAILED


def _read(folders: Iterable[Path], note: Note, *, skip: bool) -> Iterator[Trajectory]:
    """Yield the sessions; one that cannot be read is an error where it was named, and is noted where all were."""
    for folder in folders:
        try:
            yield read_trajectory(folder, note)
        except UsageError:
            if not skip:
                raise
            note("A session cannot be read.")


def _with_objects(row: dict[str, Any]) -> dict[str, Any]:
    return {key: with_objects(value) if key in _CONVERSATIONS else value for key, value in row.items()}


def _write(rows: Iterable[dict[str, Any]], options: argparse.Namespace) -> int:
    """Write every row as it comes and return how many there were."""
    if not options.out:
        return _write_lines(rows, sys.stdout)
    out = Path(options.out)
    if out.is_dir() or options.out.endswith("/"):
        if options.format != "atif":
            raise UsageError("This is a folder.", where=options.out, next_step="Name a file, such as rows.jsonl.")
        with _disk_faults(out):
            return _write_files(rows, out)
    part = out.with_name(f"{out.name}.part")
    with _disk_faults(out):
        try:
            with part.open("w") as file:
                count = _write_lines(rows, file)
            if count:
                part.replace(out)
        finally:
            part.unlink(missing_ok=True)
    return count


def _write_lines(rows: Iterable[dict[str, Any]], file: TextIO) -> int:
    return sum(file.write(f"{_json(row)}\n") > 0 for row in rows)


def _write_files(rows: Iterable[dict[str, Any]], folder: Path) -> int:
    """Write each document as a file of its own, by the name that the one before refers to it with."""
    folder.mkdir(parents=True, exist_ok=True)
    names = set()
    for row in rows:
        write_atomically(folder / file_name(row), _json(row).encode())
        names.add(file_name(row))
    return len(names)


def _json(row: dict[str, Any]) -> str:
    return json.dumps(row, allow_nan=False)


@contextmanager
def _disk_faults(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        what = f"The export cannot be written: {error.strerror}."
        raise EnvironmentFault(what, where=str(path), next_step="Name another place with --out.") from error

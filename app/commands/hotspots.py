"""Run your own script for a while and rank its modules by their share of time.

COMMAND is one text ("python train.py"), or words after -- . It runs here, as it would without Warpsmith, and is ended when
it was watched for long enough. What it prints goes to stderr, and its stdin is empty. Exit code 0: there is a ranking.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from agent.kept_recordings import new_recording
from agent.settings import Settings
from app.commands.options import add_machine_options, add_model_options, settings_from
from sandbox.errors import ExitCode, UsageError
from sandbox.hotspots.command import parse_command
from sandbox.hotspots.compare import compare
from sandbox.hotspots.folder import remove_recording
from sandbox.hotspots.gain import Measuring, measure_gains
from sandbox.hotspots.ranking import Ranking, keep_gains, keep_run, read_ranking
from sandbox.hotspots.recording import read_recording
from sandbox.hotspots.refusal import in_words, require_modules
from sandbox.hotspots.run import Limits, RunEnd, watch
from sandbox.target import find_interpreter

CAPTURE_MB = 256
MEASURING_SECONDS = 180.0


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument(
        "words", metavar="COMMAND", nargs="*", help='"python train.py --lr 1e-3", or -- python train.py'
    )
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="how long to watch once the first steps are over (default 60)"
    )
    parser.add_argument("--steps", type=int, default=0, metavar="N", help="watch for N steps, if that is sooner")
    parser.add_argument("--save", type=Path, metavar="FOLDER", help="keep the recording there, in a new folder")
    parser.add_argument("--show", type=Path, metavar="FOLDER", help="rank a recording that was kept, and run nothing")
    parser.add_argument(
        "--compare",
        type=Path,
        metavar="FOLDER",
        help="run the command of a kept recording again, for as long, and say what came of what has landed since",
    )
    parser.add_argument(
        "--measure",
        type=int,
        metavar="N",
        help="time the first N classes eager and compiled, beside a plain copy (default 3, with --show what was kept)",
    )
    parser.add_argument(
        "--capture-mb",
        type=int,
        default=CAPTURE_MB,
        metavar="N",
        help=f"megabytes of inputs that are kept for captures, of all classes together (default {CAPTURE_MB}; 0: none)",
    )
    parser.add_argument(
        "--capture-weights",
        action="store_true",
        help="copy the weights of captured modules whatever their size (default: up to 64 MB a class; more is described)",
    )
    parser.add_argument(
        "--open",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="show the ranking in the IDE, where Enter opens a session (default: where stdout is a terminal)",
    )
    parser.add_argument("--json", action="store_true", help="print the ranking as JSON")
    add_model_options(parser)
    add_machine_options(parser)


def main(options: argparse.Namespace) -> ExitCode:
    """Run the command, then print the ranking, and open it where that is wanted."""
    opens = options.open if options.open is not None else sys.stdout.isatty() and not options.json
    if options.open:
        from app.ide import require_terminal

        require_terminal()
    _require_sound(options)
    settings = settings_from(options)
    if settings.python:
        settings = dataclasses.replace(settings, python=str(find_interpreter(settings.python)))
    if options.compare:
        return _compare(options.compare.resolve(), settings, as_json=options.json)
    ranking = read_ranking(options.show.resolve()) if options.show else _record(options, settings)
    if options.measure is not None or not options.show:
        ranking = _measured(ranking, 3 if options.measure is None else options.measure, settings)
    print(json.dumps(ranking.to_json()) if options.json else as_text(ranking))
    if not opens:
        return ExitCode.OK
    from app.ide import run_hotspots

    return ExitCode(run_hotspots(ranking, settings))


def narrate(text: str) -> None:
    """Say on stderr what happens."""
    print(f"hotspots {text}", file=sys.stderr, flush=True)


def as_text(ranking: Ranking) -> str:
    """Return the ranking for people, as wide as their terminal."""
    from app.hotspots_report import PIPED_WIDTH, ranking_tables, run_lines

    screen = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if screen else PIPED_WIDTH
    tables = ranking_tables(ranking.hotspots, ranking.gains, width=width, colour=screen, root=Path.cwd())
    return "\n".join([*run_lines(ranking.recording, ranking.pace, ranking.run.others), "", tables])


def _require_sound(options: argparse.Namespace) -> None:
    """Raise UsageError for numbers that mean nothing, and for options that exclude each other."""
    if not (math.isfinite(options.seconds) and options.seconds >= 0):
        raise UsageError(
            "This is no time to watch.", where=f"--seconds {options.seconds:g}", next_step="Say --seconds 60."
        )
    for name in ("steps", "measure", "capture_mb"):
        option = name.replace("_", "-")
        if (given := getattr(options, name)) is not None and given < 0:
            raise UsageError(
                "This must be 0 or more.",
                where=f"--{option} {given}",
                next_step=f"Give a larger number, or leave --{option} out.",
            )
    for name in ("compare", "show"):
        if getattr(options, name) and (options.words or options.save or (options.compare and options.show)):
            raise UsageError(
                f"--{name} takes a recording that was kept, and neither a command nor another folder.",
                where=f"--{name} {getattr(options, name)}",
                next_step=f"Leave out the rest: warpsmith hotspots --{name} FOLDER",
            )


def _record(options: argparse.Namespace, settings: Settings) -> Ranking:
    """Run the command and rank what it recorded."""
    folder = _own_folder(options.save) if options.save else None
    limits = Limits(options.seconds, options.steps, options.capture_mb * 1024 * 1024, options.capture_weights)
    return _run(options.words, settings, limits, folder)


def _compare(folder: Path, settings: Settings, *, as_json: bool) -> ExitCode:
    """Run what was run for a recording again, where it was run, and print what came of it."""
    from app.hotspots_report import comparison_lines

    before = read_ranking(folder)
    _enter(before.run.directory)
    settings = dataclasses.replace(settings, python=settings.python or before.run.python)
    now = _run(before.run.words, settings, Limits(before.run.seconds, before.run.steps), None)
    comparison = compare(before, now)
    print(json.dumps(comparison.to_json()) if as_json else "\n".join(comparison_lines(comparison)))
    return ExitCode.OK


def _enter(directory: str) -> None:
    try:
        os.chdir(directory)
    except OSError as error:
        raise UsageError(
            f"The folder in which this was recorded cannot be entered: {error.strerror}.",
            where=directory,
            next_step="Put it back, or record again where the project is now.",
        ) from error


def _run(words: Sequence[str], settings: Settings, limits: Limits, save: Path | None) -> Ranking:
    """Run a command and rank what it recorded."""
    command = parse_command(words, python=settings.python)
    folder = save or new_recording(settings.home)
    narrate(f"{command.text}  (for {limits.seconds:g} s once its first steps are over)")
    try:
        end = watch(command, folder, limits, narrate)
        _tell_end(end)
        require_modules(read_recording(folder), end, command)
        keep_run(folder, words, command, settings.python, limits, end)
    except BaseException:  # also where the developer has had enough: half a recording is none
        if save is None:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            remove_recording(folder)
        raise
    narrate(f"the recording is in {folder}")
    return read_ranking(folder)


def _tell_end(end: RunEnd) -> None:
    how = "ended, as Ctrl-C ends it" if end.status is None else in_words(end.status)
    narrate(f"the command ran for {end.seconds:.1f} s: {how}")
    if end.others:
        from app.hotspots_report import busy_text

        narrate(busy_text(end.others))


def _own_folder(save: Path) -> Path:
    try:
        if save.exists() and (not save.is_dir() or any(save.iterdir())):
            raise UsageError("This is no empty folder.", where=str(save), next_step="Name a new one.")
        save.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"This folder cannot be made: {error.strerror}.", where=str(save), next_step="Name another one."
        ) from error
    return save.resolve()


def _measured(ranking: Ranking, count: int, settings: Settings) -> Ranking:
    """Return the ranking with what there is to gain in its first classes, and keep that."""
    if count:
        first = [f"{each.share:.1%} {each.name}" for each in ranking.hotspots if each.origin != "torch"][:3]
        narrate(
            f"{', '.join(first)}; now measuring what there is to gain (Ctrl-C: the list as it is; --measure 0: never)"
        )
    how = Measuring(count, MEASURING_SECONDS, settings.device, settings.isolation, settings.cache)
    measured = ranking.with_gains(measure_gains(ranking.hotspots, ranking.captures, how, narrate))
    keep_gains(measured)
    return measured

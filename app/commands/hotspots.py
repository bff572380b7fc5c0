"""Run your own script for a while and rank its modules by their share of time.

COMMAND is one text ("python train.py"), or words after -- . It runs here, as it would without Warpsmith, and is ended when
it was watched for long enough. What it prints goes to stderr. Exit code 0: there is a ranking.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from agent.settings import Settings
from app.commands.options import add_machine_options, settings_from
from sandbox.errors import ExitCode, UsageError
from sandbox.hotspots.command import Command, parse_command
from sandbox.hotspots.gain import Gain, Measuring, measure_gains
from sandbox.hotspots.pace import pace_of
from sandbox.hotspots.rank import Hotspot, rank
from sandbox.hotspots.recording import Recording, read_recording
from sandbox.hotspots.refusal import in_words, require_modules
from sandbox.hotspots.run import Limits, RunEnd, watch
from sandbox.machine.scratch import scratch_folder

CAPTURE_BYTES = 256 * 1024 * 1024
MEASURING_SECONDS = 180.0


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument(
        "words", metavar="COMMAND", nargs="+", help='"python train.py --lr 1e-3", or -- python train.py'
    )
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="how long to watch from the first module call on (default 60)"
    )
    parser.add_argument("--steps", type=int, default=0, metavar="N", help="watch for N steps, if that is sooner")
    parser.add_argument("--save", type=Path, metavar="FOLDER", help="keep the recording in a new folder")
    parser.add_argument(
        "--measure",
        type=int,
        default=3,
        metavar="N",
        help="time the first N classes eager and compiled, beside a plain copy (default 3; 0: none)",
    )
    parser.add_argument("--json", action="store_true", help="print the ranking as JSON")
    add_machine_options(parser)


def main(options: argparse.Namespace) -> ExitCode:
    """Run the command, then print the ranking."""
    settings = settings_from(options)
    command = parse_command(options.words, python=settings.python)
    limits = Limits(options.seconds, options.steps, CAPTURE_BYTES)
    with _recording_folder(options.save) as folder:
        narrate(f"{command.text}  (for {limits.seconds:g} s from its first module call on)")
        end = watch(command, folder, limits, narrate)
        recording = read_recording(folder)
        _tell_end(end)
        require_modules(recording, end, command)
        hotspots = rank(recording)
        gains = _measure(hotspots, folder, recording, options.measure, settings)
        print(
            _as_json(command, end, recording, hotspots, gains) if options.json else _as_text(recording, hotspots, gains)
        )
    return ExitCode.OK


def narrate(text: str) -> None:
    """Say on stderr what happens."""
    print(f"hotspots {text}", file=sys.stderr, flush=True)


def _tell_end(end: RunEnd) -> None:
    how = "ended by warpsmith" if end.status is None else in_words(end.status)
    narrate(f"the command ran for {end.seconds:.1f} s: {how}")


@contextlib.contextmanager
def _recording_folder(save: Path | None) -> Iterator[Path]:
    """Give the folder that processes record into: the one to be kept, or one that goes again."""
    if save is None:
        with scratch_folder("warpsmith-hotspots-") as folder:
            yield folder
        return
    if save.exists() and (not save.is_dir() or any(save.iterdir())):
        raise UsageError("This folder is not empty.", where=str(save), next_step="Name a new one.")
    save.mkdir(parents=True, exist_ok=True)
    yield save.resolve()


def _measure(
    hotspots: Sequence[Hotspot], folder: Path, recording: Recording, count: int, settings: Settings
) -> dict[str, Gain]:
    names = {key: name for process in recording.processes for key, name in process.captures.items()}
    how = Measuring(count, MEASURING_SECONDS, settings.device, settings.isolation, settings.cache)
    return measure_gains(hotspots, folder / "captures", names, how, narrate)


def _as_text(recording: Recording, hotspots: Sequence[Hotspot], gains: Mapping[str, Gain]) -> str:
    from app.hotspots_report import PIPED_WIDTH, ranking_tables, run_lines

    screen = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if screen else PIPED_WIDTH
    tables = ranking_tables(hotspots, gains, width=width, colour=screen, root=Path.cwd())
    return "\n".join([*run_lines(recording, pace_of(recording)), "", tables])


def _as_json(
    command: Command, end: RunEnd, recording: Recording, hotspots: Sequence[Hotspot], gains: Mapping[str, Gain]
) -> str:
    first = recording.processes[0]
    told = [{"share": each.share, "target": each.target, **dataclasses.asdict(each)} for each in hotspots]
    for each in told:
        gain = gains.get(f"{each['module']}:{each['name']}")
        each["gain"] = dataclasses.asdict(gain) if gain else None
    data = {
        "schema": "warpsmith.hotspots/1",
        "command": command.text,
        "status": end.status,
        "seconds": end.seconds,
        "device": first.gpu or "cpu",
        "torch": first.torch,
        "processes": len(recording.processes),
        "pace": dataclasses.asdict(pace_of(recording)),
        "hotspots": told,
    }
    return json.dumps(data)

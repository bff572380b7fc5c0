"""A ranking: what was run, what it recorded, and what was made of it; kept in the recording's folder beside it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandbox.errors import UsageError
from sandbox.hotspots.command import Command
from sandbox.hotspots.folder import CAPTURES, GAINS_FILE, RUN_FILE
from sandbox.hotspots.gain import Gain
from sandbox.hotspots.pace import Pace, pace_of
from sandbox.hotspots.rank import Hotspot, rank
from sandbox.hotspots.recording import Recording, read_recording
from sandbox.hotspots.run import Limits, RunEnd

SCHEMA = "warpsmith.hotspots/1"


@dataclass(frozen=True)
class Run:
    """What was run: the command as it was typed, where, for how long, how it ended, and beside what.

    Attributes:
        others: How many processors other programs kept busy meanwhile; 0 where that does not matter.
    """

    words: tuple[str, ...]
    text: str
    directory: str
    python: str
    seconds: float
    steps: int
    status: int | None
    took: float
    others: float = 0.0


@dataclass(frozen=True)
class Ranking:
    """A run, its recording, and the classes by their share of the time.

    Attributes:
        folder: The recording's folder.
        run, recording, pace, hotspots: What was run and what it gave.
        gains: What there is to gain, by ``Hotspot.key``, of those classes where that was measured.
    """

    folder: Path
    run: Run
    recording: Recording
    pace: Pace
    hotspots: tuple[Hotspot, ...]
    gains: Mapping[str, Gain] = field(default_factory=dict)

    @property
    def captures(self) -> dict[str, Path]:
        """The folder of each class's capture, by ``Hotspot.key``."""
        named = {key: name for process in self.recording.processes for key, name in process.captures.items()}
        return {key: self.folder / CAPTURES / name for key, name in named.items()}

    def with_gains(self, gains: Mapping[str, Gain]) -> Ranking:
        """Return it with what there is to gain."""
        return dataclasses.replace(self, gains=gains)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON data, without the recording's own."""
        first = self.recording.processes[0]
        captures = self.captures
        return {
            "schema": SCHEMA,
            "command": self.run.text,
            "status": self.run.status,
            "seconds": self.run.took,
            "others": self.run.others,
            "device": first.gpu or "cpu",
            "torch": first.torch,
            "processes": len(self.recording.processes),
            "steps": self.recording.steps,
            "pace": dataclasses.asdict(self.pace),
            "hotspots": [self._told(each, captures.get(each.key)) for each in self.hotspots],
        }

    def _told(self, each: Hotspot, capture: Path | None) -> dict[str, Any]:
        gain = self.gains.get(each.key)
        return {
            "share": each.share,
            "target": each.target,
            **dataclasses.asdict(each),
            "gain": dataclasses.asdict(gain) if gain else None,
            "capture": str(capture) if capture else None,
        }


def keep_run(folder: Path, words: Sequence[str], command: Command, python: str, limits: Limits, end: RunEnd) -> None:
    """Write beside a recording what was run, so that it can be run again."""
    watched = (limits.seconds, limits.steps, end.status, end.seconds, end.others)
    run = Run(tuple(words), command.text, str(Path.cwd()), python, *watched)
    (folder / RUN_FILE).write_text(json.dumps(dataclasses.asdict(run), indent=1))


def read_run(folder: Path) -> Run:
    """Return what was run for a recording.

    Raises:
        UsageError: There is no recording.
    """
    try:
        data = json.loads((folder / RUN_FILE).read_bytes())
        known = {each.name: data[each.name] for each in dataclasses.fields(Run) if each.name in data}
        return Run(**{**known, "words": tuple(map(str, known["words"])), "directory": str(known["directory"])})
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UsageError(
            "There is no recording in this folder.",
            where=str(folder),
            next_step='Make one with: warpsmith hotspots "python train.py" --save FOLDER',
        ) from error


def read_ranking(folder: Path) -> Ranking:
    """Rank what a folder holds.

    Raises:
        UsageError: There is no recording of any module, or it was damaged.
    """
    run, recording = read_run(folder), read_recording(folder)
    if not recording.processes:
        raise UsageError("This recording is of no module.", where=str(folder), next_step="Record again.")
    return Ranking(folder, run, recording, pace_of(recording), tuple(rank(recording)), _kept_gains(folder))


def keep_gains(ranking: Ranking) -> None:
    """Write what there is to gain beside the recording, so that it need not be measured again."""
    told = {key: dataclasses.asdict(gain) for key, gain in ranking.gains.items()}
    (ranking.folder / GAINS_FILE).write_text(json.dumps(told, indent=1))


def _kept_gains(folder: Path) -> dict[str, Gain]:
    path = folder / GAINS_FILE
    if not path.is_file():
        return {}
    try:
        return {key: Gain.from_json(gain) for key, gain in json.loads(path.read_bytes()).items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise UsageError(
            f"What was measured for this recording cannot be read: {error}.",
            where=str(path),
            next_step=f"Remove the file and measure again with: warpsmith hotspots --show {folder} --measure 3",
        ) from error

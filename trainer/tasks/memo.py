"""What the judge said of a candidate, kept on disk by the hash of all that it depends on, so that it is judged once."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agent.store import encode
from sandbox.build.toolchain import cpu_identity
from sandbox.judge_version import judge_version
from sandbox.likeness import likeness
from sandbox.machine.devices import gpu_of
from sandbox.verdict import Verdict
from trainer.tasks.task import Files, Task


@dataclass(frozen=True)
class Outcome:
    """What an answer came to.

    Attributes:
        reward: -1, 1, 2 or 3; null where it could not be judged.
        reason: The judge's, or why there was nothing to judge.
        device_us: Time of a call; null where it was not timed.
        over_eager, over_compile: How many times as fast as each it is; null where that was not timed.
        tier, placements: What the reward rests on; empty and 0 where there was nothing to judge.
    """

    reward: int | None
    reason: str
    device_us: float | None = None
    over_eager: float | None = None
    over_compile: float | None = None
    tier: str = ""
    placements: int = 0

    @classmethod
    def of(cls, verdict: Verdict) -> Outcome:
        """Return what a verdict says."""
        profile = verdict.profile
        gains = {name: gain.ratio for name, gain in profile.speedup.items()} if profile else {}
        return cls(
            reward=verdict.reward,
            reason=verdict.reason,
            device_us=profile.us if profile else None,
            over_eager=gains.get("eager"),
            over_compile=gains.get("compile"),
            tier=verdict.tier,
            placements=profile.placements if profile else 0,
        )


class Memo:
    """Outcomes by key, in a file that grows by a line for each; several processes may write to one.

    Args:
        path: Made with its folder when the first outcome is kept. Lines that were cut off are passed over.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: dict[str, Outcome] = {}
        self._read = 0
        self._lock = threading.Lock()
        self.refresh()

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: str) -> Outcome | None:
        """Return what is known of a candidate."""
        return self._known.get(key)

    def keep(self, key: str, task: Task, outcome: Outcome) -> None:
        """Keep what was found; what could not be judged is not, so that it is judged the next time."""
        if outcome.reward is None:
            return
        line = encode({"key": key, "task": task.name, **asdict(outcome)})
        with self._lock:
            self._known[key] = outcome
            self.path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                os.write(descriptor, line)  # one write of one line: several processes may append
            finally:
                os.close(descriptor)

    def refresh(self) -> None:
        """Read what other processes have kept meanwhile."""
        if not self.path.exists():
            return
        with self._lock, self.path.open("rb") as file:
            file.seek(self._read)
            whole = file.read().rpartition(b"\n")[0]
            self._read += len(whole) + 1 if whole else 0
        for text in whole.splitlines():
            if (line := _parsed(text)) is not None:
                known = {name: value for name, value in line.items() if name in Outcome.__dataclass_fields__}
                self._known[line["key"]] = Outcome(**known)


def key_of(task: Task, files: Files, device: str, judging: Mapping[str, Any]) -> str:
    """Return the hash of all that an outcome depends on.

    Args:
        task: The task.
        files: The candidate's; comments and layout make no difference.
        device: ``cpu`` or ``cuda:N``.
        judging: How thoroughly it is judged.
    """
    whole = (task.source_sha256, likeness(files), machine_of(device), judge_version(), sorted(judging.items()))
    return hashlib.sha256(repr(whole).encode()).hexdigest()


def machine_of(device: str) -> str:
    """Return what names the device in a key: the GPU's model, or the CPU's."""
    gpu = gpu_of(device)
    return gpu.name if gpu else f"cpu {cpu_identity()}"


def _parsed(text: bytes) -> dict[str, Any] | None:
    try:
        line = json.loads(text)
    except ValueError:
        return None
    return line if isinstance(line, dict) and "key" in line and "reason" in line else None

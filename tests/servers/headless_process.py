"""A session without a screen, as a process, so that its streams, signals and status are the real ones."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass

from agent.settings import Settings
from sandbox.task import TaskSpec

_CODE = """
import json, sys
from agent.headless import run
from agent.settings import Settings
from sandbox.task import TaskSpec
spec, settings, how = json.loads(sys.argv[1])
sys.exit(run(TaskSpec.from_json(spec), Settings.from_json(settings), **how))
"""


@dataclass(frozen=True)
class Finished:
    """How it ended and what it printed."""

    returncode: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class HeadlessProcess:
    """A running one."""

    process: subprocess.Popen[str]

    def finish(self, seconds: float = 500) -> Finished:
        """Wait for its end; kill it and fail when it does not come."""
        try:
            out, err = self.process.communicate(timeout=seconds)
        finally:
            self.process.kill()
        return Finished(self.process.returncode, out, err)


def start_headless(spec: TaskSpec, settings: Settings, **how: object) -> HeadlessProcess:
    """Start ``agent.headless.run`` with these arguments."""
    arguments = json.dumps([spec.to_json(), settings.to_json(), how])
    command = [sys.executable, "-P", "-c", _CODE, arguments]
    return HeadlessProcess(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))

"""Make bundled recordings again: ``python -m tests.recordings [NAME]...``.

The answers are scripted and played as a recording of answers alone; everything they lead to is real: the engine, the
tools, the judge. What is kept is the session as it was stored, without its workspace. Without a name, those that
belong to this machine's kind of device are made.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from agent.events import ModelTurn
from agent.headless import resume
from agent.replay import RECORDINGS
from agent.session import create_session
from agent.settings import Settings
from agent.store import SessionWriter
from app.demo_project import copy_project
from sandbox.errors import ExitCode
from sandbox.machine.devices import resolve_device
from sandbox.target import resolve_target
from sandbox.task import TaskSpec
from tests.recordings.demo_cpu import SCRIPT as DEMO_CPU
from tests.recordings.demo_cuda import SCRIPT as DEMO_CUDA
from tests.recordings.models import SCRIPTS as MODELS
from tests.recordings.script import Script

SCRIPTS = {script.name: script for script in (DEMO_CPU, DEMO_CUDA, *MODELS)}
KEPT = ("session.json", "events.jsonl", "blobs")
MODEL = "scripted"


def make(script: Script, home: Path) -> Path:
    """Run the script in a session below ``home``, put the session among the recordings, and return its folder there."""
    device = resolve_device(script.device)
    settings = Settings(model=MODEL, device=device, home=home, cache=home / "cache")
    task = _task(script, device, home)
    answers = _answers(script, create_session(task, settings, home / "script"))
    session = create_session(task, replace(settings, model=f"replay:{answers}"), home)
    if resume(session) != ExitCode.OK:
        raise SystemExit(f"{script.name} did not come to a correct candidate")
    plain = {f"replay:{answers}": MODEL, sys.executable: "/usr/bin/python3", str(home): "/home/you"}
    return _keep(session, RECORDINGS / script.name, plain)


def _task(script: Script, device: str, home: Path) -> TaskSpec:
    target = f"{copy_project(home)}/{script.target}" if script.target else str(shutil.copy(script.source, home))
    return resolve_target(target, device=device)


def _answers(script: Script, folder: Path) -> Path:
    """Store the answers alone as a session that can be replayed, and return its folder."""
    writer = SessionWriter(folder)
    for number, turn in enumerate(script.turns, 1):
        finish = "tool_calls" if turn.calls else "stop"
        message = turn.message(number)
        writer.append(
            ModelTurn(turn=number, message=message, prompt_sha256="", finish_reason=finish, model=MODEL, seconds=0.0)
        )
    writer.close()
    return folder


def _keep(session: Path, place: Path, plain: dict[str, str]) -> Path:
    """Copy what makes a session, with what is only this machine's replaced by something plain."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    for name in KEPT:
        if (session / name).is_dir():
            shutil.copytree(session / name, place / name)
            continue
        text = (session / name).read_text()
        for found, instead in plain.items():
            text = text.replace(found, instead)
        (place / name).write_text(text)
    return place


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.recordings", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SCRIPTS)}")
    kind = resolve_device("auto").partition(":")[0]
    names = parser.parse_args().names or [name for name, script in SCRIPTS.items() if script.device == kind]
    for name in names:
        with tempfile.TemporaryDirectory(prefix="warpsmith-recording-") as home:
            print(make(SCRIPTS[name], Path(home)))


if __name__ == "__main__":
    main()

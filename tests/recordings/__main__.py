"""Make bundled recordings again: ``python -m tests.recordings [NAME]...``.

A scripted model gives its answers over HTTP; everything else is real: the engine, the tools, the judge. What is kept is
the session as it was stored, without its workspace. Those of this machine's kind of device are made if none is named.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

from agent.headless import resume
from agent.replay import RECORDINGS
from agent.session import create_session
from agent.settings import Settings
from app.demo_project import copy_project
from sandbox.devices import resolve_device
from sandbox.target import resolve_target
from sandbox.task import TaskSpec
from tests.recordings.demo_cpu import SCRIPT as DEMO_CPU
from tests.recordings.demo_cuda import SCRIPT as DEMO_CUDA
from tests.recordings.models import SCRIPTS as MODELS
from tests.recordings.script import Script
from tests.servers.openai_server import OpenAIServer

SCRIPTS = {script.name: script for script in (DEMO_CPU, DEMO_CUDA, *MODELS)}
SESSION = ("session.json", "events.jsonl", "blobs")


def make(script: Script, home: Path) -> Path:
    """Run the script in a session below ``home``, put the session among the recordings, and return its folder there."""
    device = resolve_device("cpu" if script.device == "cpu" else "cuda")
    with OpenAIServer(script.turns) as server:
        settings = Settings(
            model="openai/scripted", api_base=server.base_url, device=device, home=home, cache=home / "cache"
        )
        session = create_session(_task(script, device, home), settings, home)
        resume(session)
        if len(server.requests) != len(script.turns):
            raise SystemExit(f"{script.name}: {len(server.requests)} of {len(script.turns)} answers were asked for")
    return _keep(session, RECORDINGS / script.name, home)


def _task(script: Script, device: str, home: Path) -> TaskSpec:
    project = copy_project(home) if script.target else script.source.parent
    target = f"{project}/{script.target}" if script.target else str(script.source)
    return resolve_target(target, device=device, **script.options)


def _keep(session: Path, place: Path, home: Path) -> Path:
    """Copy what makes a session, with paths of this machine replaced by plain ones."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    for name in SESSION:
        if (session / name).is_dir():
            shutil.copytree(session / name, place / name)
            continue
        text = (session / name).read_text()
        for found, plain in ((sys.executable, "/usr/bin/python3"), (str(home), "/home/you")):
            text = text.replace(found, plain)
        (place / name).write_text(text)
    return place


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.recordings", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SCRIPTS)}")
    kind = resolve_device("auto").partition(":")[0]
    names = parser.parse_args().names or [name for name, script in SCRIPTS.items() if script.device == kind]
    os.environ.setdefault("OPENAI_API_KEY", "none")
    for name in names:
        with tempfile.TemporaryDirectory(prefix="warpsmith-recording-") as home:
            print(make(SCRIPTS[name], Path(home)))


if __name__ == "__main__":
    main()

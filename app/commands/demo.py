"""Watch a bundled module get faster: recorded decisions, but build, verify and profile are done here and now.

Needs no key and no GPU. The project it opens is a scratch copy: accept, reject, land and undo as you like.
"""

from __future__ import annotations

import argparse
import sys

from app.commands.options import add_machine_options, settings_from
from app.demo_project import DEMO_TARGET, copy_project
from sandbox.machine.devices import resolve_device
from sandbox.target import resolve_target

READING_PACE = 2.0


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("--headless", action="store_true", help="without the screen")
    add_machine_options(parser)


def main(options: argparse.Namespace) -> int:
    """Copy the project and open it with the recording as the model."""
    from dataclasses import replace

    headless = options.headless or not sys.stdout.isatty()
    if not headless:
        from app.terminal import require_terminal

        require_terminal("warpsmith demo --headless")  # before there is a project and a session that nobody will see
    settings = settings_from(options)
    device = resolve_device(settings.device)
    project = copy_project(settings.home / "demo")
    pace = 0.0 if headless else READING_PACE
    settings = replace(settings, model=f"replay:demo-{device.partition(':')[0]}", device=device, replay_delay=pace)
    spec = resolve_target(f"{project / DEMO_TARGET[0]}:{DEMO_TARGET[1]}", python=settings.python, device=device)
    if headless:
        from agent.headless import run

        return run(spec, settings, json=False, land="never")
    from agent.session import create_session
    from app.ide import run_ide

    return run_ide(create_session(spec, settings, settings.home), autostart=True)

"""What the session's screen opens in the developer's editor; what goes wrong is said in a notice."""

from __future__ import annotations

import tempfile
from pathlib import Path

from textual.app import App

from app.blocks import Call
from app.controller import SessionController
from app.editor import edit
from sandbox.errors import WarpsmithError


def edit_workspace_file(app: App[object], controller: SessionController, file: str, line: int) -> bool:
    """Open a file of the workspace, and tell whether it was changed."""
    return _edit(app, controller.session.workspace / file, line)


def open_own_file(app: App[object], controller: SessionController, line: int) -> None:
    """Open the developer's own file."""
    _edit(app, controller.task.landing.path, line)


def open_output(app: App[object], controller: SessionController, call: Call) -> None:
    """Open a copy of the whole of an output that was clipped for the agent."""
    try:
        content = controller.files.blob(call.full or "")
    except WarpsmithError as error:
        app.notify(str(error), severity="error")
        return
    with tempfile.TemporaryDirectory(prefix="warpsmith-") as folder:
        output = Path(folder) / f"{call.call_id or 'output'}.txt".replace("/", "-")
        output.write_bytes(content)
        _edit(app, output, 1)


def _edit(app: App[object], path: Path, line: int) -> bool:
    try:
        return edit(app, path, line)
    except WarpsmithError as error:
        app.notify(str(error), severity="error")
        return False

"""Opens a file in the developer's editor while the screen steps aside."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

from textual.app import App, SuspendNotSupported

from sandbox.errors import EnvironmentFault

FALLBACKS = ("nano", "vim", "vi")
_LINE_AFTER_PLUS = {"nano", "vi", "vim", "nvim", "emacs", "emacsclient", "kak", "micro", "joe"}
_LINE_AFTER_COLON = {"hx", "helix", "subl", "zed"}


def editor_command(path: Path, line: int) -> list[str]:
    """Return the command that opens a file at a line: ``$VISUAL``, ``$EDITOR``, or what is installed.

    Raises:
        EnvironmentFault: There is no editor.
    """
    named = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    command = shlex.split(named) if named else [name for name in FALLBACKS if shutil.which(name)][:1]
    if not command or shutil.which(command[0]) is None:
        missing = f"'{command[0]}' is not installed" if command else "none is installed"
        raise EnvironmentFault(
            f"There is no editor: {missing}.", where="$EDITOR", next_step="Set EDITOR and try again."
        )
    program = Path(command[0]).name
    if program in _LINE_AFTER_PLUS:
        return [*command, f"+{line}", str(path)]
    if program in _LINE_AFTER_COLON:
        return [*command, f"{path}:{line}"]
    if program in ("code", "codium", "cursor"):
        return [*command, "--wait", "--goto", f"{path}:{line}"]
    return [*command, str(path)]


def edit(app: App[object], path: Path, line: int) -> bool:
    """Open a file in the editor, wait until it is closed, and tell whether the file changed.

    Raises:
        EnvironmentFault: There is no such file or no editor, or the terminal cannot be handed over.
    """
    if not path.is_file():
        raise EnvironmentFault("There is no such file any more.", where=str(path))
    command = editor_command(path, line)
    before = path.read_bytes()
    try:
        with app.suspend():
            subprocess.run(command, check=False)
    except SuspendNotSupported as error:
        raise EnvironmentFault(
            "This terminal cannot be handed to an editor.", next_step=f"Open {path} yourself."
        ) from error
    return path.read_bytes() != before

"""Kernels are built while the model still writes or thinks, so that its Check finds them built.

As soon as a call that changes a kernel file is whole in the stream, the file is built as it will be; once all calls of an
answer have run, the workspace as it is then. Builds are known by their content, so that one too many does no harm, and
nothing of it is stored.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from agent import events as ev
from agent.permissions.rules import WRITING
from agent.stream import Stream
from agent.tools.base import ToolProblem
from agent.tools.edits import decode, encode, replace, replacements
from agent.tools.places import Places
from sandbox.errors import UsageError
from sandbox.workspace import KERNELS


class BuildsAhead:
    """Follows a session's events, and begins builds.

    Args:
        stream: The session's events.
        places: The workspace.
        begin: Begins to build these files; see ``Judging.build_ahead``.
        unasked: Whether calls that change files need no word of the developer's now.
    """

    def __init__(
        self,
        stream: Stream,
        places: Places,
        begin: Callable[[Mapping[str, bytes]], None],
        unasked: Callable[[], bool],
    ) -> None:
        self._state = stream.state
        self._places = places
        self._begin = begin
        self._unasked = unasked
        self._files: dict[str, bytes] = {}
        self._pieces: dict[int | None, list[str]] = {}

    def observe(self, event: ev.Event) -> None:
        """Be told of an event, stored or live."""
        match event:
            case ev.Delta(kind="tool", call=call, name=name, text=text):
                pieces = self._pieces.setdefault(call, [])
                pieces.append(text)
                if name in WRITING and text.rstrip().endswith("}"):
                    self._take("".join(pieces), name)
            case ev.ModelRetry() | ev.ModelTurn():
                self._files, self._pieces = {}, {}
            case ev.ToolFinished() if not self._state.open_calls:
                with contextlib.suppress(UsageError):  # Check says what is wrong with the files
                    self._begin(self._places.workspace.files())

    def _take(self, text: str, name: str) -> None:
        """Build what a call makes of a kernel file, if these arguments are whole and the call is one that can be made."""
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError, ToolProblem, OSError, UsageError):
            arguments = json.loads(text)
            path = self._places.writable(arguments["file_path"])
            if path.startswith(f"{KERNELS}/") and self._unasked():
                self._files[path] = self._as_it_will_be(path, name, arguments)
                self._begin({**self._places.workspace.files(), **self._files})

    def _as_it_will_be(self, path: str, name: str, arguments: Mapping[str, Any]) -> bytes:
        if name == "Write":
            return str(arguments["content"]).encode()
        text = decode(self._files.get(path) or self._places.read(path))
        for change in replacements(arguments):
            text = replace(text, change)
        return encode(text)

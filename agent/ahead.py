"""What a Check will ask for is begun before it asks: kernels are built, and an edited workspace is judged.

As soon as a call that changes a kernel file is whole in the stream, the file is built as it will be. Once all calls of an
answer have run, the workspace as it is then is built and gets a quick verdict while the model thinks. Builds are known by
their content and verdicts by the files they are of, so that one too many does no harm.

The model is told nothing of it. What it sees then follows from what it asked for and not from how long it thought: an
attempt belongs to the turn that asked, and a session can be replayed.
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

Begin = Callable[[Mapping[str, bytes]], None]
"""Begins something with these files of a workspace."""


class WorkAhead:
    """Follows a session's events, and begins work.

    Args:
        stream: The session's events.
        places: The workspace.
        build: Begins to build these files; see ``Judging.build_ahead``.
        judge: Begins to judge them; see ``Judging.judge_ahead``.
        unasked: Whether calls that change files need no word of the developer's now.
    """

    def __init__(
        self, stream: Stream, places: Places, *, build: Begin, judge: Begin, unasked: Callable[[], bool]
    ) -> None:
        self._state = stream.state
        self._places = places
        self._build = build
        self._judge = judge
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
                self.begin()

    def begin(self) -> None:
        """Begin with the workspace as it is: after an answer, or where an engine that was killed had left it."""
        with contextlib.suppress(UsageError):  # Check says what is wrong with the files
            files = self._places.workspace.files()
            self._build(files)
            self._judge(files)

    def _take(self, text: str, name: str) -> None:
        """Build what a call makes of a kernel file, if these arguments are whole and the call is one that can be made."""
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError, ToolProblem, OSError, UsageError):
            arguments = json.loads(text)
            path = self._places.writable(arguments["file_path"])
            if path.startswith(f"{KERNELS}/") and self._unasked():
                self._files[path] = self._as_it_will_be(path, name, arguments)
                self._build({**self._places.workspace.files(), **self._files})

    def _as_it_will_be(self, path: str, name: str, arguments: Mapping[str, Any]) -> bytes:
        if name == "Write":
            return str(arguments["content"]).encode()
        text = decode(self._files.get(path) or self._places.read(path))
        for change in replacements(arguments):
            text = replace(text, change)
        return encode(text)

"""Read, Write, Edit and MultiEdit: the files of the workspace."""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import PurePosixPath
from typing import Any

from agent.tools.base import FunctionTool, Tool, ToolProblem, ToolResult, clipped
from agent.tools.edits import (
    Replacement,
    around_change,
    clean,
    decode,
    encode,
    line_end,
    numbered,
    replace,
    replacements,
    shown,
    with_line_end,
)
from agent.tools.places import Places

DEFAULT_LINES = 2000
LONGEST_LINE = 2000
_IMAGES = {".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".ico", ".tif", ".tiff"}

_PATH = {
    "type": "string",
    "minLength": 1,
    "description": "Path relative to the workspace, such as kernels/fused_norm.cu.",
}
_EDIT: dict[str, Any] = {
    "old_string": {
        "type": "string",
        "description": "The text to replace, exactly as it stands in the file, without line numbers.",
    },
    "new_string": {"type": "string", "description": "The text to put in its place."},
    "replace_all": {
        "type": "boolean",
        "description": "Replace every occurrence. Default false: it must occur exactly once.",
    },
}


class Files:
    """The file tools, and what they remember: which content of a file the model has seen."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._seen: dict[str, str] = {}

    def tools(self) -> list[Tool]:
        """Return the four tools."""
        lines: dict[str, Any] = {
            "offset": {
                "type": "integer",
                "minimum": 1,
                "description": "First line to show, counting from 1. Default 1.",
            },
            "limit": {"type": "integer", "minimum": 1, "description": f"Most lines to show. Default {DEFAULT_LINES}."},
        }
        edits = {
            "type": "array",
            "minItems": 1,
            "description": "Edits, made one after the other; each sees the text the one before left.",
            "items": {
                "type": "object",
                "properties": _EDIT,
                "required": ["old_string", "new_string"],
                "additionalProperties": False,
            },
        }
        return [
            FunctionTool("Read", _READ, {"file_path": _PATH, **lines}, self.read, ("file_path",), read_only=True),
            FunctionTool(
                "Write", _WRITE, {"file_path": _PATH, "content": _CONTENT}, self.write, ("file_path", "content")
            ),
            FunctionTool(
                "Edit", _EDIT_TEXT, {"file_path": _PATH, **_EDIT}, self.edit, ("file_path", "old_string", "new_string")
            ),
            FunctionTool(
                "MultiEdit", _MULTI_EDIT, {"file_path": _PATH, "edits": edits}, self.multi_edit, ("file_path", "edits")
            ),
        ]

    def saw(self, path: str, content: bytes) -> None:
        """Take note that the model has seen the whole of a file elsewhere; ``path`` is relative to the workspace."""
        self._seen[path] = _digest(content)

    def saw_before(self, file_path: str, when: float) -> None:
        """Take note that the model saw a file at a Unix time; one that was changed since, or is gone, it has not seen."""
        with contextlib.suppress(ToolProblem, OSError):
            path = self._places.relative(file_path)
            # Not ctime: the cell of a shell changes owners.
            changed = (self._places.workspace.folder / path).lstat().st_mtime
            if changed <= when:
                self.saw(path, self._places.read(path))

    def read(self, file_path: str, offset: int = 1, limit: int = DEFAULT_LINES) -> ToolResult:
        """Show numbered lines of a text file."""
        path = self._places.relative(file_path)
        content = self._places.read(path)
        _refuse_binary(path, content)
        self.saw(path, content)
        lines = shown(decode(content)).split("\n")
        if lines[-1] == "":
            lines.pop()
        if not lines:
            return ToolResult(ok=True, text=f"{path} is empty.")
        if offset > len(lines):
            raise ToolProblem(f"{path} has only {len(lines)} lines.")
        wanted = lines[offset - 1 : offset - 1 + limit]
        text = numbered([_short(line) for line in wanted], offset)
        last = offset - 1 + len(wanted)
        if last < len(lines):
            text += f"\n[lines {last + 1} to {len(lines)} follow; read on with offset {last + 1}]"
        return clipped(text)

    def write(self, file_path: str, content: str) -> str:
        """Make or replace a file."""
        path = self._places.writable(file_path)
        text, existing = content, None
        if self._places.exists(path):
            existing = self._places.read(path)
            if path not in self._seen:
                raise ToolProblem(f"{path} exists and you have not read it. Read it first, or use Edit.")
            if self._seen[path] != _digest(existing):
                raise ToolProblem(f"{path} has changed since you read it. Read it again first.")
            text = with_line_end(content, line_end(decode(existing)))
        self._put(path, clean(text).encode())
        return f"{'Made' if existing is None else 'Replaced'} {path} ({len(content.splitlines())} lines)."

    def edit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> str:
        """Replace a piece of text in a file."""
        return self._change(file_path, [Replacement(old_string, new_string, replace_all)])

    def multi_edit(self, file_path: str, edits: list[dict[str, Any]]) -> str:
        """Make several replacements in one file, all or none."""
        return self._change(file_path, replacements({"edits": edits}))

    def _change(self, file_path: str, changes: list[Replacement]) -> str:
        path = self._places.writable(file_path)
        content = self._places.read(path)
        _refuse_binary(path, content)
        before = after = decode(content)
        for number, change in enumerate(changes, 1):
            try:
                after = replace(after, change)
            except ToolProblem as problem:
                which = f" Edit {number} of {len(changes)}:" if len(changes) > 1 else ""
                raise ToolProblem(f"{path} was not changed.{which} {problem}") from None
        self._put(path, encode(after))
        made = f"Made {len(changes)} edits in" if len(changes) > 1 else "Changed"
        return f"{made} {path}:\n{shown(around_change(before, after))}"

    def _put(self, path: str, content: bytes) -> None:
        self._places.write(path, content)
        self.saw(path, content)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _refuse_binary(path: str, content: bytes) -> None:
    if PurePosixPath(path).suffix.lower() in _IMAGES:
        raise ToolProblem(f"{path} is an image, which cannot be shown.")
    if b"\0" in content:
        raise ToolProblem(f"{path} is a binary file of {len(content):,} bytes. Look at it with Bash (file, xxd, nm).")


def _short(line: str) -> str:
    left = len(line) - LONGEST_LINE
    return line if left <= 0 else f"{line[:LONGEST_LINE]}[... {left:,} more characters]"


_CONTENT = {"type": "string", "description": "The whole content of the file."}
_READ = (
    "Show a text file of the workspace with line numbers. Use offset and limit for long files. "
    "The numbers and the tab after them are not part of the file."
)
_WRITE = (
    "Make a file, or replace all of it. A file that exists must have been read first, or shown whole by the task. Missing "
    "folders are made. For small changes Edit is better."
)
_EDIT_TEXT = (
    "Replace one piece of text in a file. old_string must match exactly, indentation included, and occur exactly once: "
    "include enough of what surrounds it, or set replace_all."
)
_MULTI_EDIT = (
    "Make several replacements in one file, in order; all of them or, if one cannot be made, none. Each as in Edit."
)

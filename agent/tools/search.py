"""Glob and Grep: finding files and lines of the workspace."""

from __future__ import annotations

import json
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

from agent.globs import glob_regex
from agent.tools.base import SCREEN, FunctionTool, Tool, ToolProblem, ToolResult, clipped
from agent.tools.edits import decode, shown
from agent.tools.places import Places
from sandbox import beneath

MOST_PATHS = 500
DEFAULT_MATCHES = 200
_LARGEST_SEARCHED = 2_000_000
_SEARCH_SECONDS = 20
_LONGEST_LINE = 500
_MATCHER = Path(__file__).with_name("match_lines.py")

_PATTERN_PATH = {
    "type": "string",
    "description": "Folder or file to look in, relative to the workspace. Default: all of it.",
}


class Search:
    """The two tools that look for something."""

    def __init__(self, places: Places) -> None:
        self._places = places

    def tools(self) -> list[Tool]:
        """Return Glob and Grep."""
        glob = {
            "pattern": {
                "type": "string",
                "minLength": 1,
                "description": "Such as **/*.cu, kernels/*.{cu,cuh} or *.py.",
            },
            "path": _PATTERN_PATH,
        }
        grep: dict[str, Any] = {
            "pattern": {
                "type": "string",
                "minLength": 1,
                "description": "A regular expression, as Python's re takes it.",
            },
            "path": _PATTERN_PATH,
            "glob": {"type": "string", "description": "Look only in files that match this, such as *.cu."},
            "output_mode": {
                "type": "string",
                "enum": ["content", "files_with_matches", "count"],
                "description": "Show matching lines with their numbers (default), only the files, or how often in each file.",
            },
            "ignore_case": {"type": "boolean", "description": "Default false."},
            "multiline": {
                "type": "boolean",
                "description": "Let the pattern span lines; . matches line ends too. Default false.",
            },
            "context": {
                "type": "integer",
                "minimum": 0,
                "maximum": 20,
                "description": "Lines to show around each. Default 0.",
            },
            "head_limit": {
                "type": "integer",
                "minimum": 1,
                "description": f"Most matches to show. Default {DEFAULT_MATCHES}.",
            },
        }
        return [
            FunctionTool("Glob", _GLOB, glob, self.glob, ("pattern",), read_only=True),
            FunctionTool("Grep", _GREP, grep, self.grep, ("pattern",), read_only=True),
        ]

    def glob(self, pattern: str, path: str = ".") -> ToolResult:
        """List files whose path matches."""
        base = self._places.relative(path)
        matches = glob_regex(pattern)
        prefix = "" if base == "." else f"{base}/"
        found = [each for each in self._files(base) if matches.fullmatch(each.removeprefix(prefix))]
        if not found:
            return ToolResult(ok=True, text=f"No file matches {pattern}.")
        more = f"\n[{len(found) - MOST_PATHS} more]" if len(found) > MOST_PATHS else ""
        return clipped("\n".join(found[:MOST_PATHS]) + more, limit=SCREEN)

    def grep(
        self,
        pattern: str,
        path: str = ".",
        glob: str = "",
        output_mode: str = "content",
        ignore_case: bool = False,
        multiline: bool = False,
        context: int = 0,
        head_limit: int = DEFAULT_MATCHES,
    ) -> ToolResult:
        """Find lines that match."""
        texts = self._texts(self._places.relative(path), glob)
        found = _match(pattern, texts, ignore_case=ignore_case, multiline=multiline)
        if not found:
            return ToolResult(ok=True, text=f"Nothing in {len(texts)} files matches.")
        if output_mode == "files_with_matches":
            return clipped("\n".join(found), limit=SCREEN)
        if output_mode == "count":
            return clipped("\n".join(f"{file}: {len(lines)}" for file, lines in found.items()), limit=SCREEN)
        return clipped(_show(texts, found, context, head_limit), limit=SCREEN)

    def _files(self, base: str) -> list[str]:
        """Return every regular file below a folder, or the file itself; the history is left out."""
        root = self._places.workspace.folder
        what = stat.S_IFDIR if base == "." else beneath.kind(root, base)
        if what == 0:
            raise ToolProblem(f"{base} does not exist.")
        if what != stat.S_IFDIR:
            return [base]
        found = beneath.walk(root, "" if base == "." else base)
        return [path for path, status in found if stat.S_ISREG(status.st_mode) and path.split("/")[0] != ".git"]

    def _texts(self, base: str, glob: str) -> dict[str, str]:
        """Return the text files to look in, by path."""
        wanted = glob_regex(glob if "/" in glob else f"**/{glob}") if glob else None
        texts = {}
        for path in self._files(base):
            if wanted is None or wanted.fullmatch(path):
                content = self._places.read(path)
                if len(content) <= _LARGEST_SEARCHED and b"\0" not in content:
                    texts[path] = shown(decode(content))
        return texts


def _match(pattern: str, texts: dict[str, str], *, ignore_case: bool, multiline: bool) -> dict[str, list[int]]:
    """Return the numbers of matching lines by file, searched in a process that can be stopped: a pattern can run forever."""
    flags = (re.IGNORECASE if ignore_case else 0) | (re.DOTALL | re.MULTILINE if multiline else 0)
    try:
        re.compile(pattern, flags)
    except re.error as error:
        raise ToolProblem(f"The pattern is no regular expression: {error}. Escape what is meant literally.") from None
    request = json.dumps({"pattern": pattern, "flags": int(flags), "multiline": multiline, "texts": texts})
    command = [sys.executable, "-I", "-S", str(_MATCHER)]
    try:
        answer = subprocess.run(
            command, input=request, capture_output=True, text=True, timeout=_SEARCH_SECONDS, check=True
        )
    except subprocess.TimeoutExpired:
        raise ToolProblem(f"The search took longer than {_SEARCH_SECONDS} s. Simplify the pattern.") from None
    found: dict[str, list[int]] = json.loads(answer.stdout)
    return found


def _show(texts: dict[str, str], found: dict[str, list[int]], context: int, most: int) -> str:
    """Return matching lines as ``file:number:line``, and lines around them as ``file-number-line``."""
    total = sum(map(len, found.values()))
    shown_lines: list[str] = []
    left = most
    for file, numbers in found.items():
        lines = texts[file].split("\n")
        last, hits = 0, set(numbers)
        for number in numbers[:left]:
            begin = max(number - context, last + 1)
            if context and shown_lines and begin > last + 1:
                shown_lines.append("--")
            for each in range(begin, min(number + context, len(lines)) + 1):
                sign = ":" if each in hits else "-"
                shown_lines.append(f"{file}{sign}{each}{sign}{lines[each - 1].rstrip()[:_LONGEST_LINE]}")
                last = each
        left -= min(left, len(numbers))
    if total > most:
        shown_lines.append(f"[{total - most} more matches]")
    return "\n".join(shown_lines)


_GLOB = "List files of the workspace whose path matches a pattern."
_GREP = "Find lines of the workspace's text files that match a regular expression."

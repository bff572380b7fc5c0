r"""Rules for tool calls: ``Tool`` or ``Tool(pattern)``, in the lists ``allow``, ``ask`` and ``deny`` of the settings.

- ``Write(kernels/**)``: a path of the workspace, as Glob takes it. ``Write`` stands for every tool that changes a file. What it
  denies, the shell cannot write either: files that are there when it starts, and all below a folder.
- ``Bash(git log *)``: a command; ``*`` stands for any text, ``\\*`` for itself, and a `` *`` at the end also for no text. A
  command line is taken apart at ``;``, ``&``, ``|`` and line ends: ``ask`` and ``deny`` hold if they fit one part, ``allow``
  only if every part is allowed, and never for a line with a substitution or a redirection, which no pattern sees through.
- ``Check``: the tool, whatever it is called with. ``*``: any tool.

A rule about commands keeps a developer from surprises. What a command can reach is settled by the isolation, not by its text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.globs import glob_regex

WRITING = ("Write", "Edit", "MultiEdit", "NotebookEdit")
_RULE = re.compile(r"(\*|[A-Za-z]\w*)(?:\((.+)\))?", re.DOTALL)
_PATHS = ("file_path", "notebook_path", "path")
_ASSIGNMENTS = re.compile(r"^(?:\w+=\S* )+")
_OPAQUE = re.compile(r"[`<>]|\$[({]|\b(?:eval|exec|source|xargs)\b")


@dataclass(frozen=True)
class Rule:
    """One rule; ``pattern`` is empty where it holds for every call of the tool."""

    tool: str
    pattern: str = ""

    def __str__(self) -> str:
        """Return the rule as it is written."""
        return f"{self.tool}({self.pattern})" if self.pattern else self.tool

    def speaks_of(self, tool: str) -> bool:
        """Whether it is about this tool."""
        return self.tool in (tool, "*") or (self.tool == "Write" and tool in WRITING)

    def fits(self, tool: str, subject: str) -> bool:
        """Whether it is about this tool and this path or simple command."""
        if not self.speaks_of(tool):
            return False
        if not self.pattern:
            return True
        expression = _command_regex(self.pattern) if tool == "Bash" else glob_regex(self.pattern)
        return expression.fullmatch(subject) is not None


def parse_rule(text: str) -> Rule:
    """Read a rule.

    Raises:
        ValueError: The text is none.
    """
    match = _RULE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"'{text}' is no rule; one looks like Bash(git log *), Write(kernels/**) or Check")
    rule = Rule(match[1], (match[2] or "").strip())
    try:
        glob_regex(rule.pattern)
    except re.error as error:
        raise ValueError(f"'{text}' is no rule: {error}") from error
    return rule


def first_fit(rules: Sequence[Rule], tool: str, arguments: Mapping[str, Any]) -> Rule | None:
    """Return the first rule that fits a call or a part of it, for ``ask`` and ``deny``."""
    parts = subjects(tool, arguments)
    if tool == "Bash":
        parts += [bare for part in parts if (bare := _ASSIGNMENTS.sub("", part)) != part]
    return next((rule for rule in rules if any(rule.fits(tool, part) for part in parts)), None)


def covers(rules: Sequence[Rule], tool: str, arguments: Mapping[str, Any]) -> bool:
    """Whether every part of a call is fit by a rule, for ``allow``."""
    if any(rule.speaks_of(tool) and not rule.pattern for rule in rules):
        return True
    if tool == "Bash":
        command = str(arguments.get("command", "")).strip()
        if any(rule.speaks_of(tool) and rule.pattern == as_pattern(command) for rule in rules):
            return True
        if _OPAQUE.search(command):
            return False
    return all(any(rule.fits(tool, part) for rule in rules) for part in subjects(tool, arguments))


def subjects(tool: str, arguments: Mapping[str, Any]) -> list[str]:
    """Return what rules look at: the parts of a command, the path of a file tool, else an empty text."""
    if tool == "Bash":
        command = str(arguments.get("command", "")).replace("\\\n", " ")
        parts = [" ".join(part.split()) for part in re.split(r"[;&|\n(){}`]+", command)]
        return [part for part in parts if part] or [""]
    path = next((str(arguments[name]) for name in _PATHS if name in arguments), "")
    return [path.removeprefix("./")]


def as_pattern(command: str) -> str:
    """Return the pattern that fits exactly this command."""
    return command.replace("*", r"\*")


def _command_regex(pattern: str) -> re.Pattern[str]:
    """``*`` is any text; at the end after a space it stands for no arguments too."""
    bare = pattern.removesuffix(" *")
    expression = ".*".join(re.escape(piece.replace(r"\*", "*")) for piece in re.split(r"(?<!\\)\*", bare))
    return re.compile(expression + ("(?: .*)?" if bare != pattern else ""), re.DOTALL)

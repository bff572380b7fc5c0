"""The developer's decisions: what they say, accept, reject, allow and land, and what came of it."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Literal

from agent.events.base import Event, named


@named("hunk_accepted")
class HunkAccepted(Event):
    """The developer took this hunk (``hunk`` is its id; for a kernel file, the whole file)."""

    attempt: int
    file: str
    hunk: str


@named("hunk_rejected")
class HunkRejected(Event):
    """The developer refused this hunk, and why, in their words."""

    attempt: int
    file: str
    hunk: str
    reason: str


@named("steered")
class Steered(Event):
    """The developer told the agent something; ``skill`` is the skill they gave with it, as the agent is told it."""

    text: str
    skill: str = ""


@named("interrupted")
class Interrupted(Event):
    """The developer stopped the run."""


@named("landed")
class Landed(Event):
    """An accepted state was written into the developer's tree.

    Attributes:
        files: One of ``{"path", "before", "after"}`` each; blob hashes, ``before`` null for a new file.
        commit: The commit it is, where it was wanted as one.
        notes: What a commit of the developer's own would have done and this one did not.
    """

    landing: int
    attempt: int
    files: list[dict[str, Any]]
    partial: bool
    verdict: dict[str, Any]
    commit: str = ""
    notes: list[str] = field(default_factory=list)


@named("landing_refused")
class LandingRefusedEvent(Event):
    """A landing or an undo was not carried out; nothing was written."""

    what: str
    where: str = ""
    next_step: str = ""


@named("undone")
class Undone(Event):
    """A landing was taken back, as far as it could be.

    Attributes:
        files: What became of each file: ``{"path", "outcome"}``.
        changes: What was written to take it back, in the form of ``Landed.files``; its inverse is the redo.
        commit: The commit that takes the landing's back, if one was made.
        notes: Why none was, or what that commit left out.
    """

    landing: int
    files: list[dict[str, str]]
    changes: list[dict[str, Any]] = field(default_factory=list)
    commit: str = ""
    notes: list[str] = field(default_factory=list)


@named("permission_asked")
class PermissionAsked(Event):
    """A tool call waits for the developer's word. A session that is resumed asks anew.

    Attributes:
        what: The literal command, or one line a file with its added and removed lines.
        why: The agent's last sentence before the call.
        choices: ``{"scope", "text", "pattern"}`` each; ``scope`` is ``once``, ``session``, ``project`` or ``reject``, ``text``
            says what is allowed by it, and ``pattern`` is the rule that would be kept, empty where none is.
        detail: The whole change as a unified diff, for a call that changes a file.
    """

    call_id: str
    tool: str
    what: str
    why: str
    choices: list[dict[str, str]]
    detail: str = ""


@named("permission_answered")
class PermissionAnswered(Event):
    """The developer answered. ``scope`` and ``pattern`` are those of the choice taken; ``reason`` why it was rejected."""

    call_id: str
    decision: Literal["allow", "reject"]
    scope: str
    pattern: str = ""
    reason: str = ""


@named("mode_changed")
class ModeChanged(Event):
    """The developer chose another permission mode: ``read-only``, ``ask`` or ``auto``."""

    mode: str


@named("skills_trusted")
class SkillsTrusted(Event):
    """The developer trusts skills of the project: ``skills`` maps their folders to the hashes of their files as they read them.

    ``used`` tells whether this session's agent gets them: a conversation that has begun goes on without.
    """

    skills: dict[str, str]
    used: bool

"""The typed events a session is made of, and how one becomes a line of ``events.jsonl``.

A session is an append-only stream of these. The screen draws it, a crash resumes from it, exporters convert it and the
trainer reads it; live and replayed sessions go through the same code. Events of class :class:`Live` go to the screen and
are never stored: the finished thing they announce is.

The conversation with the model is a fold over the stream: ``conversation_started`` gives the system message and the
tools, then every ``user_message``, ``model_turn`` and ``tool_finished`` appends its message, in order, and ``compacted``
replaces all of it. So the prompt of any turn can be made again from the stream, byte by byte.
"""

from agent.events.base import FORMAT, Event, Live, from_json, to_json
from agent.events.conversation import (
    Compacted,
    ConversationStarted,
    ModelRetry,
    ModelTurn,
    Todo,
    ToolFinished,
    ToolStarted,
    UserMessage,
)
from agent.events.decisions import (
    HunkAccepted,
    HunkRejected,
    Interrupted,
    Landed,
    LandingRefusedEvent,
    ModeChanged,
    PermissionAnswered,
    PermissionAsked,
    SkillsTrusted,
    Steered,
    Undone,
)
from agent.events.judging import Attempt, JudgedAhead, OriginalProfiled, StageEvent
from agent.events.life import EndReason, ErrorEvent, RunEnded, RunStarted, SessionResumed, SessionStarted
from agent.events.live import JUDGED, Delta, EngineReady, StageAhead

__all__ = [
    "FORMAT",
    "JUDGED",
    "Attempt",
    "Compacted",
    "ConversationStarted",
    "Delta",
    "EndReason",
    "EngineReady",
    "ErrorEvent",
    "Event",
    "HunkAccepted",
    "HunkRejected",
    "Interrupted",
    "JudgedAhead",
    "Landed",
    "LandingRefusedEvent",
    "Live",
    "ModeChanged",
    "ModelRetry",
    "ModelTurn",
    "OriginalProfiled",
    "PermissionAnswered",
    "PermissionAsked",
    "RunEnded",
    "RunStarted",
    "SessionResumed",
    "SessionStarted",
    "SkillsTrusted",
    "StageAhead",
    "StageEvent",
    "Steered",
    "Todo",
    "ToolFinished",
    "ToolStarted",
    "Undone",
    "UserMessage",
    "from_json",
    "to_json",
]

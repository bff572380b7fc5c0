"""Sessions made by hand, event by event as the loop stores them, for exports to read."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from agent import events as ev
from agent.session import create_session
from agent.state import SessionState
from agent.store import SessionWriter
from agent.tokens import PromptTokens
from sandbox.verdict import Verdict
from tests.agent.support import make_settings, make_spec

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"The tool {name}.",
            "parameters": {"type": "object", "properties": properties, "required": list(properties)[:1]},
        },
    }
    for name, properties in (
        ("Write", {"file_path": {"type": "string"}, "content": {"type": "string"}}),
        ("Check", {"tier": {"type": "string", "enum": ["quick", "full"]}}),
    )
]
Call = tuple[str, str, str]
"""A call: id, tool, arguments as text."""
Encode = Callable[[str], Sequence[int]]


class Story:
    """A session as it is told, one thing after the other.

    Args:
        ids: Whether its server gives token ids and log-probabilities.
        encode: What its server makes token ids by.
    """

    def __init__(
        self, *, ids: bool = False, opening: str = "Make `Shifted` faster.", encode: Encode | None = None
    ) -> None:
        self.events: list[ev.Event] = []
        self.state = SessionState()
        self._ids = ids
        self._encode = encode or _encoded
        self._tokens = PromptTokens()
        self._prompt = list(range(10))
        self.add(ev.SessionStarted(task={}, model="local/policy", device="cpu", versions={}, files={}))
        self.add(ev.RunStarted(turn_limit=9))
        self.add(ev.ConversationStarted(message={"role": "system", "content": "You write kernels."}, tools=TOOLS))
        self.say(opening, "task")

    def add(self, event: ev.Event) -> None:
        """Let something happen."""
        self.events.append(event)
        self.state.apply(event)

    def compact(self, summary: str) -> None:
        """Shorten the conversation to its opening, a summary and the last answer with what it led to."""
        messages = self.state.messages
        last = max((n for n, message in enumerate(messages) if message["role"] == "assistant"), default=len(messages))
        kept = [*messages[:2], {"role": "user", "content": summary}, *messages[max(2, last) :]]
        self.add(ev.Compacted(messages=kept, tokens_before=100, tokens_after=50))
        self._prompt = [*range(10), 998, *self._encode(summary)]

    def say(self, text: str, origin: Any = "notice") -> None:
        """Tell the model something."""
        self.add(ev.UserMessage(message={"role": "user", "content": text}, origin=origin))
        self._hear(text)

    def answer(self, text: str, *calls: Call, **fields: Any) -> None:
        """Let the model answer."""
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if calls:
            message["tool_calls"] = [
                {"id": i, "type": "function", "function": {"name": name, "arguments": arguments}}
                for i, name, arguments in calls
            ]
        written = [*self._encode(json.dumps(message))] if self._ids else None
        kept, new = self._tokens.shorten(self._prompt) if self._ids else (0, None)
        event = ev.ModelTurn(
            turn=self.state.turns + 1,
            message=message,
            prompt_sha256=self.state.prompt_sha256,
            model="local/policy",
            seconds=1.5,
            token_ids=written,
            logprobs=None if written is None else [-0.25] * len(written),
            prompt_tokens_kept=kept,
            prompt_token_ids=new,
            **{"finish_reason": "tool_calls" if calls else "stop", **fields},
        )
        self._tokens.lengthen(event)
        self._prompt = self._prompt + (written or [])
        self.add(event)

    def result(self, call_id: str, name: str, text: str, *, ok: bool = True) -> None:
        """Let a call end."""
        message = {"role": "tool", "tool_call_id": call_id, "content": text}
        self.add(ev.ToolFinished(call_id=call_id, name=name, ok=ok, message=message, seconds=0.5))
        self._hear(text)

    def attempt(self, verdict: Verdict, call_id: str | None = None) -> None:
        """Let the workspace be judged."""
        number = len(self.state.judged) + 1
        files = {"shifted.py": f"{number:064}"}
        self.add(ev.Attempt(attempt=number, files=files, verdict=verdict.to_json(), call_id=call_id))

    def retemplate(self) -> None:
        """Let the server write the conversation so far in other tokens than it was sampled in."""
        self._prompt = [999, *self._prompt[1:]]

    def checked(self, verdict: Verdict, source: str = "fast") -> None:
        """Let the model write a file and check it, in one answer."""
        turn = self.state.turns + 1
        write, check = f"w{turn}", f"c{turn}"
        arguments = json.dumps({"file_path": "shifted.py", "content": source})
        self.answer(f"I try {source}.", (write, "Write", arguments), (check, "Check", '{"tier": "quick"}'))
        self.result(write, "Write", "Written.")
        self.attempt(verdict, check)
        self.result(check, "Check", verdict.reason)

    def end(self, reason: ev.EndReason = ev.EndReason.FINISHED) -> None:
        """End the run."""
        self.add(ev.RunEnded(reason=reason))

    def write(self, folder: Path) -> Path:
        """Write it as a session below ``folder`` and return the session's folder."""
        folder.mkdir(exist_ok=True, parents=True)
        settings = make_settings(folder, model="local/policy")
        session = create_session(make_spec(folder), settings, settings.home)
        writer = SessionWriter(session)
        for event in self.events:
            writer.append(event)
        writer.close()
        return session

    def _hear(self, text: str) -> None:
        self._prompt = [*self._prompt, *self._encode(text)]


def _encoded(text: str) -> Sequence[int]:
    return list(text.encode(errors="replace"))

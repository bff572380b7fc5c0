"""The session that is cut: what the model answers, and what the developer does, both told by nothing but what is stored.

The model counts the steps of the conversation it is sent, so an answer that was lost is given again, and a call that was
cut off is made again, as a model does that is told so. The developer looks at the stored events, so that a command whose
event was lost is sent again and no other is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agent import commands as cmd
from agent import events as ev
from agent.events import EndReason
from agent.landing.hunks import hunks
from agent.state import CUT_OFF, SessionState
from agent.store import read_blob, read_events
from tests.agent.test_end_to_end import CANDIDATE, FILE, KERNEL
from tests.servers.provider import Call, Reply, Scripted

REMARK = "    # in one pass over memory\n"
COMMENTED = CANDIDATE.replace("    def __init__", f"{REMARK}\n    def __init__")
WRONG = KERNEL.replace("y * y - in[i]", "y * y + in[i]")
MODULE_FILE = "shifted.py"
STEER = "Try it without the clamp as well."
GO_ON = "It is in. See whether more can be gained."
REASON = "keep our words"

STEPS: Mapping[int, Sequence[Call]] = {
    1: [Call("Read", {"file_path": MODULE_FILE}), Call("Glob", {"pattern": "*"})],
    2: [
        Call("Write", {"file_path": FILE, "content": KERNEL}),
        Call("Write", {"file_path": MODULE_FILE, "content": COMMENTED}),
    ],
    3: [Call("Check", {"note": "one pass"})],
    4: [Call("Bash", {"command": "sleep 0.6; echo slept > notes.txt; cat notes.txt"})],
    5: [Call("Write", {"file_path": FILE, "content": WRONG})],
    6: [Call("Check", {"note": "the other sign"})],
    7: [
        Call("Write", {"file_path": FILE, "content": KERNEL}),
        Call("TodoWrite", {"todos": [{"content": "one pass", "status": "completed"}]}),
    ],
    8: [],
    9: [Call("Bash", {"command": "sleep 0.3; cat notes.txt"}), Call("Read", {"file_path": MODULE_FILE})],
    10: [],
}
"""What the model does, step by step; every call may be made twice without harm."""
_FIRST_END = 8
_UNSEEN = ("exists and you have not read it", "has changed since you read it")


def script() -> list[Scripted]:
    """Return the server's script: the same answer to the same conversation, however often it is asked."""
    return [_answer] * 2000


def _answer(request: dict[str, Any]) -> Reply:
    messages = request["messages"]
    told = [message for message in messages if message["role"] == "assistant"]
    if not told:
        return _step(1, STEPS[1])
    step = step_of(told[-1])
    results = {m["tool_call_id"]: m["content"] for m in messages if m["role"] == "tool"}
    missing = [
        Call(call["function"]["name"], json.loads(call["function"]["arguments"]))
        for call in told[-1].get("tool_calls") or ()
        if results[call["id"]].startswith(CUT_OFF) or any(words in results[call["id"]] for words in _UNSEEN)
    ]
    if missing:
        return _step(step, list(_read_first(missing)), again=True)
    if STEPS[step]:
        return _step(step + 1, STEPS[step + 1])
    goes_on = step == _FIRST_END and any(GO_ON in str(m["content"]) for m in messages if m["role"] == "user")
    return _step(step + 1, STEPS[step + 1]) if goes_on else _step(step, ())


def _step(step: int, calls: Sequence[Call], *, again: bool = False) -> Reply:
    words = "what was cut off is done again" if again else "one step at a time, each said in a few words that stream"
    return Reply(text=f"[step {step}] {words}.", calls=calls, pause=0.004)


def _read_first(calls: Sequence[Call]) -> Iterator[Call]:
    """Yield the calls, before a Write a Read: the file may be there already."""
    for call in calls:
        if call.name == "Write":
            yield Call("Read", {"file_path": call.arguments["file_path"]})  # type: ignore[index]
        yield call


def step_of(message: Mapping[str, Any]) -> int:
    """Return the step that an assistant message belongs to."""
    found = re.match(r"\[step (\d+)\]", message["content"])
    assert found, message
    return int(found[1])


class Developer:
    """Sends what is due, once an engine; what was stored is not sent again.

    Args:
        folder: The session's.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sent: set[type[cmd.Command] | str] = set()

    def new_engine(self) -> None:
        """Forget what the last engine was sent: it is dead."""
        self._sent = set()

    def due(self) -> list[cmd.Command]:
        """Return what to send now; ``Close`` is the end."""
        stored = [item.event for item in read_events(self._folder)]
        state = SessionState()
        for event in stored:
            state.apply(event)
        fresh = [(key, command) for key, command in self._wishes(stored, state) if key not in self._sent]
        self._sent |= {key for key, _ in fresh}
        return [command for _, command in fresh]

    def _wishes(self, stored: Sequence[ev.Event], state: SessionState) -> Iterator[tuple[str, cmd.Command]]:
        steered = [event.text for event in stored if isinstance(event, ev.Steered)]
        step = max((step_of(m) for m in state.messages if m["role"] == "assistant"), default=0)
        ends = [n for n, event in enumerate(stored) if isinstance(event, ev.RunEnded) and _finished(event)]
        asked = next((n for n, event in enumerate(stored) if isinstance(event, ev.Steered) and event.text == GO_ON), -1)
        if step >= 4 and STEER not in steered:
            yield "steer", cmd.Steer(STEER)
        if step >= 5 and not state.decisions:
            yield "reject", cmd.RejectHunk(1, MODULE_FILE, self._remark(state), REASON)
        if not ends or (asked >= 0 and max(ends) < asked):
            yield "run", cmd.Run()
        elif asked >= 0:
            yield "close", cmd.Close()
        elif state.landings:
            yield "go on", cmd.Steer(GO_ON)
        else:
            yield "land", cmd.Land(1)

    def _remark(self, state: SessionState) -> str:
        """Return the hunk of attempt 1 that is a comment: without it the code, and so the best attempt, stays the same."""
        old, new = (
            {path: read_blob(self._folder, content) for path, content in files.items()}
            for files in (state.original_files, state.judged[0].files)
        )
        found = (hunk for hunk in hunks(old, new) if hunk.file == MODULE_FILE)
        return next(hunk.id for hunk in found if REMARK in hunk.new_lines)


def _finished(event: ev.RunEnded) -> bool:
    return event.reason == EndReason.FINISHED

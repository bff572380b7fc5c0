"""What a session that was cut has to share with one that was not, and what every session has to be by itself."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from agent import events as ev
from agent.state import CUT_OFF, SessionState
from agent.store import BLOBS, EVENTS, read_blob, read_events
from tests.agent.killed.play import Played, files_of
from tests.agent.killed.story import GO_ON, REASON, STEER, STEPS, step_of


def wrong(played: Played, undisturbed: Played) -> list[str]:
    """Return a line for everything that was lost, told twice, or came to another end."""
    stored = [item.event for item in read_events(played.folder)]
    return [
        *played.problems,
        *_same(played, undisturbed),
        *_nothing_lost(played),
        *_conversation(stored),
        *_told_once(stored),
        *_project(played, stored),
        *_rubbish(played.folder),
    ]


def _same(played: Played, undisturbed: Played) -> Iterator[str]:
    ours, theirs = _outcome(played.folder), _outcome(undisturbed.folder)
    for what, mine in ours.items():
        if mine != theirs[what]:
            yield f"{what} differ: {json.dumps(mine)[:600]} and undisturbed {json.dumps(theirs[what])[:600]}"


def _outcome(folder: Path) -> dict[str, Any]:
    """Return what may not depend on being killed.

    A call counts once it was done; how often one state is judged again depends on how busy the machine is.
    """
    state, calls, order = SessionState(), {}, []
    for item in read_events(folder):
        state.apply(item.event)
        if isinstance(item.event, ev.ModelTurn):
            step = step_of(item.event.message)
            order.append(step)
            asked = {
                call["id"]: (call["function"]["name"], json.loads(call["function"]["arguments"]))
                for call in item.event.message.get("tool_calls") or ()
            }
        if isinstance(item.event, ev.ToolFinished) and not item.event.message["content"].startswith(CUT_OFF):
            planned = [(call.name, call.arguments) for call in STEPS[step]]
            name_and_arguments = asked[item.event.call_id]
            if name_and_arguments in planned:
                calls[f"step {step} call {planned.index(name_and_arguments)}"] = item.event.ok
    verdicts = [[j.verdict.source_sha256, j.verdict.tier, j.verdict.correct] for j in state.judged]
    files = [dict(j.files) for j in state.judged]
    return {
        "steps": list(dict.fromkeys(order)),
        "order of steps": order == sorted(order),
        "calls": dict(sorted(calls.items())),
        "files of attempts": [each for n, each in enumerate(files) if each not in files[:n]],
        "verdicts": [each for n, each in enumerate(verdicts) if each not in verdicts[:n]],
        "best attempts": state.best.verdict.source_sha256 if state.best else None,
        "plans": state.todo,
        "landings": len(state.landings),
    }


def _nothing_lost(played: Played) -> Iterator[str]:
    lines = [json.loads(line) for line in (played.folder / EVENTS).read_bytes().splitlines()]
    if [line["n"] for line in lines] != list(range(1, len(lines) + 1)):
        yield "the events are not numbered one after the other"
    for told in played.lines:
        if lines[int(str(told["n"])) - 1] != told:
            yield f"event {told['n']} ({told['type']}) was told and is not stored"


def _conversation(stored: Sequence[ev.Event]) -> Iterator[str]:
    state = SessionState()
    for event in stored:
        if isinstance(event, ev.ModelTurn) and event.prompt_sha256 != state.prompt_sha256:
            yield f"the request of turn {event.turn} cannot be made again"
        state.apply(event)
    open_calls: list[str] = []
    for message in state.messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                yield f"a result that no call asked for, or a second one: {message['tool_call_id']}"
            else:
                open_calls.remove(message["tool_call_id"])
        elif open_calls:
            yield f"calls without a result: {open_calls}"
            open_calls = []
        open_calls += [call["id"] for call in message.get("tool_calls") or ()]
    turns = [event.turn for event in stored if isinstance(event, ev.ModelTurn)]
    if turns != list(range(1, len(turns) + 1)):
        yield f"turns are not counted one after the other: {turns}"


def _told_once(stored: Sequence[ev.Event]) -> Iterator[str]:
    told = [event.message["content"] for event in stored if isinstance(event, ev.UserMessage)]
    for words in (STEER, GO_ON, REASON, "The developer accepted attempt 1"):
        times = sum(words in text for text in told)
        if times != 1:
            yield f"the model was told {times} times: {words}"
    allowed = {"notice", "task", "steer", "decision", "contrast", "verdict"}
    odd = [event.origin for event in stored if isinstance(event, ev.UserMessage) and event.origin not in allowed]
    if odd:
        yield f"messages of unknown origin: {odd}"


def _project(played: Played, stored: Sequence[ev.Event]) -> Iterator[str]:
    landed = [event for event in stored if isinstance(event, ev.Landed)]
    expected = dict(played.before)
    for entry in (entry for event in landed for entry in event.files):
        path = str(Path(entry["path"]).relative_to(played.project))
        expected[path] = read_blob(played.folder, entry["after"])
    now = files_of(played.project)
    for path in sorted({*now, *expected}):
        if now.get(path) != expected.get(path):
            yield f"{path} of the project is not as it landed"


def _rubbish(folder: Path) -> Iterator[str]:
    for path in [
        *folder.glob(".*.tmp"),
        *(folder / BLOBS).glob(".*"),
        *folder.glob("scratch"),
        *folder.glob("landing.*"),
    ]:
        yield f"left in the session: {path.relative_to(folder)}"

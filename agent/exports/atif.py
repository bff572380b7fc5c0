"""ATIF 1.8, the Agent Trajectory Interchange Format of Harbor: one document a prompt segment.

A session that was compacted is several documents with one ``session_id``, each naming the next in
``continued_trajectory_ref``; what a later one repeats of an earlier one is ``is_copied_context``. What the format has no
place for (verdicts, rewards, the developer's decisions, sampling, identities) is in ``extra``, on the step after which it
happened. The format allows no key of its own making anywhere else.

Source: the models of ``harbor.models.trajectories`` (Apache-2.0), which ``tests/agent/exports/check_atif.py`` validates with.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from agent import events as ev
from agent.exports.evidence import DECISIONS, facts
from agent.exports.plain import arguments_of
from agent.exports.trajectory import Message, Note, Trajectory, Turn, answered

VERSION = "ATIF-v1.8"
_PLAIN = ("role", "content", "tool_calls", "reasoning_content")

Step = dict[str, Any]


def rows(trajectories: Iterable[Trajectory], note: Note) -> Iterator[dict[str, Any]]:
    """Yield the documents of each session, in order."""
    for trajectory in answered(trajectories, note):
        ids, earlier = trajectory.prompt_ids(), _Known()
        for number, segment in enumerate(trajectory.segments):
            steps = _steps(trajectory, segment, list(islice(ids, len(segment))), earlier)
            yield _document(trajectory, number, steps)
            earlier.learn((*segment[-1].conversation, *segment[-1].told))


def file_name(document: Mapping[str, Any]) -> str:
    """Return the file that ``continued_trajectory_ref`` of the document before names."""
    return f"{document['trajectory_id']}.json"


class _Known:
    """The messages of earlier documents."""

    def __init__(self) -> None:
        self._texts: set[str] = set()

    def learn(self, messages: Iterable[Message]) -> None:
        self._texts.update(json.dumps(message, sort_keys=True) for message in messages)

    def __contains__(self, message: Message) -> bool:
        return bool(self._texts) and json.dumps(message, sort_keys=True) in self._texts


def _document(trajectory: Trajectory, number: int, steps: list[Step]) -> dict[str, Any]:
    segments, session = trajectory.segments, trajectory.session
    document: dict[str, Any] = {
        "schema_version": VERSION,
        "session_id": session.id,
        "trajectory_id": _identifier(session.id, number),
        "agent": {
            "name": "warpsmith",
            "version": session.versions.get("warpsmith", "unknown"),
            "tool_definitions": segments[number][0].tools,
        },
        "steps": steps,
        "final_metrics": _totals(segments[number], len(steps)),
        "extra": {
            "outcome": facts(trajectory),
            "segment": number + 1,
            "segments": len(segments),
            "task": session.task.to_json(),
            "versions": session.versions,
            "original": trajectory.state.original,
        },
    }
    if session.settings.model:
        document["agent"]["model_name"] = session.settings.model
    if number + 1 < len(segments):
        document["continued_trajectory_ref"] = f"{_identifier(session.id, number + 1)}.json"
    return document


def _identifier(session: str, number: int) -> str:
    return session if number == 0 else f"{session}-{number + 1}"


def _steps(trajectory: Trajectory, segment: list[Turn], ids: list[list[int] | None], earlier: _Known) -> list[Step]:
    """Walk over a segment's conversation, and hang on each step what came of it."""
    answers = {len(turn.messages): (turn, prompt) for turn, prompt in zip(segment, ids, strict=True)}
    known_of = _known_of(trajectory)
    steps: list[Step] = []
    for index, message in enumerate((*segment[-1].conversation, *segment[-1].told)):
        if message["role"] == "tool" and steps:
            _observe(steps, message, known_of)
            continue
        step: Step = {"step_id": len(steps) + 1, **_said(message)}
        if index in answers:
            step |= _answered(*answers[index])
        elif index < len(segment[0].messages) and message in earlier:
            step["is_copied_context"] = True
        elif known := known_of.get(id(message)):
            step |= known
        if origin := trajectory.origin(message):
            step["extra"] = {"origin": origin}
        steps.append(step)
    return steps


def _known_of(trajectory: Trajectory) -> dict[int, dict[str, Any]]:
    """Return what is known of the messages that stand in a conversation as they are in an event, by their identity."""
    found: dict[int, dict[str, Any]] = {}
    for turn in trajectory.turns:
        for stored in turn.after:
            match stored.event:
                case ev.UserMessage(message=message):
                    found[id(message)] = {"timestamp": _iso(stored.time)}
                case ev.ToolFinished(message=message, ok=ok, seconds=seconds, full=full):
                    found[id(message)] = {"ok": ok, "seconds": seconds} | ({"full": full} if full else {})
    return found


def _said(message: Message) -> Step:
    """Return the part of a step that follows from the message alone."""
    source = {"system": "system", "assistant": "agent"}.get(message["role"], "user")
    step: Step = {"source": source, "message": _text(message.get("content"))}
    if message.get("tool_calls"):
        step["tool_calls"] = [
            {
                "tool_call_id": call["id"],
                "function_name": call["function"]["name"],
                "arguments": arguments_of(call["function"]["arguments"]),
            }
            for call in message["tool_calls"]
        ]
    if source == "agent" and message.get("reasoning_content"):
        step["reasoning_content"] = _text(message["reasoning_content"])
    return step


def _answered(turn: Turn, prompt: list[int] | None) -> Step:
    event = turn.event
    extra = {
        "finish_reason": event.finish_reason,
        "prompt_sha256": event.prompt_sha256,
        "prompt_proven": turn.proven,
        "seconds": event.seconds,
        "sampling": event.sampling,
        "identity": event.identity,
        "parse_errors": event.parse_errors,
        "tokens_note": event.tokens_note,
        "message": {key: value for key, value in event.message.items() if key not in _PLAIN},
        "attempts": [ev.to_json(attempt) for attempt in turn.attempts],
        "decisions": [ev.to_json(decision) for decision in turn.happened(*DECISIONS)],
    }
    step: Step = {
        "timestamp": _iso(turn.time),
        "model_name": event.model,
        "llm_call_count": 1,
        "extra": {key: value for key, value in extra.items() if value not in ("", [], {})},
    }
    if event.reasoning:
        step["reasoning_content"] = event.reasoning
    if metrics := _metrics(event, prompt):
        step["metrics"] = metrics
    return step


def _metrics(event: ev.ModelTurn, prompt: list[int] | None) -> dict[str, Any]:
    logprobs = event.logprobs if event.logprobs and None not in event.logprobs else None
    found = {
        **_counts(event.usage),
        "cost_usd": event.cost_usd,
        "prompt_token_ids": prompt,
        "completion_token_ids": event.token_ids,
        "logprobs": logprobs,
    }
    return {key: value for key, value in found.items() if value is not None}


def _counts(usage: Mapping[str, int]) -> dict[str, int]:
    """Return a provider's counts by the names of the format, whether ours stand beside its own or not."""
    names = {
        "prompt_tokens": ("input_tokens", "prompt_tokens"),
        "completion_tokens": ("output_tokens", "completion_tokens"),
        "cached_tokens": ("cached_input_tokens",),
    }
    return {
        name: usage[next(key for key in keys if key in usage)]
        for name, keys in names.items()
        if any(key in usage for key in keys)
    }


def _observe(steps: list[Step], message: Message, known_of: Mapping[int, dict[str, Any]]) -> None:
    """Add a call's result to the step that made the call; one whose call was compacted away goes to the last step."""
    call_id = message.get("tool_call_id")
    made = (step for step in reversed(steps) if call_id in {c["tool_call_id"] for c in step.get("tool_calls", ())})
    step = next(made, None)
    result: dict[str, Any] = {"content": _text(message.get("content"))}
    if step is not None:
        result["source_call_id"] = call_id
    if about := known_of.get(id(message)):
        result["extra"] = about
    (step or steps[-1]).setdefault("observation", {"results": []})["results"].append(result)


def _totals(segment: list[Turn], steps: int) -> dict[str, Any]:
    counts = [_counts(turn.event.usage) for turn in segment]
    totals: dict[str, Any] = {"total_steps": steps}
    for name in ("prompt_tokens", "completion_tokens", "cached_tokens"):
        if any(name in count for count in counts):
            totals[f"total_{name}"] = sum(count.get(name, 0) for count in counts)
    costs = [turn.event.cost_usd for turn in segment if turn.event.cost_usd is not None]
    return totals | ({"total_cost_usd": sum(costs)} if costs else {})


def _text(content: Any) -> str:
    """Return a message's text, which some providers want in parts."""
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content if isinstance(part, dict))
    return content or ""


def _iso(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).isoformat()

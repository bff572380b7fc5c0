"""Rows for verl: tasks to roll out, and token rows of sessions whose server gave token ids and log-probabilities.

Both load with verl's dataset of prompts, from JSON lines or parquet. A token row is what an agent loop hands back there:
``prompt_ids``, ``response_ids``, ``response_mask`` (1 for what the model wrote, 0 for what it was told),
``rollout_log_probs`` (0 where the mask is) and ``reward``, which belongs on the last token.

A row is a stretch (``agent.exports.stretches``). It ends with a token of the model's, because verl drops a reward that lies
on any other.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from agent.exports.evidence import facts
from agent.exports.plain import plain
from agent.exports.stretches import Span, Stretch, joined, served
from agent.exports.trajectory import Note, Trajectory, Turn, answered

SOURCE = "warpsmith"


def task_rows(trajectories: Iterable[Trajectory], note: Note) -> Iterator[dict[str, Any]]:
    """Yield a row for every task that sessions were begun on; sessions with the same opening are one."""
    seen: set[str] = set()
    for trajectory in answered(trajectories, note):
        if trajectory.turns[0].prompt_sha256 in seen:
            note("A session was begun on a task that is exported already.")
            continue
        seen.add(trajectory.turns[0].prompt_sha256)
        yield _row(trajectory, trajectory.turns[0], len(seen) - 1)


def token_rows(trajectories: Iterable[Trajectory], note: Note) -> Iterator[dict[str, Any]]:
    """Yield a row a stretch of tokens that go on from one another; every one has the reward of the whole session."""
    index = 0
    for trajectory in answered(trajectories, note):
        stretches = _stretches(trajectory, note)
        reward = trajectory.reward
        if reward is None:
            note("Nobody can say what a session earns: it was not judged, or the machine was at fault.")
            continue
        for number, stretch in enumerate(stretches, 1):
            row = _row(trajectory, stretch.spans[0].turn, index, agent="warpsmith_replay")
            spans = json.dumps([_span(span) for span in stretch.spans])
            row["extra_info"] |= {"segment": number, "segments": len(stretches), "spans": spans}
            yield {
                **row,
                "prompt_ids": stretch.prompt,
                "response_ids": stretch.response,
                "response_mask": stretch.mask,
                "rollout_log_probs": stretch.logprobs,
                "reward": float(reward),
                "num_turns": len(stretch.spans),
            }
            index += 1


def _stretches(trajectory: Trajectory, note: Note) -> list[Stretch]:
    """Return what can be learned from: answers without log-probabilities end a stretch as those without ids do."""
    answers = [written if written and written.logprobs is not None else None for written in served(trajectory)]
    for _ in range(answers.count(None)):
        note("An answer came without token ids or log-probabilities.")
    return joined(answers)


def _span(span: Span) -> dict[str, Any]:
    event = span.turn.event
    return {
        "turn": event.turn,
        "start": span.start,
        "end": span.end,
        "finish_reason": event.finish_reason,
        "model": event.model,
        "sampling": event.sampling,
        "identity": event.identity,
    }


def _row(trajectory: Trajectory, turn: Turn, index: int, agent: str = "warpsmith") -> dict[str, Any]:
    """Return the columns that every row has. Objects whose keys differ from row to row are JSON text."""
    return {
        "data_source": SOURCE,
        "ability": "kernels",
        "agent_name": agent,
        "prompt": plain(turn.messages),
        "reward_model": {"style": "rule", "ground_truth": trajectory.source_sha256},
        "extra_info": {
            "index": index,
            **facts(trajectory),
            "tools": json.dumps(turn.tools),
            "spec": json.dumps(trajectory.session.task.to_json()),
        },
    }

"""OpenAI messages with tools: one object a prompt segment, as fine-tuning takes it.

``{"messages": [...], "tools": [...], "metadata": {...}}``. The messages are those of the segment's last prompt, as it
was sent, and its answer. ``metadata.context`` says how many of them were there before the segment's first answer:
answers before that index stand in an earlier row already, and should not be learned again. ``metadata.origins`` says why the
user's messages were said, by their index: ``task``, ``steer``, ``decision``, ``contrast``, ``notice`` or ``summary``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from agent.exports.evidence import facts
from agent.exports.plain import plain
from agent.exports.trajectory import Note, Trajectory, answered


def rows(trajectories: Iterable[Trajectory], note: Note) -> Iterator[dict[str, Any]]:
    """Yield a row a segment."""
    for trajectory in answered(trajectories, note):
        for number, segment in enumerate(trajectory.segments, 1):
            yield {
                "messages": plain(segment[-1].conversation),
                "tools": segment[-1].tools,
                "metadata": {
                    **facts(trajectory),
                    "segment": number,
                    "segments": len(trajectory.segments),
                    "context": len(segment[0].messages),
                    "origins": [
                        {"index": index, "origin": origin}
                        for index, message in enumerate(segment[-1].conversation)
                        if (origin := trajectory.origin(message))
                    ],
                    "proven": all(turn.proven for turn in segment),
                },
            }

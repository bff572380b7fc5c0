"""How much the tools' answers take of a model's context, before and after they were sized for it.

    python -m tests.bench.observations [SESSION_FOLDER ...]

Counts of recorded sessions, the bundled ones by default; nothing is timed. "Stored" is what the model was told then, "whole"
what it would have been without any clipping, "sized" what today's limits make of the whole.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from agent import events as ev
from agent.context.counting import BYTES_A_TOKEN
from agent.replay import RECORDINGS
from agent.state import SessionState
from agent.store import read_blob, read_events
from agent.tools.base import SCREEN, clipped
from agent.verdict_text import original_text, verdict_text

_WHOLE = ("Read", "Skill")
"""Clipped later than the others: source that is read has to be whole."""


def observations(folder: Path) -> Iterator[tuple[str, int, int, int]]:
    """Yield each answer of a tool: its name, and its bytes as stored, whole, and as it is sized today."""
    state = SessionState()
    for stored in read_events(folder):
        state.apply(stored.event)
        if isinstance(stored.event, ev.ToolFinished):
            event, told = stored.event, stored.event.message["content"]
            whole = read_blob(folder, event.full).decode(errors="replace") if event.full else told
            sized = told if event.name in _WHOLE else clipped(whole, limit=SCREEN).text
            if event.name == "Check" and state.judged and told.startswith(f"Attempt {state.judged[-1].attempt} ("):
                sized = verdict_text(state.judged[-1].verdict, state.judged[-1].attempt)
            if event.name == "Profile" and state.original:
                sized = original_text(state.original)
            yield event.name, len(told.encode()), len(whole.encode()), len(sized.encode())


def main() -> int:
    """Print a row a session, and one a tool over all of them."""
    folders = [Path(each) for each in sys.argv[1:]] or sorted(p.parent for p in RECORDINGS.glob("*/events.jsonl"))
    by_tool: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    print(f"{'tokens of observations a turn':32} {'turns':>6} {'whole':>8} {'stored':>8} {'sized':>8}")
    for folder in folders:
        turns = sum(isinstance(item.event, ev.ModelTurn) for item in read_events(folder))
        sums = [0, 0, 0]
        for name, stored, whole, sized in observations(folder):
            row = by_tool[name]
            row[0] += 1
            for index, size in enumerate((whole, stored, sized)):
                sums[index] += size
                row[index + 1] += size
        print(f"{folder.name[:32]:32} {turns:6} " + " ".join(f"{s / max(1, turns) / BYTES_A_TOKEN:8.0f}" for s in sums))
    print(f"\n{'tokens a call':32} {'calls':>6} {'whole':>8} {'stored':>8} {'sized':>8}")
    for name, (count, *sums) in sorted(by_tool.items()):
        print(f"{name:32} {count:6} " + " ".join(f"{s / count / BYTES_A_TOKEN:8.0f}" for s in sums))
    return 0


if __name__ == "__main__":
    sys.exit(main())

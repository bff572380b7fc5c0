"""Write the bundled recordings and a few made sessions in every format, for the checks with other tools.

python -m tests.agent.exports.samples FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

from agent import events as ev
from agent.replay import RECORDINGS
from app.cli import main as warpsmith
from tests.agent.exports.stories import Story
from tests.agent.support import make_verdict


def cut_and_retold() -> Story:
    """Tell a session with token ids that was compacted once, retemplated once and ended on a tool's result."""
    story = Story(ids=True)
    story.checked(make_verdict(ok=False), "wrong")
    story.say("Mind the clamp.", "steer")
    story.checked(make_verdict(ratio=2.0), "right")
    story.compact("So far: attempt 2 is right.")
    story.checked(make_verdict(ratio=3.0), "faster")
    story.retemplate()
    story.checked(make_verdict(ratio=4.0), "fastest")
    story.end(ev.EndReason.TURN_LIMIT)
    return story


def sibling(source: str, ratio: float, *, taken: bool) -> Story:
    """Tell a session of one attempt, which the developer took or refused."""
    story = Story()
    story.checked(make_verdict(ratio=ratio), source)
    if taken:
        files = [{"path": "shifted.py", "before": None, "after": "0" * 64}]
        story.add(ev.Landed(landing=1, attempt=1, files=files, partial=False, verdict={}))
    else:
        story.add(ev.HunkRejected(attempt=1, file="shifted.py", hunk="1", reason="It is hard to read."))
    story.answer("Done.")
    story.end()
    return story


def main(folder: Path) -> None:
    stories = [cut_and_retold(), sibling("fast", 4.0, taken=True), sibling("slow", 2.0, taken=False)]
    folders = [story.write(folder / str(number)) for number, story in enumerate(stories)]
    names = [str(path) for path in folders] + sorted(path.name for path in RECORDINGS.iterdir())
    for name in ("atif", "messages", "preferences", "verl", "verl-tasks"):
        warpsmith(["sessions", "export", *names, "--format", name, "--out", str(folder / f"{name}.jsonl")])


if __name__ == "__main__":
    main(Path(sys.argv[1]))

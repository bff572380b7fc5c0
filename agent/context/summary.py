"""What must not be lost when a conversation is shortened, told from the session's state and never from what was told before.

It names all attempts, quotes the best one's sources and verdict, the last verdict, the files as they are where they differ,
the plan and the skills that were read. The developer's words are no part of it: they stay messages of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from agent.framing import as_data, fenced
from agent.state import Judged, SessionState
from agent.verdict_text import verdict_text

HEAD = "The conversation before this was shortened to make room. This is what it came to; what was set aside is not needed."
_MOST_ROWS = 60
_NOTE = 100
_WHY = 140

Files = Mapping[str, bytes]
ReadFiles = Callable[[Mapping[str, str]], Files]
"""Returns the bytes of an attempt's files, given by their blobs."""


def summary(state: SessionState, read: ReadFiles, now: Files, skills: list[str]) -> str:
    """Return the summary.

    Args:
        state: The session as it is.
        read: Reads an attempt's files.
        now: The workspace's files as they are; empty where nobody knows.
        skills: Texts of skills that were read and are not told elsewhere in the conversation.
    """
    parts = [HEAD, *_attempts(state), *_best(state, read, now), *_last(state), *_plan(state)]
    parts += [f"# A skill you read\n{text}" for text in skills]
    return as_data("\n\n".join(parts))


def _attempts(state: SessionState) -> Iterator[str]:
    judged = state.judged
    if not judged:
        yield "Nothing was judged yet."
        return
    best = state.best
    skipped = max(0, len(judged) - _MOST_ROWS)
    shown = [each for number, each in enumerate(judged) if number >= skipped or each is best]
    rows = [_row(each, state.notes.get(each.attempt, "")) for each in shown]
    left_out = f"\n({len(judged) - len(shown)} earlier ones are left out)" if skipped else ""
    yield (
        "# Attempts\nnumber tier reward | over eager, compile | what was changed | what came of it"
        + left_out
        + "\n"
        + ("\n".join(rows))
    )


def _row(judged: Judged, note: str) -> str:
    verdict = judged.verdict
    gains = verdict.profile.speedup if verdict.profile else {}
    ratios = ", ".join(f"{gains[name].ratio:.2f}x" if name in gains else "-" for name in ("eager", "compile"))
    reward = "none" if verdict.reward is None else verdict.reward
    told = f"{_line(note, _NOTE) or '-'} | {_line(verdict.reason, _WHY)}"
    return f"{judged.attempt} {verdict.tier} {reward} | {ratios} | {told}"


def _line(text: str, most: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _best(state: SessionState, read: ReadFiles, now: Files) -> Iterator[str]:
    best, kept = state.best, {}
    if best is not None:
        kept = _changed(read(best.files), read(state.original_files))
        yield f"# The best attempt\n{verdict_text(best.verdict, best.attempt)}"
        yield f"Its sources:\n{_quoted(kept)}"
    original = read(state.original_files)
    differs = {path: data for path, data in now.items() if data != kept.get(path, original.get(path))}
    gone = [path for path in kept if now and path not in now]
    if differs or gone:
        missing = f"\nNot there any more: {', '.join(gone)}" if gone else ""
        yield f"# Files of the workspace that differ from that now\n{_quoted(differs)}{missing}"
    elif now:
        yield f"The workspace holds {'exactly that' if best else 'the original'} now."


def _changed(files: Files, original: Files) -> dict[str, bytes]:
    return {path: data for path, data in files.items() if original.get(path) != data}


def _quoted(files: Files) -> str:
    return "\n".join(f"{path}:\n{fenced(data.decode(errors='replace').rstrip())}" for path, data in files.items())


def _last(state: SessionState) -> Iterator[str]:
    if state.judged and state.judged[-1] is not state.best:
        last = state.judged[-1]
        yield f"# The last attempt, which is what is open\n{verdict_text(last.verdict, last.attempt)}"


def _plan(state: SessionState) -> Iterator[str]:
    if state.todo:
        yield "\n".join(["# Your plan", *(f"- [{item['status']}] {item['content']}" for item in state.todo)])

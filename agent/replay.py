"""A recorded session as a model: its answers are played, and everything they lead to is done again for real.

After each answer today's results are held against the recorded ones: whether each tool call went well, and for an attempt
whether it was built, passed the guard and agreed with the oracle. Times are today's and are not compared.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from agent import events as ev
from agent.model import Answer, Messages, ModelRefused, OnPiece, Piece, RunStopped
from agent.session import SESSION_FILE, find_session, open_session
from agent.store import read_events
from sandbox.errors import UsageError

RECORDINGS = Path(__file__).parent / "recordings"
PIECES_A_SECOND = 15


class ReplayModel:
    """Plays the answers of a recording.

    Args:
        recording: Folder of the recorded session.
        device: Today's kind of device, ``cpu`` or ``cuda``.
        delay: Seconds each answer takes to stream.

    Raises:
        ModelRefused: The recording was made on the other kind of device.
        UsageError: The folder holds no session.
    """

    context_tokens = None

    def __init__(self, recording: Path, device: str, delay: float = 0.0) -> None:
        recorded = open_session(recording)
        if recorded.device != device:
            raise ModelRefused(
                f"The recording '{recording.name}' was made on {recorded.device}, and this session is on {device}.",
                where=str(recording),
                next_step=f"Replay it with --device {recorded.device}, or choose another recording.",
            )
        stored = [item.event for item in read_events(recording)]
        self._turns = [event for event in stored if isinstance(event, ev.ModelTurn)]
        self._recorded = dict(_outcomes(stored))
        self._today: list[ev.Event] = []
        self._delay = delay

    def observe(self, event: ev.Event) -> None:
        """Keep what today's session did, to find the place in the recording and to compare."""
        if isinstance(event, ev.ModelTurn | ev.ToolFinished | ev.Attempt):
            self._today.append(event)

    async def answer(self, _messages: Messages, _tools: Messages, on_piece: OnPiece, /) -> Answer:
        """Play the next answer of the recording.

        Raises:
            RunStopped: Today's results no longer fit the recording, or it is over.
        """
        position = sum(isinstance(event, ev.ModelTurn) for event in self._today)
        self._compare()
        if position >= len(self._turns):
            raise RunStopped(ev.EndReason.FINISHED, "The recording ends here.")
        turn = self._turns[position]
        await self._play(turn.message, on_piece)
        return Answer(
            message=turn.message,
            finish_reason=turn.finish_reason,
            model=turn.model,
            reasoning=turn.reasoning,
            token_ids=turn.token_ids,
            logprobs=turn.logprobs,
        )

    def _compare(self) -> None:
        """Hold every result of today against the recorded result of the same call."""
        for call, outcome in _outcomes(self._today):
            recorded = self._recorded.get(call)
            if recorded is not None and not _alike(recorded, outcome):
                raise RunStopped(
                    ev.EndReason.REPLAY_DIVERGED,
                    f"{outcome[0]} call of answer {call[0]}: recorded {_said(recorded)}, today {_said(outcome)}.",
                )

    async def _play(self, message: dict[str, Any], on_piece: OnPiece) -> None:
        """Stream an answer over the delay, in pieces that can be read."""
        pieces = list(_pieces(message))
        steps = max(1, round(self._delay * PIECES_A_SECOND))
        size = max(1, -(-len(pieces) // steps))
        for start in range(0, len(pieces), size):
            for piece in pieces[start : start + size]:
                on_piece(piece)
            await asyncio.sleep(self._delay / steps)


def find_recording(name: str, home: Path) -> Path:
    """Return a recording's folder: a path, a bundled recording's name, or a session's id as in ``find_session``.

    Raises:
        UsageError: There is none.
    """
    if (Path(name).expanduser() / SESSION_FILE).is_file():
        return Path(name).expanduser().resolve()
    if name and os.sep not in name and (RECORDINGS / name / SESSION_FILE).is_file():
        return RECORDINGS / name
    try:
        return find_session(home, name)
    except UsageError as error:
        bundled = ", ".join(sorted(path.parent.name for path in RECORDINGS.glob(f"*/{SESSION_FILE}"))) or "none"
        raise UsageError(
            f"There is no recording '{name}'.", where=f"replay:{name}", next_step=f"{error} Bundled are: {bundled}."
        ) from error


Outcome = tuple[str, bool, tuple[bool | None, ...]]
"""A call's tool, whether it went well, and of its attempt: built, guarded, verified (null for what did not run)."""


def _outcomes(events: Sequence[ev.Event]) -> Iterator[tuple[tuple[int, int], Outcome]]:
    """Yield each finished call's place (answer, call of it) and outcome. Ids may repeat, so places name the calls."""
    turn = 0
    ids: dict[str, int] = {}
    judged: dict[str | None, tuple[bool | None, ...]] = {}
    for event in events:
        match event:
            case ev.ModelTurn():
                turn, judged = turn + 1, {}
                ids = {call["id"]: index for index, call in enumerate(event.message.get("tool_calls") or ())}
            case ev.Attempt():
                parts = (event.verdict[part] for part in ("build", "guard", "verify"))
                judged[event.call_id] = tuple(part["ok"] if part else None for part in parts)
            case ev.ToolFinished() if event.call_id in ids:
                yield (turn, ids[event.call_id]), (event.name, event.ok, judged.get(event.call_id, ()))


def _alike(recorded: Outcome, today: Outcome) -> bool:
    """Whether two outcomes agree. A Check that was answered from an earlier verdict on one side has no parts there."""
    return recorded[:2] == today[:2] and (recorded[2] == today[2] or not (recorded[2] and today[2]))


def _said(outcome: Outcome) -> str:
    name, ok, parts = outcome
    ran = zip(("build", "guard", "verify"), parts, strict=False)
    words = [f"{part} {'passed' if passed else 'failed'}" for part, passed in ran if passed is not None]
    return f"{name} {'went well' if ok else 'failed'}" + (f" ({', '.join(words)})" if words else "")


def _pieces(message: dict[str, Any]) -> Iterator[Piece]:
    """Cut an answer into the pieces it would stream in: text by words, arguments by the lines of what they write."""
    for word in re.findall(r"\s*\S+\s*", message.get("content") or ""):
        yield Piece("text", word)
    for index, call in enumerate(message.get("tool_calls") or ()):
        function = call["function"]
        for line in re.split(r"(?<=\\n)", function["arguments"]):
            yield Piece("tool", line, index, function["name"])

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
from agent.state import CUT_OFF
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

    async def priced(self) -> bool:
        """Return true: an answer that is played costs nothing."""
        return True

    def observe(self, event: ev.Event) -> None:
        """Keep what today's session did, to find the place in the recording and to compare."""
        if isinstance(event, ev.ModelTurn | ev.ToolFinished | ev.Attempt):
            self._today.append(event)

    async def answer(self, _messages: Messages, _tools: Messages, on_piece: OnPiece, /) -> Answer:
        """Play the next answer of the recording.

        Raises:
            RunStopped: Today's results no longer fit the recording, or it is over.
        """
        self._compare()
        places = _Places()
        for event in self._today:
            places.pass_over(event)
        if places.cut_off:
            turn = self._turns[places.turn - 1]
            message = _only(turn.message, places.cut_off)
        elif places.turn < len(self._turns):
            turn = self._turns[places.turn]
            message = turn.message
        else:
            raise RunStopped(ev.EndReason.FINISHED, "The recording ends here.")
        await self._play(message, on_piece)
        return Answer(
            message=message,
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


class _Places:
    """Finds the place of each call in a recording: the answer it belongs to, and its number there.

    Ids may repeat, so places name the calls. Calls that were cut off by an interruption or a kill are asked for again in
    an answer of their own, which belongs to the answer they first stood in.

    Attributes:
        turn: How many answers there were.
        cut_off: Numbers of the last answer's calls that were cut off.
    """

    def __init__(self) -> None:
        self.turn = 0
        self.cut_off: list[int] = []
        self._numbers: dict[str, int] = {}
        self._last: ev.ModelTurn | None = None

    def pass_over(self, event: ev.Event) -> tuple[int, int] | None:
        """Take the next event; return the place of a call that ended by itself."""
        if isinstance(event, ev.ModelTurn):
            self._begin(event)
        elif isinstance(event, ev.ToolFinished) and event.call_id in self._numbers:
            number = self._numbers[event.call_id]
            if not _was_cut_off(event):
                return (self.turn, number)
            self.cut_off.append(number)
        return None

    def _begin(self, event: ev.ModelTurn) -> None:
        calls = _calls(event.message)
        cut_off = _calls(_only(self._last.message, self.cut_off)) if self._last else []
        again = bool(cut_off) and _same(calls, cut_off)
        numbers = self.cut_off if again else list(range(len(calls)))
        self._numbers = {call["id"]: number for call, number in zip(calls, numbers, strict=True)}
        self.cut_off = []
        if not again:
            self.turn, self._last = self.turn + 1, event


def _calls(message: dict[str, Any]) -> list[dict[str, Any]]:
    return list(message.get("tool_calls") or ())


def _same(some: Sequence[dict[str, Any]], others: Sequence[dict[str, Any]]) -> bool:
    return [call["function"] for call in some] == [call["function"] for call in others]


def _only(message: dict[str, Any], numbers: Sequence[int]) -> dict[str, Any]:
    """Return an answer with only these of its calls, and without its words."""
    return {**message, "content": "", "tool_calls": [_calls(message)[number] for number in numbers]}


def _was_cut_off(event: ev.ToolFinished) -> bool:
    return not event.ok and str(event.message.get("content", "")).startswith(CUT_OFF)


def _outcomes(events: Sequence[ev.Event]) -> Iterator[tuple[tuple[int, int], Outcome]]:
    """Yield each finished call's place (answer, call of it) and outcome."""
    places = _Places()
    judged: dict[str | None, tuple[bool | None, ...]] = {}
    for event in events:
        place = places.pass_over(event)
        if isinstance(event, ev.ModelTurn):
            judged = {}
        elif isinstance(event, ev.Attempt):
            parts = (event.verdict[part] for part in ("build", "guard", "verify"))
            judged[event.call_id] = tuple(part["ok"] if part else None for part in parts)
        elif isinstance(event, ev.ToolFinished) and place is not None:
            yield place, (event.name, event.ok, judged.get(event.call_id, ()))


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

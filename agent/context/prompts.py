"""The request of any turn, made again from the stored session."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agent import events as ev
from agent.state import SessionState
from sandbox.errors import UsageError


def prompt_of(events: Iterable[ev.Event], turn: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the messages and the tools that the model was asked with for its answer number ``turn``, from 1.

    Raises:
        UsageError: There is no such answer, or its request cannot be made again: its hash differs.
    """
    state = SessionState()
    for event in events:
        if isinstance(event, ev.ModelTurn) and event.turn == turn:
            if state.prompt_sha256 != event.prompt_sha256:
                raise UsageError(
                    f"The request of turn {turn} cannot be made again: it is not what its hash says was sent.",
                    next_step="The session was written by another version, or its events were changed.",
                )
            return list(state.messages), state.tools
        state.apply(event)
    raise UsageError(f"There is no turn {turn}.", next_step=f"The session has turns 1 to {state.turns}.")

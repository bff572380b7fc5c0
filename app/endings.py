"""What the screen says when a run has ended: one title and one next step for each reason there is."""

from __future__ import annotations

from dataclasses import dataclass

from agent.events import EndReason
from app.blocks import Tone


@dataclass(frozen=True)
class Ending:
    """How an ended run is announced."""

    tone: Tone
    title: str
    next_step: str


_LOOK = "Look at its diff (F3), accept or reject hunks (a, r), and land it (l)."
_GO_ON = "Tell the agent how to go on, or press F5."

_ENDINGS: dict[EndReason, Ending] = {
    EndReason.FINISHED: Ending("good", "The agent is done", _GO_ON),
    EndReason.TURN_LIMIT: Ending("warn", "The turn budget is used up", "F5 grants another budget of turns."),
    EndReason.TOKEN_LIMIT: Ending("warn", "The budget of tokens is used up", "F5 grants another."),
    EndReason.COST_LIMIT: Ending("warn", "The budget of money is used up", "F5 grants another."),
    EndReason.TIME_LIMIT: Ending("warn", "The time is over", "F5 grants as much again."),
    EndReason.INTERRUPTED: Ending("warn", "The run was stopped", _GO_ON),
    EndReason.CONTEXT_LENGTH: Ending(
        "bad", "The model's context is full", "Land what there is, or open a new session on the same module."
    ),
    EndReason.MODEL_ERROR: Ending(
        "bad", "The model could not be asked", "Check its name, key and address; then F5 goes on where it stopped."
    ),
    EndReason.MODEL_SILENT: Ending(
        "bad",
        "The model answered with nothing that could be used",
        "Say in words what it should do, or name another model.",
    ),
    EndReason.REPLAY_DIVERGED: Ending(
        "bad",
        "The recording no longer fits what this machine measured",
        "Everything judged so far is real and can be landed. To go on, open the module with a live model.",
    ),
    EndReason.TASK_UNUSABLE: Ending(
        "bad", "This module cannot be used as a task", "Mend what is named and open it again."
    ),
    EndReason.ENVIRONMENT: Ending(
        "bad", "This machine is at fault, not the module", "warpsmith doctor says what is missing."
    ),
    EndReason.INTERNAL_ERROR: Ending(
        "bad", "A fault of Warpsmith's ended the run", "Nothing is lost; F5 goes on. Please report what is shown."
    ),
}


def ending(reason: str, best_attempt: int | None) -> Ending:
    """Return how a run that ended for this reason is announced; a correct attempt makes it worth looking at.

    A reason that only a newer version knows is announced by its name.
    """
    known = _ENDINGS.get(EndReason(reason)) if reason in set(EndReason) else None
    if known is None:
        known = Ending("warn", f"The run ended: {reason.replace('_', ' ')}", _GO_ON)
    if best_attempt is None or known.tone == "bad":
        return known
    return Ending(known.tone, f"{known.title}; attempt {best_attempt} is the best", _LOOK)

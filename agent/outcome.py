"""What a session came to, in the words that end a run on the terminal and the listing of a session."""

from __future__ import annotations

from pathlib import Path

from agent.budget import Spent
from agent.contrast import gained_after
from agent.events import EndReason
from agent.landing.standing import is_gone
from agent.session import is_open, open_session
from agent.settings import Settings
from agent.state import Judged, SessionState

_TO_MEND = (EndReason.TASK_UNUSABLE, EndReason.ENVIRONMENT, EndReason.MODEL_ERROR, EndReason.REPLAY_DIVERGED)
"""Ends that the same run would come to again, as long as nobody does what was said of them."""


def best_line(state: SessionState) -> str:
    """Return the best attempt with its reward and its ratios, or that there is none."""
    if state.best is None:
        return f"no correct candidate in {len(state.judged)} attempts"
    return f"best: attempt {state.best.attempt} of {len(state.judged)}: {_measured(state.best)}"


def spent_lines(state: SessionState, minutes: float | None) -> list[str]:
    """Return what the last run spent of its limits, and what all runs did where there were more; ``minutes`` are the last's.

    Of verdicts that were begun before a Check asked, it says what they saved and what they cost.
    """
    if state.limits is None:
        return []
    run, before, limits = state.spent.since(state.spent_before), state.spent_before, state.limits
    told = [f"{run.answers} of {limits.answers} turns"]
    if run.tokens or limits.tokens:
        told.append(_tokens(run, limits.tokens))
    if run.dollars or limits.dollars:
        told.append(_of(f"${run.dollars:,.2f}", f"${limits.dollars:,.2f}" if limits.dollars else ""))
    if minutes is not None:
        told.append(f"{_of(f'{minutes:.1f}', f'{limits.minutes:g}' if limits.minutes else '')} minutes")
    lines = [f"spent: {', '.join(told)}"]
    if before.answers:
        money = f", ${state.spent.dollars:,.2f}" if state.spent.dollars else ""
        lines.append(f"in all runs: {state.spent.answers} turns, {_tokens(state.spent, 0)}{money}")
    if ahead := state.judged_ahead:
        taken = [each.seconds for each in ahead if each.taken]
        vain = sum(each.seconds for each in ahead) - sum(taken)
        lines.append(
            f"judged while the model thought: {len(taken)} of {len(ahead)} verdicts were asked for, {sum(taken):.1f} s saved, "
            f"{vain:.1f} s in vain"
        )
    return lines


def compared_line(state: SessionState) -> str:
    """Return how often earlier variants were compared, and what came of it; empty where they never were."""
    if not state.contrasted:
        return ""
    gained = gained_after(state.judged, state.contrasted)
    came = f"{sum(gained)} of the {len(gained)} attempts that followed became the best so far"
    times = len(state.contrasted)
    return (
        f"variants compared {times} time{'s' * (times > 1)}: {came if gained else 'no other code was judged after it'}"
    )


def _tokens(spent: Spent, limit: int) -> str:
    ours = " (counted here, since the provider counts none)" if spent.uncounted else ""
    return f"{_of(f'{spent.tokens:,}', f'{limit:,}' if limit else '')} tokens{ours}"


def _of(used: str, limit: str) -> str:
    return f"{used} of {limit}" if limit else used


def unproven(best: Judged) -> str:
    """Return why an attempt is not one that lands unseen; empty where a full verdict has it faster than eager."""
    if best.verdict.tier == "full" and best.verdict.reward in (2, 3):
        return ""
    return f"attempt {best.attempt} was not seen to be faster than eager by a full verdict: {best.verdict.reason}"


def landed_lines(state: SessionState) -> list[str]:
    """Return the files of the landings that stand, each on a line."""
    return [f"landed: {entry['path']}" for number in state.landings_standing for entry in state.landings[number].files]


def next_line(state: SessionState, folder: Path) -> str:
    """Return what the developer can do now with the session in ``folder``, as a command; two where its best was not timed."""
    at_home = folder.parent.parent == Settings.home
    name = open_session(folder).id if at_home else folder
    command = f"warpsmith sessions resume {name}"
    if landed := [state.landings[number].files for number in state.landings_standing]:
        if all(map(is_gone, landed)):
            return (
                f"what landed is not in the project any more: others took it back, or you did by hand; next: {command}"
            )
        return f"next: look at what landed, or undo it: {command}"
    if is_open(folder):
        return "next: it is open just now, in another terminal or without a screen: look there, or here again when it has ended"
    if state.best is None and state.end_reason in _TO_MEND:
        return (
            f"next: mend that; where options have to change, begin anew, since a session keeps its own; else: {command}"
        )
    if state.best is None:
        return f"next: let the agent go on: {command}"
    look = f"next: look at the changes and land them: {command}"
    if state.best.verdict.correct and state.best.verdict.reward is None:
        return f"{look}\nIt is right, and could not be timed. To land it all the same: warpsmith sessions land {name} --untimed"
    return look


def _measured(best: Judged) -> str:
    profile = best.verdict.profile
    earned = "no reward" if best.verdict.reward is None else f"reward {best.verdict.reward}"
    if profile is None or not profile.speedup:
        return f"{earned}, not timed"
    shown = (name for name in ("eager", "compile", "best") if name in profile.speedup)
    gains = ((name, profile.speedup[name]) for name in shown)
    told = ", ".join(f"{gain.ratio:.2f}x {name} [{gain.low:.2f}, {gain.high:.2f}]" for name, gain in gains)
    return f"{earned}, {told} ({best.verdict.tier})"

"""Folds events into the session's state, one function per event: live and recorded sessions go through this code."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

from agent import events
from agent.permissions.modes import MODES
from app.blocks import Call, Notice, Said, Step, Steps, Words
from app.endings import ending
from app.state import Decision, Judged, Landing, Part, Problem, SessionState
from sandbox.hotspots.folder import recording_of
from sandbox.progress import LOADED
from sandbox.task import TaskSpec
from sandbox.verdict import Verdict

JUDGING_TOOLS = ("Check", "Profile")
RECENT_BLOCKS = 30


def fold(state: SessionState, event: events.Event, *, n: int | None = None, time: float = 0.0) -> None:
    """Fold one event in. An event whose number is already folded in is skipped, and so is one of an unknown type."""
    if n is not None:
        if n <= state.last_n:
            return
        state.last_n = n
    handler = _HANDLERS.get(type(event))
    if handler is not None:
        handler(state, event, time)


# --- life of the session -------------------------------------------------------------------------------------------


def _session_started(state: SessionState, event: events.SessionStarted, _time: float) -> None:
    state.task = TaskSpec.from_json(event.task)
    state.model, state.device = event.model, event.device
    state.versions, state.files = event.versions, event.files
    state.moved(Part.TASK | Part.STATUS)


def _session_resumed(state: SessionState, event: events.SessionResumed, time: float) -> None:
    state.settle()
    state.add(Notice(time, "info", "Session resumed", event.note))


def _engine_ready(state: SessionState, _event: events.EngineReady, _time: float) -> None:
    state.ready, state.lost = True, False
    if state.running:
        state.settle()
    state.moved(Part.STATUS)


def _limits(event: events.RunStarted) -> list[str]:
    said = {"tokens": "{:,.0f} tokens", "cost_usd": "{:.2f} dollars", "minutes": "{:g} minutes"}
    others = [text.format(event.budget[name]) for name, text in said.items() if name in event.budget]
    return [f"up to {event.turn_limit} turns", *others]


def _run_started(state: SessionState, event: events.RunStarted, time: float) -> None:
    state.running, state.cut_off, state.end, state.problem = True, False, None, None
    state.turn, state.turn_limit, state.run_started = 0, event.turn_limit, time
    state.add(Notice(time, "info", "Run started", ", ".join(_limits(event))))
    state.moved(Part.STATUS | Part.PROBLEM)


def _run_ended(state: SessionState, event: events.RunEnded, time: float) -> None:
    state.running, state.step, state.ahead, state.end = False, None, None, event
    known = ending(event.reason, event.best_attempt)
    if known.tone == "bad" and state.problem is None:
        state.report(Problem(known.title, event.detail, known.next_step))
    detail = " ".join(filter(None, (event.detail, event.workspace)))
    state.add(Notice(time, known.tone, known.title, detail, known.next_step))
    state.drop_live()
    state.moved(Part.STATUS | Part.ATTEMPTS)


# --- conversation --------------------------------------------------------------------------------------------------


def _user_message(state: SessionState, event: events.UserMessage, time: float) -> None:
    if event.origin != "steer":
        state.add(Said(time, event.origin, _text_of(event.message)))
        return
    for index, block in enumerate(state.blocks):
        if isinstance(block, Said) and not block.read:
            block.read = True
            state.touch(index)


def _compacted(state: SessionState, event: events.Compacted, time: float) -> None:
    said = f"{event.tokens_before:,} to about {event.tokens_after:,} tokens; what was left out is kept with the session"
    state.add(Notice(time, "info", "Conversation shortened", said))


def _model_turn(state: SessionState, event: events.ModelTurn, time: float) -> None:
    state.turn += 1
    state.drop_live()
    text = _text_of(event.message)
    if text.strip() or event.reasoning.strip():
        state.add(Words(time, event.turn, text, event.reasoning))
    for call in event.message.get("tool_calls") or []:
        function = call.get("function", {})
        _open_call(state, Call(time, call.get("id", ""), function.get("name", ""), _arguments(function)))
    state.tokens_in += event.usage.get("prompt_tokens", 0)
    state.tokens_out += event.usage.get("completion_tokens", 0)
    if event.cost_usd is not None:
        state.cost_usd = (state.cost_usd or 0.0) + event.cost_usd
    state.moved(Part.STATUS)


def _model_retry(state: SessionState, event: events.ModelRetry, time: float) -> None:
    state.drop_live()
    state.add(Notice(time, "warn", f"The model is asked again in {event.wait_seconds:.0f} s", event.error))


def _tool_started(state: SessionState, event: events.ToolStarted, time: float) -> None:
    call = _called(state, Call(time, event.call_id, event.name))
    call.status, call.time, call.arguments = "running", time, event.arguments
    state.moved(Part.STATUS)


def _tool_finished(state: SessionState, event: events.ToolFinished, time: float) -> None:
    call = _called(state, Call(time, event.call_id, event.name))
    call.status, call.seconds = "ok" if event.ok else "failed", event.seconds
    call.output, call.full = _text_of(event.message), event.full
    if call.steps:
        state.step = None
    if state.asked is not None and state.asked.call_id == event.call_id:
        state.ask(None)
    state.moved(Part.STATUS)


def _todo(state: SessionState, event: events.Todo, _time: float) -> None:
    state.todo = event.items
    state.moved(Part.STATUS)


def _open_call(state: SessionState, call: Call) -> Call:
    state.calls[call.call_id] = state.add(call)
    return call


def _called(state: SessionState, unknown: Call) -> Call:
    """Return the call with this id as it is about to change; add the one given if there is none."""
    index = state.calls.get(unknown.call_id)
    if index is None:
        return _open_call(state, unknown)
    state.touch(index)
    call = state.blocks[index]
    assert isinstance(call, Call)
    return call


# --- judging -------------------------------------------------------------------------------------------------------


def _stage(state: SessionState, event: events.StageEvent, time: float) -> None:
    step = Step(event.part, event.text, time, event.partial)
    state.step = None if event.text == LOADED else step
    state.moved(Part.STATUS)
    index = _judging(state)
    if index is None:
        state.add(Steps(time, [step]))
        return
    block = state.blocks[index]
    assert isinstance(block, Call | Steps)
    block.steps.append(step)
    state.touch(index)


def _judging(state: SessionState) -> int | None:
    """Index of the block that the judge's stages belong to now: a running call that asked it, or the last of its own."""
    for index in range(len(state.blocks) - 1, max(-1, len(state.blocks) - RECENT_BLOCKS), -1):
        block = state.blocks[index]
        if isinstance(block, Call) and block.status == "running" and block.name in JUDGING_TOOLS:
            return index
    last = state.blocks[-1] if state.blocks else None
    return len(state.blocks) - 1 if isinstance(last, Steps) and last.attempt is None else None


def _original_profiled(state: SessionState, event: events.OriginalProfiled, _time: float) -> None:
    state.profile, state.step = event.profile, None
    state.moved(Part.ATTEMPTS | Part.STATUS)


def _attempt(state: SessionState, event: events.Attempt, time: float) -> None:
    state.attempts.append(Judged(event.attempt, event.files, Verdict.from_json(event.verdict), time))
    state.step = None
    last = state.blocks[-1] if state.blocks else None
    if event.call_id in state.calls:
        _called(state, Call(time, event.call_id, "Check")).attempt = event.attempt
    elif isinstance(last, Steps):
        last.attempt = event.attempt
        state.touch(len(state.blocks) - 1)
    state.moved(Part.ATTEMPTS | Part.STATUS)


def _stage_ahead(state: SessionState, event: events.StageAhead, time: float) -> None:
    state.ahead = Step(event.part, event.text, time, event.partial)
    state.moved(Part.STATUS)


def _judged_ahead(state: SessionState, event: events.JudgedAhead, _time: float) -> None:
    """What was judged ahead is the verdict of the check that runs, or of no use to anybody."""
    state.ahead = None
    state.moved(Part.STATUS)
    index = _judging(state) if event.taken else None
    if index is not None and isinstance(call := state.blocks[index], Call):
        call.ahead = event.seconds
        state.touch(index)


# --- the developer's decisions -------------------------------------------------------------------------------------


def _hunk_accepted(state: SessionState, event: events.HunkAccepted, _time: float) -> None:
    _decide(state, (event.attempt, event.file, event.hunk), Decision(True))


def _hunk_rejected(state: SessionState, event: events.HunkRejected, time: float) -> None:
    _decide(state, (event.attempt, event.file, event.hunk), Decision(False, event.reason))
    reason = f"because: {event.reason}" if event.reason else "without a reason"
    state.add(Notice(time, "warn", f"You rejected a change of {event.file} in attempt {event.attempt}", reason))


def _decide(state: SessionState, hunk: tuple[int, str, str], decision: Decision) -> None:
    state.decisions[hunk] = decision
    state.moved(Part.DECISIONS)


def _steered(state: SessionState, event: events.Steered, time: float) -> None:
    state.add(Said(time, "you", event.text, read=False))


def _interrupted(state: SessionState, _event: events.Interrupted, time: float) -> None:
    state.add(Notice(time, "warn", "You stopped the run"))


def _landed(state: SessionState, event: events.Landed, time: float) -> None:
    state.landings.append(Landing(event.landing, event.attempt, event.files, event.partial, time, event.commit))
    state.step, state.problem = None, None
    title = f"Attempt {event.attempt} landed in your project" + (", without what you rejected" if event.partial else "")
    title += f", as commit {event.commit[:9]}" if event.commit else ""
    eager = Verdict.from_json(event.verdict).over_eager if event.verdict else None
    title += f": as it lies there {eager.ratio:.2f}× eager [{eager.low:.2f}, {eager.high:.2f}]" if eager else ""
    fates = [("new    " if file["before"] is None else "changed", file["path"]) for file in event.files]
    again = state.task is not None and recording_of(state.task.capture) is not None
    hints = ["u takes it back, exactly.", *(["E runs your script again, and says what came of it."] if again else [])]
    state.add(Notice(time, "good", title, _listing(fates), " ".join([*event.notes, *hints])))
    state.moved(Part.STATUS | Part.DECISIONS | Part.PROBLEM)


def _landing_refused(state: SessionState, event: events.LandingRefusedEvent, time: float) -> None:
    _fail(state, Problem(event.what, event.where, event.next_step), time)


def _undone(state: SessionState, event: events.Undone, time: float) -> None:
    for landing in state.landings:
        if landing.number == event.landing:
            landing.outcome, landing.undone = event.files, time
    fates = [(file["outcome"], file["path"]) for file in event.files]
    title = f"Landing {event.landing} was taken back" + (f", by commit {event.commit[:9]}" if event.commit else "")
    state.add(Notice(time, "good", title, _listing(fates), " ".join([*event.notes, "U lands it again."])))
    state.moved(Part.STATUS | Part.DECISIONS)


def _listing(fates: list[tuple[str, str]]) -> str:
    """List files with what became of each, below the folder that holds them all."""
    if not fates:
        return ""
    folder = os.path.commonpath([os.path.dirname(path) for _, path in fates])  # noqa: PTH120 - a path as text
    return "\n".join([f"in {folder}", *(f"{fate} {os.path.relpath(path, folder)}" for fate, path in fates)])


def _error(state: SessionState, event: events.ErrorEvent, time: float) -> None:
    _fail(state, Problem(event.what, event.where, event.next_step), time)


def _fail(state: SessionState, problem: Problem, time: float) -> None:
    state.step = None
    state.report(problem)
    state.add(Notice(time, "bad", problem.what, problem.where, problem.next_step))
    state.moved(Part.STATUS)


def _permission_asked(state: SessionState, event: events.PermissionAsked, _time: float) -> None:
    state.ask(event)


def _permission_answered(state: SessionState, event: events.PermissionAnswered, time: float) -> None:
    state.ask(None)
    if event.pattern:
        where = "always in this project" if event.scope == "project" else "in this session"
        state.add(Notice(time, "info", f"Allowed {where}", event.pattern))


def _mode_changed(state: SessionState, event: events.ModeChanged, time: float) -> None:
    state.mode = event.mode
    state.add(Notice(time, "info", f"Permission mode: {event.mode}", MODES.get(event.mode, "")))
    state.moved(Part.STATUS)


def _skills_trusted(state: SessionState, event: events.SkillsTrusted, time: float) -> None:
    names = ", ".join(os.path.basename(folder) for folder in event.skills)  # noqa: PTH119 - a path as text
    detail = "The agent can read up on it." if event.used else "It counts from the next session on: this one has begun."
    state.add(Notice(time, "good", f"Trusted as it is now: {names}", detail))


# --- what streams --------------------------------------------------------------------------------------------------


def _delta(state: SessionState, event: events.Delta, time: float) -> None:
    if event.kind == "tool":
        call = _live_call(state, event, time)
        call.raw += event.text
        call.name = call.name or event.name
        call.version += 1
    else:
        words = _live_words(state, event, time)
        words.text += event.text if event.kind == "text" else ""
        words.reasoning += event.text if event.kind == "reasoning" else ""
        words.version += 1
    state.moved(Part.LIVE)


def _live_words(state: SessionState, event: events.Delta, time: float) -> Words:
    if state.live and isinstance(state.live[0], Words):
        return state.live[0]
    words = Words(time, event.turn)
    state.live.insert(0, words)
    return words


def _live_call(state: SessionState, event: events.Delta, time: float) -> Call:
    call_id = f"live-{event.call}"
    for block in state.live:
        if isinstance(block, Call) and block.call_id == call_id:
            return block
    call = Call(time, call_id, event.name, status="writing")
    state.live.append(call)
    return call


# --- reading messages ----------------------------------------------------------------------------------------------


def _text_of(message: dict[str, Any]) -> str:
    """Return the text of a message in OpenAI form, whose content is text, a list of parts, or missing."""
    content = message.get("content")
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content if isinstance(part, dict))
    return content or ""


def _arguments(function: dict[str, Any]) -> dict[str, Any]:
    """Parse a call's arguments as far as they parse."""
    text = function.get("arguments") or "{}"
    try:
        parsed = json.loads(text)
    except json.JSONDecodeError:
        return {"_raw": text}
    return parsed if isinstance(parsed, dict) else {"_raw": text}


_HANDLERS: dict[type[events.Event], Callable[[SessionState, Any, float], None]] = {
    events.SessionStarted: _session_started,
    events.SessionResumed: _session_resumed,
    events.EngineReady: _engine_ready,
    events.RunStarted: _run_started,
    events.RunEnded: _run_ended,
    events.UserMessage: _user_message,
    events.Compacted: _compacted,
    events.ModelTurn: _model_turn,
    events.ModelRetry: _model_retry,
    events.ToolStarted: _tool_started,
    events.ToolFinished: _tool_finished,
    events.Todo: _todo,
    events.StageEvent: _stage,
    events.OriginalProfiled: _original_profiled,
    events.Attempt: _attempt,
    events.StageAhead: _stage_ahead,
    events.JudgedAhead: _judged_ahead,
    events.HunkAccepted: _hunk_accepted,
    events.HunkRejected: _hunk_rejected,
    events.Steered: _steered,
    events.Interrupted: _interrupted,
    events.Landed: _landed,
    events.LandingRefusedEvent: _landing_refused,
    events.Undone: _undone,
    events.PermissionAsked: _permission_asked,
    events.PermissionAnswered: _permission_answered,
    events.ModeChanged: _mode_changed,
    events.SkillsTrusted: _skills_trusted,
    events.ErrorEvent: _error,
    events.Delta: _delta,
}

from dataclasses import replace
from pathlib import Path

import pytest

from agent import events
from app.blocks import Call, Notice, Said, Steps, Words
from app.fold import fold
from app.state import Part, SessionState
from sandbox.progress import LOADED
from tests.agent.support import make_verdict
from tests.app import sessions


@pytest.fixture
def story(tmp_path: Path) -> Path:
    return sessions.record(tmp_path)


def folded(folder: Path) -> SessionState:
    state = SessionState()
    for n, time, event in sessions.stored(folder):
        fold(state, event, n=n, time=time)
    return state


def visible(state: SessionState) -> list[object]:
    return [(type(block), {k: v for k, v in vars(block).items() if k != "version"}) for block in state.blocks]


def test_a_recorded_session_is_folded_whole(story: Path) -> None:
    state = folded(story)
    assert [judged.number for judged in state.attempts] == [1, 2, 3, 4]
    assert [judged.verdict.reward for judged in state.attempts] == [-1, -1, 1, 3]
    assert state.best() is state.attempts[3]
    assert not state.running
    assert state.end is not None
    assert state.end.reason == "finished"
    assert (state.turn, state.turn_limit) == (7, 150)
    assert state.tokens_out == 7 * 380
    assert state.cost_usd == pytest.approx(7 * 0.0151)
    assert state.problem is None


def test_events_already_folded_in_are_skipped(story: Path) -> None:
    once, twice = folded(story), folded(story)
    for n, time, event in sessions.stored(story):
        fold(twice, event, n=n, time=time)
    assert visible(once) == visible(twice)
    assert len(twice.attempts) == 4


def test_streamed_deltas_leave_nothing_behind(story: Path) -> None:
    live = SessionState()
    for n, time, event in sessions.stored(story):
        if isinstance(event, events.ModelTurn):
            for piece in (event.message.get("content") or "").split(" "):
                fold(live, events.Delta(turn=event.turn, kind="text", text=piece), time=time)
            for number, call in enumerate(event.message.get("tool_calls", [])):
                name, text = call["function"]["name"], call["function"]["arguments"]
                fold(live, events.Delta(turn=event.turn, kind="tool", text=text, call=number, name=name), time=time)
            assert live.live
        fold(live, event, n=n, time=time)
    assert live.live == []
    assert visible(live) == visible(folded(story))


def test_a_streamed_answer_is_words_first_then_calls() -> None:
    state = SessionState()
    for kind, text, call, name in [
        ("tool", "{}", 0, "Bash"),
        ("text", "Hello", None, ""),
        ("tool", "{", 1, "Read"),
        ("text", " you", None, ""),
    ]:
        fold(state, events.Delta(turn=1, kind=kind, text=text, call=call, name=name))
    words, first, second = state.live
    assert isinstance(words, Words)
    assert words.text == "Hello you"
    assert isinstance(first, Call)
    assert isinstance(second, Call)
    assert (first.name, first.raw, second.name) == ("Bash", "{}", "Read")


def test_a_retry_drops_what_was_streamed() -> None:
    state = SessionState()
    fold(state, events.Delta(turn=1, kind="text", text="half an ans"))
    fold(state, events.ModelRetry(turn=1, error="429 Too Many Requests", wait_seconds=3.0), n=1)
    assert state.live == []
    assert isinstance(state.blocks[0], Notice)


def test_stages_belong_to_the_check_that_runs(story: Path) -> None:
    state = folded(story)
    calls = {block.call_id: block for block in state.blocks if isinstance(block, Call)}
    assert [step.part for step in calls["c4"].steps] == ["build", "guard", "verify", "profile"]
    assert calls["c4"].attempt == 4
    assert calls["w1"].steps == []
    free = [block for block in state.blocks if isinstance(block, Steps)]
    assert [step.part for step in free[0].steps] == ["task", "task"]
    assert state.step is None


def test_steering_is_unread_until_it_enters_the_conversation() -> None:
    state = SessionState()
    fold(state, events.Steered(text="use float4"), n=1)
    assert state.blocks == [Said(0.0, "you", "use float4", read=False)]
    fold(state, events.UserMessage(message={"role": "user", "content": "use float4"}, origin="steer"), n=2)
    assert isinstance(state.blocks[0], Said)
    assert state.blocks[0].read
    assert len(state.blocks) == 1


def test_a_run_that_was_cut_off_rests_and_its_calls_are_cut() -> None:
    state = SessionState()
    fold(state, events.RunStarted(turn_limit=10), n=1)
    fold(state, events.ToolStarted(call_id="a", name="Bash", arguments={"command": "ls"}), n=2)
    fold(state, events.EngineReady(session="s", folder="f"))
    assert not state.running
    assert state.cut_off
    assert isinstance(state.blocks[1], Call)
    assert state.blocks[1].status == "cut"


def test_each_bad_end_is_a_problem_with_a_next_step() -> None:
    for reason in events.EndReason:
        state = SessionState()
        fold(state, events.RunStarted(turn_limit=10), n=1)
        fold(state, events.RunEnded(reason=reason, detail="so it was"), n=2)
        notice = state.blocks[-1]
        assert isinstance(notice, Notice)
        assert notice.title
        assert notice.next_step
        assert (state.problem is not None) == (notice.tone == "bad")


def test_an_end_that_only_a_newer_version_knows_is_named() -> None:
    state = SessionState()
    fold(state, events.RunEnded(reason="moon_phase"), n=1)  # type: ignore[arg-type]
    assert isinstance(state.blocks[0], Notice)
    assert "moon phase" in state.blocks[0].title


def test_a_new_run_takes_the_problem_off() -> None:
    state = SessionState()
    fold(state, events.ErrorEvent(what="No compiler.", where="nvcc", next_step="Install it."), n=1)
    assert state.problem is not None
    fold(state, events.RunStarted(turn_limit=10), n=2)
    assert state.problem is None


def test_decisions_and_landings() -> None:
    state = SessionState()
    fold(state, events.HunkAccepted(attempt=4, file="blocks.py", hunk="h1"), n=1)
    fold(state, events.HunkRejected(attempt=4, file="blocks.py", hunk="h2", reason="not asked for"), n=2)
    fold(state, events.HunkAccepted(attempt=4, file="blocks.py", hunk="h2"), n=3)
    assert state.decisions[(4, "blocks.py", "h2")].accepted
    files = [{"path": "/p/blocks.py", "before": "b", "after": "a"}]
    fold(state, events.Landed(landing=1, attempt=4, files=files, partial=False, verdict={}), n=4)
    assert state.landing_to_undo() is state.landings[0]
    fold(state, events.Undone(landing=1, files=[{"path": "/p/blocks.py", "outcome": "restored"}]), n=5)
    assert state.landing_to_undo() is None


def test_a_landing_is_told_with_what_was_measured_of_it() -> None:
    state = SessionState()
    for number, judged in enumerate((make_verdict(tier="full", ratio=2.0).to_json(), {}), 1):
        fold(state, events.Landed(landing=number, attempt=4, files=[], partial=False, verdict=judged), n=number)
    timed, unknown = (block.title for block in state.blocks if isinstance(block, Notice))
    assert timed == "Attempt 4 landed in your project: as it lies there 2.00× eager [1.90, 2.10]"
    assert unknown == "Attempt 4 landed in your project"


def test_changes_name_what_moved_and_are_taken_once(story: Path) -> None:
    state = folded(story)
    changes = state.take_changes()
    assert changes.blocks == frozenset(range(len(state.blocks)))
    assert Part.ATTEMPTS in changes.parts
    assert state.take_changes().parts is Part.NONE
    fold(state, events.Delta(turn=9, kind="text", text="x"))
    assert state.take_changes().parts is Part.LIVE


def test_arguments_that_do_not_parse_are_kept_as_text() -> None:
    state = SessionState()
    call = {"id": "a", "function": {"name": "Bash", "arguments": '{"command": "l'}}
    turn = events.ModelTurn(
        turn=1, message={"tool_calls": [call]}, prompt_sha256="", finish_reason="", model="", seconds=0.0
    )
    fold(state, turn, n=1)
    assert isinstance(state.blocks[0], Call)
    assert state.blocks[0].arguments == {"_raw": '{"command": "l'}


def test_the_best_is_the_last_verdict_of_the_fastest_also_after_the_end(story: Path) -> None:
    state = folded(story)
    assert state.end is not None
    assert state.best() is state.attempts[3]
    again = replace(state.attempts[3], number=5)
    state.attempts.append(again)
    assert state.best() is again


def test_a_task_that_is_there_waits_for_the_developer_and_for_nothing_else() -> None:
    state = SessionState()
    fold(state, events.StageEvent(part="task", text="loading net:ScaleNorm"), n=1, time=1.0)
    assert state.step is not None
    fold(state, events.StageEvent(part="task", text=LOADED), n=2, time=2.0)
    assert state.step is None
    [steps] = state.blocks
    assert isinstance(steps, Steps)
    assert [step.text for step in steps.steps] == ["loading net:ScaleNorm", LOADED]


def test_limits_and_a_shortened_conversation_are_said() -> None:
    state = SessionState()
    fold(state, events.RunStarted(turn_limit=9, budget={"tokens": 50_000, "minutes": 1.5}), n=1)
    fold(state, events.Compacted(messages=[], tokens_before=90_000, tokens_after=30_000), n=2)
    started, shortened = state.blocks
    assert isinstance(started, Notice)
    assert started.detail == "up to 9 turns, 50,000 tokens, 1.5 minutes"
    assert isinstance(shortened, Notice)
    assert "90,000 to about 30,000 tokens" in shortened.detail

"""Replay: recorded answers are played, and the run ends when today's results no longer fit."""

from __future__ import annotations

import pytest

from agent import events as ev
from agent.model import ModelRefused, RunStopped, make_model
from agent.replay import ReplayModel, find_recording
from sandbox.errors import ModelUnavailable, UsageError
from tests.agent.support import make_recording, make_settings, make_turn, make_verdict


def result(name, ok=True, call_id="c0"):
    message = {"role": "tool", "tool_call_id": call_id, "content": ""}
    return ev.ToolFinished(call_id=call_id, name=name, ok=ok, message=message, seconds=0)


def attempt(ok=True):
    return ev.Attempt(attempt=1, files={}, verdict=make_verdict(ok=ok).to_json(), call_id="c0")


WRITE = make_turn("First I write it.", ("Write", {"path": "a", "content": "one\ntwo\n"}))
CHECK = make_turn("", ("Check", {}))
DONE = make_turn("It is faster.")


@pytest.fixture
def recording(tmp_path):
    events = (WRITE, result("Write"), CHECK, attempt(ok=False), result("Check", ok=False), DONE)
    return make_recording(tmp_path, *events)


async def ask(model):
    pieces = []
    answer = await model.answer([], [], pieces.append)
    return answer, pieces


async def test_answers_are_played_in_order_and_stream(recording):
    model = ReplayModel(recording, "cpu")
    answer, pieces = await ask(model)
    assert answer.message == WRITE.message
    assert answer.model == "recorded/model"
    assert "".join(piece.text for piece in pieces if piece.kind == "text") == "First I write it."
    arguments = [piece for piece in pieces if piece.kind == "tool"]
    assert {(piece.call, piece.name) for piece in arguments} == {(0, "Write")}
    assert "".join(piece.text for piece in arguments) == WRITE.message["tool_calls"][0]["function"]["arguments"]
    for event in (WRITE, result("Write")):
        model.observe(event)
    assert (await ask(model))[0].message == CHECK.message
    for event in (CHECK, attempt(ok=False), result("Check", ok=False)):
        model.observe(event)
    assert (await ask(model))[0].message == DONE.message
    model.observe(DONE)
    with pytest.raises(RunStopped) as stopped:
        await ask(model)
    assert stopped.value.reason == ev.EndReason.FINISHED


@pytest.mark.parametrize(
    ("today", "said"),
    [
        ((WRITE, result("Write", ok=False)), "Write call of answer 1: recorded Write went well, today Write failed"),
        (
            (WRITE, result("Write"), CHECK, attempt(ok=True), result("Check", ok=True)),
            "recorded Check failed (build failed), today Check went well (build passed, guard passed, verify passed)",
        ),
    ],
)
async def test_the_run_ends_when_todays_results_no_longer_fit(recording, today, said):
    model = ReplayModel(recording, "cpu")
    for event in today:
        model.observe(event)
    with pytest.raises(RunStopped) as stopped:
        await ask(model)
    assert stopped.value.reason == ev.EndReason.REPLAY_DIVERGED
    assert said in stopped.value.detail


async def test_a_check_may_be_answered_from_an_earlier_verdict_on_one_side_only(recording):
    model = ReplayModel(recording, "cpu")
    for event in (WRITE, result("Write"), CHECK, result("Check", ok=False)):
        model.observe(event)
    assert (await ask(model))[0].message == DONE.message


def test_a_recording_of_the_other_kind_of_device_is_refused(recording):
    with pytest.raises(ModelRefused, match="made on cpu, and this session is on cuda"):
        ReplayModel(recording, "cuda")


def test_recordings_are_found_by_path_by_id_and_by_last(recording, tmp_path):
    home = tmp_path / "recordings"
    assert find_recording(str(recording), home) == recording
    assert find_recording("last", home) == recording
    assert find_recording(recording.name.split("-")[2], home) == recording
    with pytest.raises(UsageError, match="no recording 'nothing'"):
        find_recording("nothing", home)


def test_a_model_is_chosen_by_the_settings(recording, tmp_path):
    assert isinstance(make_model(make_settings(tmp_path, model=f"replay:{recording}"), "cpu"), ReplayModel)
    with pytest.raises(ModelRefused, match="no recording 'nothing'"):
        make_model(make_settings(tmp_path, model="replay:nothing"), "cpu")
    with pytest.raises(ModelUnavailable, match="No model is chosen"):
        make_model(make_settings(tmp_path), "cpu")


THREE = make_turn("All at once.", ("Read", {"path": "a"}), ("Write", {"path": "a"}), ("Check", {}))


def cut_off(name, call_id):
    message = {"role": "tool", "tool_call_id": call_id, "content": "Interrupted by the developer before it was done."}
    return ev.ToolFinished(call_id=call_id, name=name, ok=False, message=message, seconds=0)


async def test_calls_that_were_cut_off_are_asked_for_again_and_then_compared(tmp_path):
    ids = [call["id"] for call in THREE.message["tool_calls"]]
    done = [result("Read", call_id=ids[0]), result("Write", call_id=ids[1]), result("Check", call_id=ids[2])]
    model = ReplayModel(make_recording(tmp_path, THREE, *done, DONE), "cpu")
    for event in (THREE, done[0], cut_off("Write", ids[1]), cut_off("Check", ids[2])):
        model.observe(event)
    again = (await ask(model))[0].message
    assert again["content"] == ""
    assert [call["function"]["name"] for call in again["tool_calls"]] == ["Write", "Check"]
    model.observe(ev.ModelTurn(**{**vars(THREE), "message": again}))
    for event in (result("Write", call_id=ids[1]), cut_off("Check", ids[2])):
        model.observe(event)
    last = (await ask(model))[0].message
    assert [call["function"]["name"] for call in last["tool_calls"]] == ["Check"]
    model.observe(ev.ModelTurn(**{**vars(THREE), "message": last}))
    model.observe(result("Check", call_id=ids[2]))
    assert (await ask(model))[0].message == DONE.message


async def test_a_call_that_was_asked_for_again_may_still_diverge(tmp_path):
    ids = [call["id"] for call in THREE.message["tool_calls"]]
    done = [result("Read", call_id=ids[0]), result("Write", call_id=ids[1]), result("Check", call_id=ids[2])]
    model = ReplayModel(make_recording(tmp_path, THREE, *done, DONE), "cpu")
    for event in (THREE, done[0], done[1], cut_off("Check", ids[2])):
        model.observe(event)
    again = (await ask(model))[0].message
    model.observe(ev.ModelTurn(**{**vars(THREE), "message": again}))
    model.observe(result("Check", ok=False, call_id=ids[2]))
    with pytest.raises(RunStopped, match="Check call of answer 1") as stopped:
        await ask(model)
    assert stopped.value.reason == ev.EndReason.REPLAY_DIVERGED

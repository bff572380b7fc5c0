"""The fold: the conversation, the best attempt, decisions and landings are what the events say, in order."""

from __future__ import annotations

from dataclasses import replace

from agent import events as ev
from agent.state import SessionState
from sandbox.verdict import Finding, GuardReport, Speedup
from tests.agent.support import make_verdict


def fold(*events):
    state = SessionState()
    for event in events:
        state.apply(event)
    return state


def turn(*calls, **more):
    message = {"role": "assistant", "content": "words"}
    if calls:
        message["tool_calls"] = [
            {"id": c, "type": "function", "function": {"name": "Read", "arguments": "{}"}} for c in calls
        ]
    return ev.ModelTurn(turn=1, message=message, prompt_sha256="", finish_reason="stop", model="m", seconds=1, **more)


def result(call_id):
    message = {"role": "tool", "tool_call_id": call_id, "content": "x"}
    return ev.ToolFinished(call_id=call_id, name="Read", ok=True, message=message, seconds=0)


def user(text, origin="task"):
    return ev.UserMessage(message={"role": "user", "content": text}, origin=origin)


def attempt(number, files, **verdict):
    return ev.Attempt(attempt=number, files=files, verdict=make_verdict(**verdict).to_json())


SYSTEM = ev.ConversationStarted(message={"role": "system", "content": "s"}, tools=[{"type": "function"}])


def test_the_conversation_is_system_user_answers_and_results_in_order():
    state = fold(SYSTEM, user("go"), turn("a", "b"), result("b"))
    assert [message["role"] for message in state.messages] == ["system", "user", "assistant", "tool"]
    assert list(state.open_calls) == ["a"]
    assert state.turns == 1


def test_the_hash_of_a_request_depends_on_messages_and_tools_only():
    one, two = fold(SYSTEM, user("go")), fold(ev.RunStarted(turn_limit=3), SYSTEM, user("go"))
    assert one.prompt_sha256 == two.prompt_sha256
    assert fold(SYSTEM, user("stop")).prompt_sha256 != one.prompt_sha256
    assert fold(ev.ConversationStarted(message=SYSTEM.message, tools=[]), user("go")).prompt_sha256 != one.prompt_sha256


def test_length_is_what_the_provider_counted_and_an_estimate_of_what_came_since():
    counted = fold(SYSTEM, user("go" * 3000), turn(usage={"total_tokens": 5000}))
    assert 5000 <= counted.tokens < 5010
    since = fold(SYSTEM, user("go"), turn(usage={"total_tokens": 5000}), user("x" * 3000))
    assert 6000 < since.tokens < 6100


def test_what_the_developer_said_waits_until_it_is_told_and_survives_a_restart():
    events = [
        ev.Steered(text="try float4"),
        ev.HunkRejected(attempt=1, file="a.py", hunk="3", reason="too clever"),
        user("try float4", "steer"),
    ]
    state = fold(*events)
    assert [text for _, text in state.steering] == ["The developer rejected hunk 3 of a.py in attempt 1: too clever"]
    assert fold(*events, user("...", "decision")).steering == []


def test_the_last_decision_on_a_hunk_counts():
    reject = ev.HunkRejected(attempt=2, file="a.py", hunk="1", reason="no")
    accept = ev.HunkAccepted(attempt=2, file="a.py", hunk="1")
    assert fold(reject).rejected(2) == {("a.py", "1"): "no"}
    assert fold(reject).rejected(1) == {}
    assert fold(reject, accept).rejected(2) == {}


def test_the_best_attempt_goes_by_reward_then_by_ratio_and_only_if_it_is_correct():
    state = fold(
        attempt(1, {"a": "1"}, reward=1, ratio=9.0),
        attempt(2, {"a": "2"}, reward=3, ratio=2.0),
        attempt(3, {"a": "3"}, reward=3, ratio=3.0),
        attempt(4, {"a": "4"}, ok=False),
    )
    assert state.best.attempt == 3
    assert fold(attempt(1, {"a": "1"}, ok=False)).best is None


def test_a_full_verdict_replaces_a_quick_one_of_the_same_files_and_not_the_other_way_round():
    quick, full = attempt(1, {"a": "1"}, ratio=5.0), attempt(2, {"a": "1"}, tier="full", ratio=1.5, reward=2)
    other = attempt(3, {"a": "2"}, ratio=2.0)
    assert fold(quick, full, other).best.attempt == 3
    assert fold(full, quick).best.verdict.tier == "full"


def test_files_judged_already_are_known_at_their_tier_unless_the_times_were_disturbed():
    state = fold(attempt(1, {"a": "1"}), attempt(2, {"a": "2"}, reward=None))
    assert state.judgement({"a": "1"}, "quick").attempt == 1
    assert state.judgement({"a": "1"}, "full") is None
    assert state.judgement({"a": "2"}, "quick") is None


def test_a_verdict_that_hangs_on_the_measurement_is_not_used_again():
    def judged(**changes):
        verdict = replace(make_verdict(), **changes)
        return fold(ev.Attempt(attempt=1, files={"a": "1"}, verdict=verdict.to_json())).judgement({"a": "1"}, "quick")

    def against(ratio, low, high):
        wide = {"eager": Speedup(ratio, low, high), "compile": Speedup(1.5, 1.4, 1.6)}
        return replace(make_verdict().profile, speedup=wide)

    assert judged(guard=GuardReport(False, (Finding("clock", "reject", "10 us"),)), reward=-1) is None
    assert judged(guard=GuardReport(True, (Finding("clock", "label", "std::chrono"),))) is not None
    assert judged(profile=against(2.5, 0.001, 1272.0), reward=1) is None
    assert judged(profile=against(0.8, 0.7, 0.9), reward=1) is not None


def test_a_landing_stands_until_it_is_undone_and_the_agent_is_told_of_both():
    landed = ev.Landed(landing=1, attempt=2, files=[{"path": "/p/a.py"}], partial=True, verdict={})
    reject = ev.HunkRejected(attempt=2, file="k.cpp", hunk="file", reason="")
    state = fold(reject, landed)
    assert state.landings_standing == [1]
    told = [text for _, text in state.steering]
    assert told[0] == "The developer rejected k.cpp in attempt 2, without giving a reason."
    assert "accepted attempt 2, without k.cpp (file)" in told[1]
    assert fold(landed, ev.Undone(landing=1, files=[])).landings_standing == []

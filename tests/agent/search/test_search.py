"""A search through real HTTP and the real judge: agents that differ, fail, cheat and write the same code."""

from __future__ import annotations

import json
import threading

import pytest

from agent.search.coordinator import run_search
from agent.search.record import create_record, find_record
from agent.session import open_session, read_state
from agent.state import settled
from sandbox.errors import ExitCode
from tests.agent.support import make_settings, make_spec
from tests.agent.test_end_to_end import CANDIDATE, FILE, KERNEL
from tests.servers.openai_server import Call, OpenAIServer, Reply

CHEAT = CANDIDATE.replace(
    "out = torch.empty_like(x)", "import torch._C\n        out = (x * self.scale + 1).clamp(-2, 2)"
)


def writes(kernel, candidate=CANDIDATE):
    files = {FILE: kernel, "shifted.py": candidate}
    return [Call("Write", {"file_path": path, "content": text}) for path, text in files.items()]


def answer(request):
    """Answer by what the prompt contains: the idea tells which agent asks."""
    said = json.dumps(request["messages"])
    answers = sum(message["role"] == "assistant" for message in request["messages"])
    if "BROKEN" in said:
        return Reply(status=401, error={"error": {"message": "no such key"}})
    if answers:
        return Reply(text="Done.")
    if "Your workspace does not hold the original" in said:
        return Reply(calls=[Call("Check")])
    if "CHEAT" in said:
        return Reply(calls=[*writes(KERNEL, CHEAT), Call("Check")])
    return Reply(calls=[*writes(KERNEL), Call("Check")])


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_agents_differ_the_best_is_carried_forward_and_cheats_and_failures_are_not(tmp_path, capsys):
    with OpenAIServer([answer] * 100) as server:
        settings = make_settings(tmp_path, model="openai/test", api_base=server.base_url, turn_limit=24)
        record = create_record(
            make_spec(tmp_path), settings, agents=3, rounds=2, ideas=["HONEST", "CHEAT", "BROKEN"], models=[]
        )
        code = run_search(record, land="full-pass")
    record = find_record(settings.home, "last")
    rounds = {(m.round, m.agent): m for m in record.members}
    assert set(rounds) == {(1, 1), (1, 2), (1, 3), (2, 1), (2, 2)}
    assert record.ended[str(rounds[1, 3].session)] == "model_error"
    assert not any(judged.verdict.correct for judged in read_state(rounds[1, 2].session).judged)
    cheated = read_state(rounds[1, 2].session).turns
    for agent in (1, 2):
        assert rounds[2, agent].base["session"] == str(rounds[1, 1].session)
        session = open_session(rounds[2, agent].session)
        assert (session.workspace / FILE).read_text() == KERNEL
        assert session.settings.turn_limit == (24 - read_state(rounds[1, 1].session).turns - cheated) // 3
        assert not read_state(session.folder).words
        assert FILE not in read_state(session.folder).original_files
    states = {key: read_state(member.session) for key, member in rounds.items()}
    first = states[1, 1].judged[0].verdict
    if settled(first):  # on a busy machine it may not be, and is no verdict for others
        assert [states[2, agent].judged[0].verdict for agent in (1, 2)] == [first, first]
    full = [judged for state in states.values() for judged in state.judged if judged.verdict.tier == "full"]
    assert full
    told = capsys.readouterr().out
    assert "model_error" in told
    landed = any(state.landings for state in states.values())
    assert (code == ExitCode.OK) == landed, told
    assert ("fused_shift" in (tmp_path / "project" / "shifted.py").read_text()) == landed
    assert landed or full[-1].verdict.reward not in (2, 3) or "not landed" in told
    assert ("\nlanded: " in told) == landed
    assert ("look at what landed, or undo it" in told) == landed


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_what_one_agent_had_judged_another_is_told_at_once(tmp_path):
    (_, first), (_, second) = write_alike(tmp_path, KERNEL.replace("return 0;", "return 0"), ExitCode.FAILED)
    assert [each.verdict.reward for each in second.judged] == [-1]
    assert second.judged[0].verdict == first.judged[0].verdict
    told = [message["content"] for message in second.messages if message["role"] == "tool"][-1]
    assert "was judged already as attempt 1 of session" in told
    assert "expected ';'" in told


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(600)
def test_a_time_that_one_agent_was_given_is_anothers_for_the_same_code(tmp_path):
    (session, first), (_, second) = write_alike(tmp_path, KERNEL, ExitCode.OK)
    given, taken = first.judged[0], second.judged[0]
    if not settled(given.verdict):
        pytest.skip(f"the machine is too busy: {given.verdict.reason}")
    assert given.verdict.profile.samples
    assert taken.verdict == given.verdict
    assert taken.taken_from == {"session": session.id, "attempt": 1}
    assert given.taken_from is None
    told = [message["content"] for message in second.messages if message["role"] == "tool"][-1]
    assert f"attempt 1 of session {session.id}" in told
    assert "eager" in told
    full = [judged.verdict for judged in (*first.judged, *second.judged) if judged.verdict.tier == "full"]
    assert len({json.dumps(verdict.to_json()) for verdict in full}) == len(full) >= 2


def write_alike(folder, kernel, ends_with):
    """Let two agents write this kernel, each with a model of its own, and return their sessions and states.

    The second lays it out anew, once the first has its verdict.
    """
    judged = threading.Event()

    def either(request):
        second = "SECOND" in json.dumps(request["messages"])
        if any(message["role"] == "tool" for message in request["messages"]):
            judged.set()
            return Reply(text="That is what can be done.")
        if second:
            judged.wait(200)
        return Reply(calls=[*writes("// mine\n" + kernel.replace("    ", "  ") if second else kernel), Call("Check")])

    with OpenAIServer([either] * 20) as server:
        settings = make_settings(folder, api_base=server.base_url)
        spec, models = make_spec(folder), ["openai/one", "openai/two"]
        record = create_record(spec, settings, agents=2, rounds=1, ideas=["FIRST", "SECOND"], models=models)
        assert run_search(record) == ends_with
    asked = {(request["model"], "SECOND" in json.dumps(request["messages"])) for request in server.requests}
    assert asked == {("one", False), ("two", True)}
    members = find_record(settings.home, "last").members
    return [(open_session(member.session), read_state(member.session)) for member in members]


def test_all_models_fail_is_3_and_the_search_is_kept(tmp_path):
    with OpenAIServer([answer] * 10) as server:
        settings = make_settings(tmp_path, model="openai/test", api_base=server.base_url)
        record = create_record(make_spec(tmp_path), settings, agents=1, rounds=2, ideas=["BROKEN"], models=[])
        assert run_search(record) == ExitCode.ENVIRONMENT
    assert len(find_record(settings.home, record.id).members) == 1


@pytest.mark.long
def test_an_agent_that_a_limit_ended_goes_on_when_the_search_is_given_more(tmp_path):
    def answer(request):
        answers = sum(message["role"] == "assistant" for message in request["messages"])
        return Reply(text="Done.") if answers > 2 else Reply(text="At work.", calls=[Call("Glob", {"pattern": "*"})])

    with OpenAIServer([answer] * 20) as server:
        settings = make_settings(tmp_path, model="openai/test", api_base=server.base_url, turn_limit=2)
        record = create_record(make_spec(tmp_path), settings, agents=1, rounds=1, ideas=[], models=[])
        run_search(record)
        assert list(find_record(settings.home, "last").ended.values()) == ["turn_limit"]
        run_search(find_record(settings.home, "last"))
        assert len(server.requests) == 2
        run_search(find_record(settings.home, "last"), limits={"turn_limit": 5})
    record = find_record(settings.home, "last")
    assert list(record.ended.values()) == ["finished"]
    assert read_state(record.members[0].session).limits.answers == 3

"""The loop against a real server over HTTP, with the real tools of a real workspace."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import replace

import pytest

from agent import events as ev
from agent.budget import Budget, Limits, Spent
from agent.events import EndReason
from agent.litellm_model import LiteLLMModel
from agent.loop import Loop, permit_all
from agent.redact import Redactor
from agent.state import SessionState
from agent.store import SessionWriter, read_blob, read_events
from agent.stream import Stream
from agent.tools import workspace_tools
from agent.tools.base import FunctionTool
from sandbox.isolation import best_isolation
from sandbox.workspace import Workspace
from tests.agent.support import make_spec, make_verdict
from tests.servers.openai_server import Call, OpenAIServer, Reply
from tests.servers.provider import Tokens

DONE = Reply(text="There is nothing more to gain.")


class Bench:
    """A conversation about a real workspace, and a loop over it."""

    def __init__(
        self,
        folder,
        script,
        *,
        correct=True,
        begun=False,
        secrets=None,
        judging=(),
        budget=None,
        context_tokens=100_000,
        permit=permit_all,
    ):
        spec = make_spec(folder)
        self.server = OpenAIServer(script)
        self.workspace = Workspace.create(spec, folder / "session" / "workspace")
        self.stream = Stream(SessionWriter(folder / "session"), os.open(os.devnull, os.O_WRONLY), SessionState())
        self.hands = workspace_tools(
            self.workspace, best_isolation(), lambda items: self.stream.emit(ev.Todo(items=items))
        )
        tools = (*self.hands, *judging)
        schemas = [{"type": "function", "function": tool.schema} for tool in tools]
        system = {"role": "system", "content": "You are tested."}
        self.stream.emit(ev.ConversationStarted(message=system, tools=schemas))
        self.stream.emit(ev.UserMessage(message={"role": "user", "content": "Begin."}))
        if correct:
            self.stream.emit(ev.Attempt(attempt=1, files={}, verdict=make_verdict().to_json()))
        self.budget = Budget(Limits(**{"answers": 20, **(budget or {})}), Spent())
        self.loop = Loop(
            LiteLLMModel("openai/test", self.server.base_url),
            tools,
            self.stream,
            Redactor(secrets or {}),
            budget=self.budget,
            contrast=True,
            permit=permit,
            begun_from_attempt=begun,
            context_tokens=context_tokens,
        )

    async def run(self):
        with self.server:
            return await self.loop.run()

    def close(self):
        self.hands.close()
        self.stream.writer.close()

    def events(self, kind):
        stored = [item.event for item in read_events(self.stream.writer.folder)]
        return [event for event in stored if isinstance(event, kind)]

    @property
    def results(self):
        return [message["content"] for message in self.stream.state.messages if message["role"] == "tool"]


@pytest.fixture
def make(tmp_path):
    """Make benches, and end their shells after the test."""
    benches = []

    def build(script, **how):
        benches.append(Bench(tmp_path, script, **how))
        return benches[-1]

    yield build
    for bench in benches:
        bench.close()


async def test_parallel_reads_and_a_write_do_what_they_say_and_every_request_is_the_fold(make):
    calls = [
        Call("Read", {"file_path": "shifted.py"}, "r1"),
        Call("Glob", {"pattern": "**/*.py"}, "r2"),
        Call("Write", {"file_path": "kernels/one.cpp", "content": "// one\n"}, "w"),
        Call("Read", {"file_path": "kernels/one.cpp"}, "r3"),
    ]
    bench = make([Reply(text="Look first.", calls=calls), DONE])
    ended = await bench.run()
    assert ended.reason == EndReason.FINISHED
    assert (bench.workspace.folder / "kernels" / "one.cpp").read_text() == "// one\n"
    by_id = {m["tool_call_id"]: m["content"] for m in bench.stream.state.messages if m["role"] == "tool"}
    assert set(by_id) == {"r1", "r2", "w", "r3"}
    assert "class Shifted" in by_id["r1"]
    assert "// one" in by_id["r3"]
    refolded = SessionState()
    sent = iter(bench.server.requests)
    for item in read_events(bench.stream.writer.folder):
        if isinstance(item.event, ev.ModelTurn):
            assert item.event.prompt_sha256 == refolded.prompt_sha256
            assert next(sent)["messages"] == refolded.messages
        refolded.apply(item.event)


async def test_calls_run_at_once_and_their_answers_come_in_the_order_of_the_calls(make):
    done = asyncio.Event()

    async def slow() -> str:
        await done.wait()
        return "slow"

    async def fast() -> str:
        done.set()
        return "fast"

    tools = [FunctionTool(each.__name__, "Answers.", {}, each, read_only=True) for each in (slow, fast)]
    bench = make([Reply(calls=[Call("slow"), Call("fast")]), DONE], judging=tools)
    await bench.run()
    assert bench.results == ["slow", "fast"]


async def test_malformed_and_unknown_calls_are_answered_and_the_loop_goes_on(make):
    bad = Reply(calls=[Call("Read", '{"file_path": "shif', "a"), Call("Browse", {}, "b"), Call("Read", {}, "c")])
    bench = make([bad, DONE])
    ended = await bench.run()
    assert ended.reason == EndReason.FINISHED
    assert "not valid JSON" in bench.results[0]
    first = bench.events(ev.ModelTurn)[0]
    assert [error["problem"] for error in first.parse_errors] == bench.results[:2]
    assert first.identity == {"provider": "openai"}
    assert "There is no tool 'Browse'" in bench.results[1]
    assert "file_path" in bench.results[2]
    assert [event.ok for event in bench.events(ev.ToolFinished)] == [False, False, False]
    assert bench.events(ev.ToolStarted)[0].arguments == {"_raw": '{"file_path": "shif'}
    assert json.loads(bench.server.requests[1]["messages"][2]["tool_calls"][0]["function"]["arguments"]) == {}


async def test_nothing_is_judged_after_an_edit_of_the_same_answer_failed(make):
    edit = Call("Edit", {"file_path": "shifted.py", "old_string": "not there", "new_string": "x"})
    script = [Reply(calls=[Call("Check"), edit, Call("Check")]), Reply(calls=[Call("Check")]), DONE]
    bench = make(script, judging=[FunctionTool("Check", "Judges.", {}, lambda: "judged")])
    await bench.run()
    assert [bench.results[0], *bench.results[2:]] == [
        "judged",
        "Check was not run: the Edit before it in this answer failed.",
        "judged",
    ]


async def test_retries_are_events_and_the_answer_counts_once(make):
    script = [
        Reply(status=429, headers={"Retry-After": "0"}),
        Reply(text="an answer that is cut off", drop_after=3),
        DONE,
    ]
    bench = make(script)
    assert (await bench.run()).reason == EndReason.FINISHED
    assert len(bench.events(ev.ModelRetry)) == 2
    assert [event.turn for event in bench.events(ev.ModelTurn)] == [1]


@pytest.mark.parametrize(
    ("reply", "reason", "said"),
    [
        (Reply(status=401, error={"message": "bad key"}), EndReason.MODEL_ERROR, "bad key"),
        (Reply(status=400, error={"message": "maximum context length is 9"}), EndReason.CONTEXT_LENGTH, "length is 9"),
    ],
)
async def test_what_the_provider_refuses_ends_the_run_with_its_reason(make, reply, reason, said):
    ended = await make([reply]).run()
    assert ended.reason == reason
    assert said in ended.detail


async def test_a_full_context_ends_the_run_before_it_is_sent(make):
    bench = make([DONE], context_tokens=8_200)
    assert (await bench.run()).reason == EndReason.CONTEXT_LENGTH
    assert bench.server.requests == []


async def test_the_turn_limit_ends_the_run(make):
    read = Reply(calls=[Call("Read", {"file_path": "shifted.py"})])
    bench = make([read, read, read], budget={"answers": 2})
    assert (await bench.run()).reason == EndReason.TURN_LIMIT
    assert len(bench.server.requests) == 2


@pytest.mark.parametrize(
    ("budget", "reason", "said"),
    [
        ({"tokens": 250}, EndReason.TOKEN_LIMIT, "of 250 tokens"),
        ({"dollars": 1.0}, EndReason.COST_LIMIT, "without a price"),
    ],
)
async def test_a_limit_of_tokens_or_money_ends_the_run_before_the_next_question(make, budget, reason, said):
    read = Reply(calls=[Call("Read", {"file_path": "shifted.py"})], tokens=Tokens(input=100, output=50))
    bench = make([read] * 9, budget=budget)
    ended = await bench.run()
    assert ended.reason == reason
    assert said in ended.detail
    assert len(bench.server.requests) == (2 if reason == EndReason.TOKEN_LIMIT else 1)


async def test_the_end_of_the_time_ends_a_call_that_goes_on(make):
    sleep = Reply(calls=[Call("Bash", {"command": "sleep 600"})])
    bench = make([sleep], budget={"minutes": 0.05})
    assert (await bench.run()).reason == EndReason.TIME_LIMIT
    assert bench.stream.state.open_calls == {}


async def test_the_runs_time_stands_still_while_the_developer_is_asked(make):
    seen = []

    async def ask(_call, _tool):
        for _ in range(2):
            seen.append(bench.budget.minutes)
            await asyncio.sleep(0.05)
        return ""

    bench = make([Reply(calls=[Call("Read", {"file_path": "shifted.py"})]), DONE], permit=ask)
    assert (await bench.run()).reason == EndReason.FINISHED
    assert seen[0] == seen[1] < bench.budget.minutes


async def test_the_model_is_told_once_at_each_level_that_the_budget_runs_out(make):
    read = Reply(calls=[Call("Read", {"file_path": "shifted.py"})])
    bench = make([read] * 19 + [DONE], budget={"answers": 20})
    await bench.run()
    told = [m["content"] for m in bench.server.requests[-1]["messages"] if "of this run are used" in str(m["content"])]
    assert [text.split(" answers")[0] for text in told] == ["15 of 20", "18 of 20"]


async def test_two_variants_are_compared_once_before_the_next_attempt(make):
    read = Reply(calls=[Call("Read", {"file_path": "shifted.py"})])
    bench = make([read, read, DONE])
    verdict = replace(make_verdict(ratio=4.0), source_sha256="other")
    bench.stream.emit(ev.Attempt(attempt=2, files={}, verdict=verdict.to_json()))
    await bench.run()
    (shown,) = [
        e.event
        for e in read_events(bench.stream.writer.folder)
        if isinstance(e.event, ev.UserMessage) and e.event.attempts
    ]
    assert (shown.origin, shown.attempts) == ("contrast", [1, 2])
    assert shown.message in bench.server.requests[0]["messages"]
    assert bench.server.requests[-1]["messages"].count(shown.message) == 1


@pytest.mark.parametrize(("begun", "answers"), [(False, 2), (True, 1)])
async def test_who_ends_without_a_correct_attempt_is_asked_once_more_but_not_where_the_base_is_one(
    make, begun, answers
):
    bench = make([Reply(text="Nothing better is to be found.")] * 3, correct=False, begun=begun)
    assert (await bench.run()).reason == EndReason.FINISHED
    assert len(bench.server.requests) == answers


async def test_a_silent_model_is_nudged_twice_and_then_given_up(make):
    bench = make([Reply(), Reply(), Reply(), Reply()])
    assert (await bench.run()).reason == EndReason.MODEL_SILENT
    assert len(bench.server.requests) == 3
    assert "empty" in bench.server.requests[2]["messages"][-1]["content"]


async def test_a_model_that_never_writes_a_usable_call_is_given_up(make):
    bench = make([Reply(calls=[Call("Read", "{")])] * 20)
    assert (await bench.run()).reason == EndReason.MODEL_SILENT
    assert len(bench.server.requests) == 8


async def test_without_a_correct_attempt_the_end_is_questioned_once(make):
    bench = make([DONE, DONE], correct=False)
    assert (await bench.run()).reason == EndReason.FINISHED
    assert len(bench.server.requests) == 2


async def test_an_answer_cut_at_the_output_limit_is_continued(make):
    bench = make([Reply(text="and then", finish="length"), DONE])
    assert (await bench.run()).reason == EndReason.FINISHED
    assert "cut off" in bench.server.requests[1]["messages"][-1]["content"]


async def test_steering_is_told_before_the_next_turn_and_keeps_a_finished_run_going(make):
    bench = None

    def finish_while_steered(request):
        bench.stream.emit(ev.Steered(text="also drop the clamp"))
        return Reply(text="I am done.")

    bench = make([finish_while_steered, DONE])
    assert (await bench.run()).reason == EndReason.FINISHED
    assert bench.server.requests[1]["messages"][-1] == {"role": "user", "content": "[developer] also drop the clamp"}
    assert [event.origin for event in bench.events(ev.UserMessage)] == ["task", "steer"]


async def test_interrupting_a_tool_leaves_a_conversation_that_can_go_on(make):
    calls = [Call("Bash", {"command": "sleep 60"}, "b"), Call("Read", {"file_path": "shifted.py"}, "r")]
    bench = make([Reply(calls=calls)])
    with bench.server:
        task = asyncio.create_task(bench.loop.run())
        while not bench.events(ev.ToolStarted):
            await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 50)
    answered = [message["tool_call_id"] for message in bench.stream.state.messages if message["role"] == "tool"]
    assert answered == ["b", "r"]
    assert bench.stream.state.open_calls == {}


async def test_a_secret_never_reaches_the_conversation_nor_the_disk(make):
    secret = "a-very-secret-value"
    say = f"printf '{secret[:7]}%s\\n' '{secret[7:]}'"
    calls = [Call("Bash", {"command": command}) for command in (say, f"for n in $(seq 2000); do {say}; done")]
    busy = Reply(status=503, error={"message": f"no room for {secret}"}, headers={"retry-after": "0"})
    bench = make([busy, Reply(calls=calls), DONE], secrets={"SOME_API_KEY": secret})
    await bench.run()
    assert all("[redacted: SOME_API_KEY]" in result for result in bench.results)
    assert secret not in json.dumps(bench.server.requests)
    (retry,) = bench.events(ev.ModelRetry)
    assert "no room for [redacted: SOME_API_KEY]" in retry.error
    stored = [path for path in bench.stream.writer.folder.rglob("*") if path.is_file()]
    assert any(path.parent.name == "blobs" for path in stored)
    assert not [path for path in stored if secret.encode() in path.read_bytes()]


async def test_the_whole_of_a_clipped_output_is_kept_as_a_blob(make):
    bench = make([Reply(calls=[Call("Bash", {"command": "seq 1 30000"})]), DONE])
    await bench.run()
    (event,) = bench.events(ev.ToolFinished)
    assert len(event.message["content"]) < 20_000
    assert b"\n15000\n" in read_blob(bench.stream.writer.folder, event.full)

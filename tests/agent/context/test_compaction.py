"""A long session over real HTTP stays inside its budget and loses nothing that it must keep."""

from __future__ import annotations

import json
import os

import pytest

from agent import events as ev
from agent.budget import Budget, Limits
from agent.context.prompts import prompt_of
from agent.context.summary import HEAD
from agent.context.window import ANSWER_RESERVE
from agent.events import EndReason
from agent.litellm_model import LiteLLMModel
from agent.loop import Loop
from agent.redact import Redactor
from agent.state import SessionState
from agent.store import SessionWriter, read_events
from agent.stream import Stream
from agent.tools.base import FunctionTool, ToolResult
from agent.tools.recall import recall_tool
from sandbox.errors import UsageError
from tests.agent.support import make_verdict
from tests.servers.openai_server import Call, OpenAIServer, Reply

BUDGET = 12_000
TURNS = 200
BEST = b"// the fastest kernel of all\n" + b"y[i] = x[i] * 2.0f;\n" * 8
STEER = "Never touch the launch bounds."
REASON = "too clever for my colleagues"
NO = "[developer] Rejected: do not run make"
SKILL = "A skill that was read: coalesce your loads."


class Session:
    """A stored session with tools that answer much; opened again, it goes on where it stopped."""

    def __init__(self, folder, server, turn_limit=TURNS, context_tokens=BUDGET + ANSWER_RESERVE):
        folder.mkdir(exist_ok=True)
        state = SessionState()
        for stored in read_events(folder):
            state.apply(stored.event)
        self.folder, self.state = folder, state
        self.stream = Stream(SessionWriter(folder), os.open(os.devnull, os.O_WRONLY), state)
        self.now = {"kernels/a.cu": b"// as it is now\n"}
        tools = [
            FunctionTool("Read", "Reads.", {"file_path": {"type": "string"}}, self.read, read_only=True),
            FunctionTool("Check", "Judges.", {"note": {"type": "string"}}, self.check),
            FunctionTool("Skill", "Tells.", {"name": {"type": "string"}}, lambda name: SKILL, read_only=True),
            FunctionTool("Bash", "Runs.", {"command": {"type": "string"}}, lambda command: "ran"),
            recall_tool(folder),
        ]
        if not state.messages:
            schemas = [{"type": "function", "function": tool.schema} for tool in tools]
            self.say(ev.ConversationStarted(message={"role": "system", "content": "You are tested."}, tools=schemas))
            self.say(ev.UserMessage(message={"role": "user", "content": "Make it faster."}))
        model = LiteLLMModel("openai/test", server.base_url)
        self.loop = Loop(
            model,
            tools,
            self.stream,
            Redactor({}),
            budget=Budget(Limits(turn_limit), self.stream.state.spent),
            context_tokens=context_tokens,
            permit=self.permit,
            files=lambda: self.now,
        )

    def say(self, event):
        self.stream.emit(event)

    async def permit(self, call, _tool):
        return NO if call.name == "Bash" else ""

    def read(self, file_path):
        return f"{file_path}\n" + "float x = y; // a line of source\n" * 40

    async def check(self, **_arguments):
        number = len(self.state.judged) + 1
        verdict = make_verdict(reward=3, ratio=7.0) if number == 2 else make_verdict(ok=False)
        source = BEST if number == 2 else f"// attempt {number}\n".encode()
        files = {"kernels/a.cu": self.stream.blob(source)}
        call_id = self.state.running_call
        self.say(ev.Attempt(attempt=number, files=files, verdict=verdict.to_json(), call_id=call_id))
        return ToolResult(True, f"Attempt {number}: " + "much is said of it. " * 20)

    def close(self):
        self.stream.writer.close()


@pytest.fixture
def opened(tmp_path):
    sessions = []

    def build(server, **how):
        for each in sessions:
            each.close()
        sessions[:] = [Session(tmp_path / "session", server, **how)]
        return sessions[0]

    yield build
    for each in sessions:
        each.close()


def script(session_of):
    """Return answers for every turn; what the developer does comes between two of them."""

    def answer(number):
        def reply(request):
            if number == 6:
                session_of().say(ev.Steered(text=STEER))
            if number == 9:
                session_of().say(ev.HunkRejected(attempt=2, file="a.py", hunk="1", reason=REASON))
            if number == 12:
                session_of().say(ev.Todo(items=[{"content": "try float4", "status": "in_progress"}]))
            if number == 3:
                return Reply(calls=[Call("Skill", {"name": "s"}, f"s{number}")])
            if number == 14:
                return Reply(calls=[Call("Bash", {"command": "make"}, f"b{number}")])
            judged = [Call("Check", {"note": f"idea {number}"}, f"c{number}")] if number % 5 == 0 else []
            return Reply(text=f"Turn {number}.", calls=[Call("Read", {"file_path": "a.py"}, f"r{number}"), *judged])

        return reply

    return [answer(number) for number in range(1, TURNS + 1)]


def text_of(request):
    return "\n".join(str(message.get("content")) for message in request["messages"])


def assert_paired(messages):
    """Every call is answered right behind it, and every result answers a call."""
    open_ids = []
    for message in messages:
        if message["role"] == "tool":
            open_ids.remove(message["tool_call_id"])
            continue
        assert open_ids == []
        open_ids = [call["id"] for call in message.get("tool_calls") or ()]
    assert open_ids == []


async def test_two_hundred_turns_stay_in_the_budget_and_keep_what_must_be_kept_over_a_restart(opened):
    session = None
    with OpenAIServer(script(lambda: session)) as server:
        session = opened(server, turn_limit=TURNS // 2)
        assert (await session.loop.run()).reason == EndReason.TURN_LIMIT
        session = opened(server, turn_limit=TURNS // 2)
        assert (await session.loop.run()).reason == EndReason.TURN_LIMIT
    stored = [item.event for item in read_events(session.folder)]
    shortened = [event for event in stored if isinstance(event, ev.Compacted)]
    assert 2 <= len(shortened) <= TURNS // 8  # rarely and in big steps: each costs the provider's cache
    assert len(server.requests) == TURNS
    state, sent = SessionState(), iter(server.requests)
    for event in stored:
        if isinstance(event, ev.ModelTurn):
            request = next(sent)
            sent_text, made_text = (
                json.dumps(each) for each in (request, {**request, "messages": state.messages, "tools": state.tools})
            )
            assert sent_text == made_text  # byte by byte, the order of keys included
            assert event.prompt_sha256 == state.prompt_sha256
            assert event.usage["input_tokens"] <= BUDGET
            assert_paired(request["messages"])
        state.apply(event)
    for number in (1, TURNS // 2 + 1, TURNS):
        assert prompt_of(stored, number)[0] == server.requests[number - 1]["messages"]
    after = [request for request in server.requests if HEAD in text_of(request)]
    assert len(after) > TURNS // 2
    last = 0
    for request in after:
        told = text_of(request)
        number = server.requests.index(request) + 1
        assert [m["content"] for m in request["messages"][:2]] == ["You are tested.", "Make it faster."]
        assert told.count(HEAD) == 1
        assert BEST.decode().rstrip() in told
        assert "Attempt 2 (quick): reward 3" in told
        kept = {SKILL: 3, f"[developer] {STEER}": 6, REASON: 9, "try float4": 12, NO: 14}
        begun = [event for event in shortened if event.messages == request["messages"][: len(event.messages)]]
        assert begun
        for what, since in kept.items():
            if number > since + 10:
                assert told.count(what) == 1
        judged = (number - 1) // 5
        assert f"Attempt {judged}" in told
        last = max(last, judged)
    assert last >= (TURNS - 1) // 5


async def test_what_a_provider_calls_too_long_is_shortened_once_and_asked_again(opened):
    refusal = Reply(status=400, error={"message": "maximum context length is 9"})
    reads = [Reply(calls=[Call("Read", {"file_path": "a.py"}, f"r{n}")]) for n in range(12)]
    with OpenAIServer([*reads, refusal, Reply(text="Done."), Reply(text="Done.")]) as server:
        session = opened(server)
        assert (await session.loop.run()).reason == EndReason.FINISHED
        (event,) = [item.event for item in read_events(session.folder) if isinstance(item.event, ev.Compacted)]
        assert event.refused
        assert len(str(server.requests[13])) < len(str(server.requests[12])) / 2
        assert session.state.refused_tokens == event.tokens_before


async def test_what_is_set_aside_can_be_recalled(opened):
    with OpenAIServer([]) as server:
        session = opened(server)
    blob = session.stream.blob(b"one\ntwo\nthree\n")
    tool = recall_tool(session.folder)
    assert (await tool.run({"reference": blob[:16], "offset": 2, "limit": 1})).text.startswith("2\ttwo\n[1 more")
    assert (await tool.run({"reference": blob[:16], "text": "thr"})).text == "3\tthree"
    assert not (await tool.run({"reference": "../../../etc"})).ok
    assert not (await tool.run({"reference": "0" * 16})).ok


def test_a_prompt_that_cannot_be_proven_is_not_shown():
    begun = ev.ConversationStarted(message={"role": "system", "content": "s"}, tools=[])
    answer = {"role": "assistant", "content": "a"}
    turn = ev.ModelTurn(turn=1, message=answer, prompt_sha256="0", finish_reason="stop", model="m", seconds=0)
    with pytest.raises(UsageError, match="cannot be made again"):
        prompt_of([begun, turn], 1)
    with pytest.raises(UsageError, match="no turn 2"):
        prompt_of([begun], 2)

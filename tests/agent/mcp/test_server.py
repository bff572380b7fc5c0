"""``warpsmith mcp``, driven over stdin and stdout by the SDK's own client, with the real judge on the CPU."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from mcp import Client, MCPError, StdioServerParameters

from agent.session import find_session, summarise
from tests.agent.support import MODULE, UNCOMPILED
from tests.agent.test_end_to_end import CANDIDATE, KERNEL

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("judge")]

COMMAND = [sys.executable, "-P", "-c", "import sys; from warpsmith import main; sys.exit(main())", "mcp"]
FILE = "kernels/shifted.cpp"
TASK = {"target": "shifted.py:Shifted", "init": "256", "inputs": "torch.randn(32, 256)"}
ENDLESS = KERNEL.replace("return 0;", "for (volatile int turn = 0;; ++turn) {}")


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "shifted.py").write_text(MODULE)
    return folder


def options(project):
    return ["--home", str(project.parent / "home"), "--cache", str(project.parent / "cache"), "--device", "cpu"]


def client_of(project):
    kept = {name: os.environ[name] for name in ("WARPSMITH_POOL", "OMP_WAIT_POLICY") if name in os.environ}
    server = StdioServerParameters(
        command=COMMAND[0], args=[*COMMAND[1:], *options(project)], cwd=project, env={**kept, **UNCOMPILED}
    )
    return Client(server)


async def test_what_is_offered_and_how_bad_requests_are_answered(project):
    async with client_of(project) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert {"open_task", "check", "profile", "sweep", "ablate", "sanitize", "hotspots", "skill"} <= set(tools)
        assert "speedup" in tools["check"].output_schema["properties"]
        resources = {str(each.uri) for each in (await client.list_resources()).resources}
        assert {"skill://cuda-kernels/SKILL.md", "skill://cuda-kernels/references/kernel-form.md"} <= resources
        skill = await client.read_resource("skill://cuda-kernels/SKILL.md")
        assert skill.contents[0].text.startswith("---\nname: cuda-kernels")
        with pytest.raises(MCPError, match="There is no resource"):
            await client.read_resource("skill://cuda-kernels/../../pyproject.toml")
        prompt = await client.get_prompt("optimise", {"target": "blocks.py:Norm"})
        assert "blocks.py:Norm" in prompt.messages[0].content.text

        async def refused(name, **arguments):
            answer = await client.call_tool(name, arguments)
            assert answer.is_error
            return answer.content[0].text

        assert "'task' is missing" in await refused("check")
        assert "There is no task '01234567'" in await refused("check", task="01234567")
        assert "outside the folders" in await refused("open_task", target="/etc/passwd")
        assert "There is no such file" in await refused("open_task", target="shift.py")
        assert "needs width" in await refused("open_task", target="shifted.py")
        assert "Known are:" in await refused("open_task", target="shifted.py", python="/bin/sh")
        read = await client.call_tool("skill", {"file": "references/kernel-form.md"})
        assert 'extern "C"' in read.content[0].text


async def test_a_candidate_is_judged_kept_and_left_for_the_developer(project):
    before = (project / "shifted.py").read_bytes()
    stages = []

    async def note(_, __, message):
        stages.append(message)

    async with client_of(project) as client:
        opened = (await client.call_tool("open_task", TASK, progress_callback=note)).structured_content
        assert stages[0].startswith("task: loading")
        wrong = {"shifted.py": CANDIDATE, FILE: KERNEL.replace("return 0;", "return 0")}
        refused = await client.call_tool("check", {"task": opened["task"], "files": wrong})
        assert not refused.is_error
        assert (refused.structured_content["correct"], refused.structured_content["reward"]) == (False, -1)
        assert f"{FILE}:13" in refused.content[0].text
        Path(opened["workspace"], FILE).write_text(KERNEL)  # as an agent does that edits there with tools of its own
        told = (await client.call_tool("check", {"task": opened["task"]}, progress_callback=note)).structured_content
        assert told["correct"], told["text"]
        assert any(stage.startswith("verify:") for stage in stages)
        whole = json.loads((await client.read_resource(told["verdict"])).contents[0].text)
        assert whole["verify"]["ok"]
        assert whole["schema"] == "warpsmith.verdict/1"
    assert (project / "shifted.py").read_bytes() == before
    summary = summarise(find_session(project.parent / "home", opened["task"]))
    assert summary.attempts == 2


async def test_a_call_that_is_cancelled_stops_the_judge_and_two_tasks_are_open_at_once(project):
    running = asyncio.Event()

    async def note(_, __, message):
        if message.startswith("verify:"):
            running.set()

    async with client_of(project) as client:
        first, second = [(await client.call_tool("open_task", TASK)).structured_content["task"] for _ in range(2)]
        endless = {"task": first, "files": {"shifted.py": CANDIDATE, FILE: ENDLESS}}
        call = asyncio.create_task(client.call_tool("check", endless, progress_callback=note))
        await asyncio.wait_for(running.wait(), 60)
        mended = {"shifted.py": CANDIDATE, FILE: KERNEL.replace("return 0;", "return 0")}
        other = await client.call_tool("check", {"task": second, "files": mended})
        assert other.structured_content["attempt"] == 1
        call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await call
        again = await client.call_tool("check", {"task": first, "files": mended})
        assert again.structured_content["attempt"] == 1, "the cancelled one was kept as an attempt"


@pytest.mark.parametrize("how", ["close", "kill"])
def test_nothing_is_left_when_the_client_goes_or_the_server_is_killed(project, how):
    """The client goes, or the server is killed, while a judge opens."""
    server = subprocess.Popen(
        [*COMMAND, *options(project)],
        cwd=project,
        env={**os.environ, **UNCOMPILED},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}}
    say(server, id=1, method="initialize", params=hello)
    assert json.loads(server.stdout.readline())["result"]["serverInfo"]["name"] == "warpsmith"
    say(server, method="notifications/initialized")
    say(server, id=2, method="tools/call", params={"name": "open_task", "arguments": TASK})
    family = await_children(server.pid)
    if how == "kill":
        server.kill()
    server.stdin.close()
    try:
        assert server.wait(20) == (0 if how == "close" else -9)
        _, alive = psutil.wait_procs(family, timeout=20)
        assert not alive
        assert all(json.loads(line)["jsonrpc"] for line in server.stdout)
    finally:
        server.stdout.close()


def say(server, **message):
    server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    server.stdin.flush()


def await_children(pid):
    """Return the processes that a server started, once there are any of the harness."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with contextlib.suppress(psutil.Error):
            family = psutil.Process(pid).children(recursive=True)
            if any("harness" in " ".join(each.cmdline()) for each in family):
                return family
        time.sleep(0.05)
    raise AssertionError("no judge was started")

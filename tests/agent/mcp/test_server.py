"""``warpsmith mcp``, driven over stdin and stdout by the SDK's own client, with the real judge on the CPU."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import time
from pathlib import Path

import psutil
import pytest
from mcp import Client, MCPError

from agent.session import find_session, summarise
from tests.agent.mcp.serving import COMMAND, options, server_of
from tests.agent.support import UNCOMPILED
from tests.agent.test_end_to_end import CANDIDATE, KERNEL

pytestmark = pytest.mark.slow

FILE = "kernels/shifted.cpp"
TASK = {"target": "shifted.py:Shifted", "init": "256", "inputs": "torch.randn(32, 256)"}
KEY = "hf_" + "aB3" * 10
WRONG = KERNEL.replace("return 0;", "return 0") + f'\n#error "{KEY}"\n'
ENDLESS = KERNEL.replace("return 0;", "for (volatile int turn = 0;; ++turn) {}")


async def test_a_client_opens_tasks_has_candidates_judged_and_cancels(project):
    """One server for all of it: starting one, and loading a task, take most of the time."""
    before = (project / "shifted.py").read_bytes()
    async with Client(server_of(project)) as client:
        await look_around(client)
        await ask_for_what_there_is_not(client)
        opened = await asyncio.gather(*(client.call_tool("open_task", TASK) for _ in range(2)))
        first, second = (each.structured_content for each in opened)
        await cancel_what_never_ends(client, first["task"], meanwhile=second["task"])
        await write_check_and_read(client, first)
    assert (project / "shifted.py").read_bytes() == before
    home = project.parent / "home"
    assert [summarise(find_session(home, each["task"])).attempts for each in (first, second)] == [2, 1]


async def look_around(client):
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert {"open_task", "check", "profile", "sweep", "ablate", "sanitize", "hotspots", "skill"} <= set(tools)
    assert "speedup" in tools["check"].output_schema["properties"]
    resources = {str(each.uri) for each in (await client.list_resources()).resources}
    assert {"skill://cuda-kernels/SKILL.md", "skill://cuda-kernels/references/kernel-form.md"} <= resources
    skill = await client.read_resource("skill://cuda-kernels/SKILL.md")
    assert skill.contents[0].text.startswith("---\nname: cuda-kernels")
    prompt = await client.get_prompt("optimise", {"target": "blocks.py:Norm"})
    assert "blocks.py:Norm" in prompt.messages[0].content.text
    read = await client.call_tool("skill", {"file": "references/kernel-form.md"})
    assert 'extern "C"' in read.content[0].text


async def ask_for_what_there_is_not(client):
    async def refused(name, **arguments):
        answer = await client.call_tool(name, arguments)
        assert answer.is_error
        return answer.content[0].text

    with pytest.raises(MCPError, match="There is no resource"):
        await client.read_resource("skill://cuda-kernels/../../pyproject.toml")
    assert "'task' is missing" in await refused("check")
    assert "There is no task '01234567'" in await refused("check", task="01234567")
    assert "outside the folders" in await refused("open_task", target="/etc/passwd")
    assert "There is no such file" in await refused("open_task", target="shift.py")
    assert "Known are:" in await refused("open_task", target="shifted.py", python="/bin/sh")


async def cancel_what_never_ends(client, task, *, meanwhile):
    running = asyncio.Event()

    async def note(_, __, message):
        if message.startswith("verify:"):
            running.set()

    endless = {"task": task, "files": {"shifted.py": CANDIDATE, FILE: ENDLESS}}
    call = asyncio.create_task(client.call_tool("check", endless, progress_callback=note))
    await asyncio.wait_for(running.wait(), 120)
    other = await client.call_tool("check", {"task": meanwhile, "files": {"shifted.py": CANDIDATE, FILE: WRONG}})
    assert not other.is_error
    assert (other.structured_content["correct"], other.structured_content["reward"]) == (False, -1)
    assert f"{FILE}:13" in other.content[0].text
    assert "[redacted: token]" in other.content[0].text
    whole = await client.read_resource(other.structured_content["verdict"])
    assert "[redacted: token]" in whole.contents[0].text
    assert KEY not in f"{other} {whole}"
    call.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await call
    again = await client.call_tool("check", {"task": task, "files": {FILE: WRONG}})
    assert again.structured_content["attempt"] == 1, "what was cancelled is no attempt"


async def write_check_and_read(client, opened):
    Path(opened["workspace"], FILE).write_text(KERNEL)  # as an agent does that edits there with tools of its own
    told = (await client.call_tool("check", {"task": opened["task"]})).structured_content
    assert told["correct"], told["text"]
    whole = json.loads((await client.read_resource(told["verdict"])).contents[0].text)
    assert (whole["schema"], whole["verify"]["ok"]) == ("warpsmith.verdict/1", True)


def test_nothing_is_left_when_the_client_goes_while_a_judge_opens(project):
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
    server.stdin.close()
    try:
        assert server.wait(60) == 0
        _, alive = psutil.wait_procs(family, timeout=60)
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

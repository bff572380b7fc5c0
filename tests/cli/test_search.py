"""Several agents by the command line against a real server: killed, interrupted and gone on with; no judge is waited for."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from agent import events as ev
from agent.search.record import Record, find_record
from agent.store import read_events
from tests.cli.conftest import Cli
from tests.servers.openai_server import Call, OpenAIServer, Reply

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
WORK = "sleep 300"
Kind = TypeVar("Kind", bound=ev.Event)


class Agents:
    """Answers for every agent: work that takes minutes, until they are told to end."""

    def __init__(self) -> None:
        self.working = True
        self.failing = False

    def __call__(self, request: dict[str, Any]) -> Reply:  # noqa: ARG002 - the signature of scripts
        if self.failing:
            return Reply(status=401, error={"error": {"message": "no such key"}})
        if self.working:
            return Reply(text="At work.", calls=[Call("Bash", {"command": WORK})])
        return Reply(text="Done.")


@pytest.fixture
def agents() -> Agents:
    return Agents()


@pytest.fixture
def server(agents: Agents) -> Iterator[OpenAIServer]:
    with OpenAIServer([agents] * 100) as serving:
        yield serving


def begin(cli: Cli, task: Path, server: OpenAIServer, *options: str) -> list[str | Path]:
    cli.variables["OPENAI_API_KEY"] = "x"
    return [
        *("run", task, "--device", "cpu", "--model", "openai/test", "--api-base", server.base_url),
        *("--agents", "2", *options),
    ]


def wait_for_work(cli: Cli, process: Any) -> None:
    """Wait until both agents are at work."""
    working = 0
    for line in process.stderr:
        working += f"Bash {WORK}" in line
        if working == 2:
            return
    pytest.fail("the agents did not begin to work")


def events_of(record: Record, kind: type[Kind]) -> list[list[Kind]]:
    """Return the events of a kind, of each session."""
    stored = [[each.event for each in read_events(member.session)] for member in record.members]
    return [[event for event in events if isinstance(event, kind)] for events in stored]


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.long)])
def test_a_search_that_was_stopped_goes_on_in_the_sessions_it_had(
    cli: Cli, task: Path, agents: Agents, server: OpenAIServer, number: signal.Signals
) -> None:
    process = cli.start(*begin(cli, task, server, "--turns", "6"))
    wait_for_work(cli, process)
    process.send_signal(number)
    if number == signal.SIGINT:
        done = cli.finish(process)
        assert done.code == 130
        done.says("no correct candidate", "interrupted")
        assert "--resume-search" in done.err.splitlines()[-1]
    else:
        process.wait()
    agents.working = False
    done = cli.run("run", "--resume-search", "last", "--turns", "10")
    assert done.code == 1
    done.says("no correct candidate")
    record = find_record(cli.folder / "home", "last")
    assert [(member.round, member.agent) for member in record.members] == [(1, 1), (1, 2)]
    ends = [[event.reason for event in ended] for ended in events_of(record, ev.RunEnded)]
    assert ends == [["interrupted", "finished"]] * 2
    assert set(record.ended.values()) == {"finished"}
    assert [[event.turn_limit for event in begun] for begun in events_of(record, ev.RunStarted)] == [[3, 4]] * 2
    assert record.settings.turn_limit == 10
    assert not cli.left_behind()


def test_a_search_that_goes_on_takes_limits_and_nothing_else(cli: Cli) -> None:
    done = cli.run("run", "--resume-search", "last", "--agents", "3", "--model", "openai/test")
    assert done.code == 2
    done.says("--agents, --model cannot be given again", "--turns")


@pytest.mark.long
def test_what_was_at_fault_is_tried_again_when_the_search_is_resumed(
    cli: Cli, task: Path, agents: Agents, server: OpenAIServer
) -> None:
    agents.failing = True
    assert cli.run(*begin(cli, task, server)).code == 3
    agents.failing = agents.working = False
    done = cli.run("run", "--resume-search", "last", "--json")
    assert done.code == 1
    ended = json.loads(done.out.splitlines()[-1])
    assert ended["type"] == "search_ended"
    assert ended["best"] is None
    assert [(each["agent"], each["ended"]) for each in ended["sessions"]] == [(1, "finished"), (2, "finished")]

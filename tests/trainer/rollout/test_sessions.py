"""Sessions side by side through real engines: what none of them could do is told, and what was cut off goes on."""

from __future__ import annotations

import pytest

from agent.session import create_session, summarise
from sandbox.errors import EnvironmentFault, TaskError
from tests.agent.support import MODULE, make_settings, make_spec
from tests.servers.openai_server import OpenAIServer, Reply
from trainer.rollout.sessions import run_sessions

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def sessions(folder, server, count, source=MODULE, **changes):
    settings = make_settings(folder, model="openai/test", api_base=server.base_url, **changes)
    return [create_session(make_spec(folder, source), settings, settings.home) for _ in range(count)]


def test_they_run_side_by_side_and_those_that_are_over_are_left(tmp_path):
    told = []
    with OpenAIServer([Reply(text="Nothing to do.")] * 8) as server:
        folders = sessions(tmp_path, server, 2, turn_limit=1)
        run_sessions(folders, 2, told.append)
        asked = len(server.requests)
        run_sessions(folders, 2, told.append)
        assert len(server.requests) == asked == 2
    assert [summarise(folder).outcome for folder in folders] == ["turn_limit"] * 2
    assert sorted(told) == sorted(f"session {summarise(each).id}: turn_limit, reward -" for each in folders)


def test_a_server_that_refuses_everyone_is_told_and_asked_again_the_next_time(tmp_path):
    refusal = Reply(status=401, error={"error": {"message": "no such key"}})
    with OpenAIServer([refusal, Reply(text="Nothing to do.")]) as server:
        folders = sessions(tmp_path, server, 1, turn_limit=1)
        with pytest.raises(
            EnvironmentFault, match=r"Not one of 1 sessions could be done \(1 × model_error\).*no such key"
        ):
            run_sessions(folders, 1, lambda _: None)
        run_sessions(folders, 1, lambda _: None)
    assert summarise(folders[0]).outcome == "turn_limit"


def test_a_task_that_cannot_be_used_is_told(tmp_path):
    with OpenAIServer([Reply(text="Let me see.", pause=2.0)] * 8) as server:
        folders = sessions(tmp_path, server, 1, MODULE.replace("y = x * self.scale", "raise RuntimeError('no')"))
        with pytest.raises(TaskError, match="task_unusable"):
            run_sessions(folders, 1, lambda _: None)

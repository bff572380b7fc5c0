"""Sessions side by side through real engines."""

from __future__ import annotations

import pytest

from agent.session import change_settings, create_session, summarise
from sandbox.errors import EnvironmentFault
from tests.agent.support import make_settings, make_spec
from tests.servers.openai_server import OpenAIServer, Reply
from trainer.rollout.sessions import run_sessions

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def sessions(folder, server, count, **changes):
    settings = make_settings(folder, model="openai/test", api_base=server.base_url, **changes)
    return [create_session(make_spec(folder), settings, settings.home) for _ in range(count)]


@pytest.mark.long
def test_they_run_side_by_side_and_those_that_are_over_are_left(tmp_path):
    told = []
    with OpenAIServer([Reply(text="Nothing to do.")] * 8) as server:
        folders = sessions(tmp_path, server, 2, turn_limit=1)
        run_sessions(folders, 2, told.append)
        asked = len(server.requests)
        run_sessions(folders, 2, told.append)
        assert len(server.requests) == asked == 2
    assert [summarise(folder).outcome for folder in folders] == ["turn_limit"] * 2
    assert sorted(told) == sorted(f"session {summarise(each).id}: turn_limit, reward unknown" for each in folders)


def test_a_server_that_is_gone_is_told_and_the_sessions_go_on_once_it_is_back(tmp_path):
    with OpenAIServer([]) as server:
        (folder,) = sessions(tmp_path, server, 1, turn_limit=1)
    with pytest.raises(EnvironmentFault, match=r"Not one of 1 sessions could be done \(1 × model_error\)") as raised:
        run_sessions([folder], 1, print)
    assert "goes on with these sessions" in raised.value.next_step
    with OpenAIServer([Reply(text="Nothing to do.")]) as server:
        change_settings(folder, {"api_base": server.base_url})
        run_sessions([folder], 1, print)
    assert summarise(folder).outcome == "turn_limit"

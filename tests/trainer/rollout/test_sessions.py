"""Sessions side by side through real engines."""

from __future__ import annotations

import pytest

from agent.session import create_session, summarise
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

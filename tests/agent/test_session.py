"""Sessions: made, found, listed cheaply, pruned with care."""

from __future__ import annotations

import json
import os
import time

import pytest

from agent import events as ev
from agent.session import change_settings, create_session, find_session, is_open, list_sessions, open_session, prune
from agent.store import SessionWriter
from sandbox.errors import EnvironmentFault, UsageError
from tests.agent.support import make_settings, make_spec, make_verdict


def write(folder, *events):
    writer = SessionWriter(folder)
    for event in events:
        writer.append(event)
    writer.close()


def attempt(number, **verdict):
    return ev.Attempt(attempt=number, files={"a.py": str(number)}, verdict=make_verdict(**verdict).to_json())


def turn(number, cost):
    message = {"role": "assistant", "content": "words"}
    return ev.ModelTurn(
        turn=number, message=message, prompt_sha256="", finish_reason="stop", model="m", seconds=1, cost_usd=cost
    )


def test_a_session_comes_back_as_it_was_made(tmp_path):
    spec, settings = make_spec(tmp_path), make_settings(tmp_path, model="replay:demo", turn_limit=7)
    folder = create_session(spec, settings, settings.home)
    session = open_session(folder)
    assert (session.task, session.settings, session.device) == (spec, settings, "cpu")
    assert session.title == "shifted:Shifted"
    assert folder.name.endswith(f"-{session.id}-shifted-shifted")
    assert set(session.versions) == {"python", "warpsmith", "litellm"}


def test_newer_session_files_are_read_as_far_as_they_are_known(tmp_path):
    settings = make_settings(tmp_path)
    folder = create_session(make_spec(tmp_path), settings, settings.home)
    data = json.loads((folder / "session.json").read_text())
    data |= {"format": "warpsmith.session/9", "moon": "full"}
    data["settings"]["colour"] = "red"
    (folder / "session.json").write_text(json.dumps(data))
    assert open_session(folder).format == "warpsmith.session/9"


def test_sessions_are_found_by_last_by_beginning_of_the_id_and_by_path(tmp_path):
    settings = make_settings(tmp_path)
    spec, home = make_spec(tmp_path), settings.home
    folders = [create_session(spec, settings, home) for _ in range(2)]
    assert find_session(home, "last") == folders[-1]
    assert find_session(home, open_session(folders[0]).id[:8]) == folders[0]
    assert find_session(home, str(folders[1])) == folders[1]
    with pytest.raises(UsageError, match="no session 'zzz'"):
        find_session(home, "zzz")
    with pytest.raises(UsageError, match="fits 2 sessions"):
        find_session(home, "2")


def test_the_list_tells_model_attempts_best_outcome_and_cost(tmp_path):
    settings = make_settings(tmp_path, model="some/model")
    folder = create_session(make_spec(tmp_path), settings, settings.home)
    started = ev.RunStarted(turn_limit=5)
    write(
        folder,
        started,
        turn(1, 0.25),
        attempt(1, ok=False),
        attempt(2, ratio=1.5, reward=2),
        turn(2, 0.5),
        attempt(3, ratio=9.9, reward=1),
        ev.RunEnded(reason=ev.EndReason.FINISHED),
        ev.Landed(landing=1, attempt=2, files=[], partial=False, verdict={}),
        ev.Landed(landing=2, attempt=2, files=[], partial=False, verdict={}),
        ev.Undone(landing=1, files=[]),
    )
    (summary,) = list_sessions(settings.home)
    assert (summary.model, summary.attempts, summary.best_speedup, summary.best_reward) == ("some/model", 3, 1.5, 2)
    assert (summary.outcome, summary.cost_usd, summary.landed) == ("finished", 0.75, 1)
    write(folder, started)
    assert list_sessions(settings.home)[0].outcome == "stopped"


def test_the_best_is_one_attempt_and_its_full_verdict_counts_before_a_quick_one(tmp_path):
    settings = make_settings(tmp_path)
    folder = create_session(make_spec(tmp_path), settings, settings.home)
    quick = ev.Attempt(attempt=1, files={}, verdict=make_verdict(ratio=5.0).to_json())
    full = ev.Attempt(attempt=2, files={}, verdict=make_verdict(ratio=1.5, reward=2, tier="full").to_json())
    write(folder, quick, full)
    summary = list_sessions(settings.home)[0]
    assert (summary.best_speedup, summary.best_reward) == (1.5, 2)
    failed = create_session(make_spec(tmp_path), settings, settings.home)
    write(failed, attempt(1, ok=False))
    assert {(s.best_speedup, s.best_reward) for s in list_sessions(settings.home)} == {(1.5, 2), (None, -1)}


def test_a_new_session_is_new_and_a_broken_folder_is_passed_over(tmp_path):
    settings = make_settings(tmp_path)
    create_session(make_spec(tmp_path), settings, settings.home)
    broken = settings.home / "sessions" / "20260101-000000-aaaaaaaa-broken"
    broken.mkdir()
    (broken / "session.json").write_text("{")
    (summary,) = list_sessions(settings.home)
    assert (summary.outcome, summary.attempts, summary.best_speedup, summary.cost_usd) == ("new", 0, None, None)


def test_pruning_leaves_young_open_and_landed_sessions(tmp_path):
    settings = make_settings(tmp_path)
    spec, home = make_spec(tmp_path), settings.home
    young, old, landed, held = (create_session(spec, settings, home) for _ in range(4))
    write(young, ev.Steered(text="x"))
    write(landed, ev.Landed(landing=1, attempt=1, files=[], partial=False, verdict={}))
    for folder in (old, held):
        write(folder, ev.Steered(text="x"))
    long_ago = time.time() - 90 * 86_400
    for folder in (old, landed, held):
        os.utime(folder / "events.jsonl", (long_ago, long_ago))
    writer = SessionWriter(held)
    assert is_open(held)
    assert [summary.folder for summary in prune(home, older_than_days=30)] == [old]
    writer.close()
    assert not is_open(held)
    assert not old.exists()
    assert {summary.folder for summary in list_sessions(home)} == {young, landed, held}


def test_a_home_that_cannot_be_written_is_a_fault_of_the_environment(tmp_path):
    settings = make_settings(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentFault, match="--home"):
        create_session(make_spec(tmp_path), settings, tmp_path / "file")


def test_a_session_that_is_resumed_may_ask_another_model_and_get_other_limits(tmp_path):
    folder = create_session(
        make_spec(tmp_path), make_settings(tmp_path, model="one/model", api_base="http://one"), tmp_path
    )
    change_settings(folder, {"model": "another/model", "api_base": "", "turn_limit": 3})
    settings = open_session(folder).settings
    assert (settings.model, settings.api_base, settings.turn_limit) == ("another/model", "", 3)
    with pytest.raises(UsageError, match="'turn_limit' must be at least 1"):
        change_settings(folder, {"turn_limit": 0})
    assert open_session(folder).settings.turn_limit == 3


def test_last_is_the_one_last_used(tmp_path):
    earlier, later = (create_session(make_spec(tmp_path), make_settings(tmp_path), tmp_path) for _ in range(2))
    assert find_session(tmp_path, "last") in (earlier, later)
    os.utime(later / "session.json", (1, 1))
    assert find_session(tmp_path, "last") == earlier

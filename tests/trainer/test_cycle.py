"""The cycle by its command line: real servers, engines and updates, killed and gone on with."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest

from agent.session import session_folders
from agent.state import settled
from agent.store import EVENTS, read_events
from sandbox.errors import ExitCode
from tests.conftest import skip_if_disturbed
from tests.trainer.rollout import toy
from trainer.__main__ import main
from trainer.cycle import State, begin_state, read_state, write_state
from trainer.policy.tiny import write_tiny_policy

SMALL = ["--sessions", "1", "--turns", "2", "--answer-tokens", "8", "--context", "32768", "--device", "cpu"]
MOST = 5
"""Sessions of six that are never right where every third is, but by a chance of one in fifty."""
SERVE = f"{sys.executable} -m trainer serve {{policy}} --name {{name}} --port {{port}} --device cpu"
PLAIN = f"{sys.executable} -m tests.trainer.rollout.plain_server {{policy}} --name {{name}} --port {{port}}"


@pytest.fixture
def home(tmp_path, monkeypatch):
    for name, value in toy.environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    return tmp_path


@pytest.fixture
def at_home(home):
    (home / "task.py").write_text(toy.reference("cpu"))
    write_tiny_policy(home / "policy", vocabulary=4096)
    return home


def command(folder, *more):
    return ["cycle", f"{folder}/task.py", "--model", f"{folder}/policy", "--out", f"{folder}/run", *SMALL, *more]


def turns(folder):
    return [s.event for s in read_events(folder) if s.event.type == "model_turn"]


def steps(folder):
    return [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_within_a_session_it_goes_on_there_and_every_trajectory_names_its_weights(at_home):
    words = [sys.executable, "-m", "trainer", *command(at_home, "--steps", "2")]
    process = subprocess.Popen(words, start_new_session=True)
    rollouts = at_home / "run" / "rollouts"
    while not any(b'"model_turn"' in (each / EVENTS).read_bytes() for each in begun(rollouts)):
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert steps_done(at_home) == []
    first = session_folders(rollouts)
    assert main(command(at_home, "--steps", "2")) == ExitCode.OK
    after = session_folders(rollouts)
    assert len(first) == 1
    assert len(after) == 2
    assert first[0] in after
    versions = {each: {turn.identity["version"] for turn in turns(each)} for each in after}
    assert versions.pop(first[0]) == {0}
    assert list(versions.values()) == [{1}]
    names = {turn.identity["weights"] for each in after for turn in turns(each)}
    assert {name.partition("@")[2] for name in names} == {f"{read_state(at_home / 'run').id}.{n}" for n in (0, 1)}
    assert [line["step"] for line in steps(at_home)] == [1, 2]
    assert all(line["mismatch_k3"] < 1e-4 for line in steps(at_home))


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_sessions_are_right_more_often_after_a_few_updates(home):
    """Right earns 1 and wrong -1; nothing is timed, so that a busy machine takes longer and comes to the same."""
    for measured in sessions_that_learn(home, "correctness", at_once=2):
        assert {verdict.reward for verdict in measured} <= {1, -1}
        assert all(verdict.profile is None for verdict in measured)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_sessions_earn_more_after_a_few_updates(home):
    """On a machine that stays busy what is right has no reward, and nobody can learn from it: then the rest is skipped."""
    for measured in sessions_that_learn(home, "quick", at_once=1):
        assert all(verdict.profile.placements >= 3 for verdict in measured if verdict.correct)


def sessions_that_learn(home, tier, at_once):
    """Go round until nearly all sessions are right, and yield the verdicts that each step had measured.

    A third of the first sessions is right. Where all of those few are wrong, a step more is needed. What several sessions of a
    step write alike is judged once, so that a step takes one quick verdict of each kernel.
    """
    toy.prepare(home, "cpu", tier, toy.BY_CORRECTNESS)
    right, earned = 0, [0.0]
    for count in (1, 2, 3, 4):
        code = toy.go_round(home, "cpu", tier, steps=count, sessions=6, at_once=at_once)
        skip_if_disturbed(toy.disturbed(home))
        assert code == ExitCode.OK
        attempts, earned = toy.attempts(home, 6), toy.rewards(home)
        yield measured_once(attempts)
        right = sum(each.verdict.correct for each in attempts)
        if right >= MOST and earned[-1] > earned[0]:
            break
    assert right >= MOST
    assert earned[-1] > earned[0]


def measured_once(attempts):
    """Return the verdicts that were measured, each of another source, after seeing that others were taken from them."""
    assert {each.verdict.tier for each in attempts} == {"quick"}
    measured = [each.verdict for each in attempts if each.taken_from is None and settled(each.verdict)]
    assert len({verdict.source_sha256 for verdict in measured}) == len(measured) < len(attempts)
    return measured


def begun(rollouts):
    return [each for each in session_folders(rollouts) if (each / EVENTS).is_file()]


def steps_done(folder):
    path = folder / "run" / "metrics.jsonl"
    return path.read_text().splitlines() if path.is_file() else []


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_another_server_writes_with_the_weights_of_the_moment(at_home):
    assert main(command(at_home, "--steps", "2", "--server-command", SERVE)) == ExitCode.OK
    versions = [
        {turn.identity["version"] for turn in turns(each)} for each in session_folders(at_home / "run" / "rollouts")
    ]
    assert sorted(versions, key=max) == [{0}, {1}]
    assert len(steps(at_home)) == 2


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_server_that_tells_nothing_of_its_weights_writes_with_those_of_the_moment(at_home):
    """It streams as vLLM does; written with the weights of a step before, an episode would differ from this engine's pass."""
    far = ["actor_lr=1e-2", "warm_up=1", "epochs=4", "baseline_fallback=false", "whiten=false"]
    unguarded = [f"{name}=none" for name in ("k3_limit", "entropy_jump", "length_jump")]
    settings = [part for setting in (*far, *unguarded) for part in ("--set", setting)]
    assert main(command(at_home, "--steps", "2", "--server-command", PLAIN, *settings)) == ExitCode.OK
    first, second = steps(at_home)
    assert first["k3"] > 0.01
    assert max(first["mismatch_k3"], second["mismatch_k3"]) < 1e-4
    told = [turn.identity for each in session_folders(at_home / "run" / "rollouts") for turn in turns(each)]
    assert told
    assert not any({"weights", "version"} & identity.keys() for identity in told)


@pytest.mark.parametrize(
    ("server", "code", "said"),
    [
        ("false", ExitCode.ENVIRONMENT, "The policy's server ended with 1."),
        ("no-such-server", ExitCode.ENVIRONMENT, "The server cannot be started"),
        ("serve {model}", ExitCode.USAGE, "The server's command cannot be read: 'model'"),
    ],
)
def test_a_server_that_does_not_start_is_told(at_home, capsys, server, code, said):
    assert main(command(at_home, "--server-command", server)) == code
    assert said in capsys.readouterr().err


def test_a_folder_without_tasks_is_told(at_home, capsys):
    (at_home / "task.py").unlink()
    (at_home / "task.py").mkdir()
    assert main(command(at_home)) == ExitCode.USAGE
    assert "There is no task in this folder" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--sessions", "--at-once", "--turns", "--batch"])
def test_a_cycle_of_nothing_is_refused(at_home, capsys, option):
    with pytest.raises(SystemExit):
        main(command(at_home, option, "0"))
    assert f"argument {option}: it has to be" in capsys.readouterr().err


def test_a_run_that_went_back_gets_another_id_and_no_other(tmp_path):
    begin_state(tmp_path, 1)
    begun = read_state(tmp_path)
    write_state(tmp_path, State(begun.id, 3, 0, ["a"]))
    for step in (3, 4):
        begin_state(tmp_path, step)
        assert read_state(tmp_path).id == begun.id
    begin_state(tmp_path, 2)
    assert read_state(tmp_path).id != begun.id

"""``warpsmith train ingest`` as a user runs it: a process, its exit code, what it prints and what it writes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from agent import events as ev
from agent.replay import RECORDINGS
from agent.store import SessionWriter
from tests.agent.exports.samples import cut_and_retold
from tests.cli.conftest import Cli, make_cli
from tests.test_contracts import loaded_by
from trainer.data.dataset import read_set
from trainer.data.episode import Stage
from trainer.data.segments import Target

BUNDLED = sorted(path.name for path in RECORDINGS.iterdir())


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return make_cli(tmp_path)


def decided(folder: Path) -> list[Path]:
    """Copy the bundled recordings, let the developer land the first and refuse the second, and return all of them."""
    copies = [shutil.copytree(RECORDINGS / name, folder / name) for name in BUNDLED]
    for copy, event in zip(
        copies,
        (
            ev.Landed(
                landing=1,
                attempt=3,
                files=[{"path": "m.py", "before": None, "after": "0" * 64}],
                partial=False,
                verdict={},
            ),
            ev.HunkRejected(attempt=5, file="blocks.py", hunk="1", reason="It is hard to read."),
        ),
        strict=False,
    ):
        writer = SessionWriter(copy)
        writer.append(event)
        writer.close()
    return copies


def test_the_bundled_recordings_with_their_decisions_become_a_set(
    cli: Cli, tokenizer_folder: Path, target: Target
) -> None:
    done = cli.run("train", "ingest", *decided(cli.folder), "--out", "set", "--tokenizer", tokenizer_folder, "--json")
    assert done.code == 0
    done.says(
        "5 episodes",
        "rft       5 of 5",
        "value     5 of 5",
        "ppo       0 of 5",
        "5 × An answer came without token ids.",
    )
    made = read_set(cli.folder / "set")
    assert [episode.reward for episode in made] == [3.0, 2.5, 3.0, 3.0, 3.0]
    assert [episode.components["decision"] for episode in made] == [0.5, -0.5, 0.0, 0.0, 0.0]
    assert all(episode.policy.tokenizer_sha256 == made.head["tokenizer_sha256"] for episode in made)
    made.require_tokenizer(target.tokenizer_sha256, "policy")
    assert json.loads(done.out)["stages"] == {"rft": 5, "value": 5, "ppo": 0} == made.head["stages"]
    assert [entry["session"] for entry in json.loads(done.out)["episodes"]] == BUNDLED
    actions = [segment.ids[segment.action] for episode in made.eligible(Stage.RFT) for segment in episode.segments]
    assert all(target.tokenizer.decode(ids).endswith("<|im_end|>") for ids in actions)
    assert not cli.left_behind()


def test_decisions_and_benchmarks_can_be_left_out(cli: Cli, tokenizer_folder: Path) -> None:
    copies = decided(cli.folder)
    (cli.folder / "blocks.txt").write_text("439995e93527e10a514d9db4d336fe1982c14594b4b5a3f905e8e451f3aefd14\n")
    options = ("--no-decisions", "--exclude", "blocks.txt", "--tokenizer", tokenizer_folder)
    done = cli.run("train", "ingest", *copies, "--out", "set", *options)
    done.says("3 episodes", "2 sessions left out:", "2 × Its task is one that --exclude names.")
    made = read_set(cli.folder / "set")
    assert {episode.reward for episode in made} == {3.0}
    assert made.head["decisions"] is False
    assert made.head["excluded"]["named"] == ["blocks.txt"]
    assert len(made.head["left_out"]) == 2


def test_every_session_there_is(cli: Cli) -> None:
    cut_and_retold().write(cli.folder / "one")
    (cli.folder / "one" / "home" / "sessions" / "20260101-000000-ffffffff-strange").mkdir()
    (cli.folder / "one" / "home" / "sessions" / "20260101-000000-ffffffff-strange" / "session.json").write_text("{")
    done = cli.run("train", "ingest", "--all", "--home", "one/home", "--out", "set")
    assert done.code == 0
    done.says("1 episode, ", "1 session left out:", "not a session that can be read", "Written to set.")
    assert len(read_set(cli.folder / "set")[0].segments) == 3


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ("train --help", 0, ["make a training set of stored sessions"]),
        ("train ingest --help", 0, ["--tokenizer FOLDER", "nothing was written"]),
        ("train ingset", 2, ["invalid choice: 'ingset'"]),
        ("train ingest --out set", 2, ["No session is named", "--all"]),
        ("train ingest nope --out set", 2, ["no session 'nope'"]),
        ("train ingest demo-cpu --out set", 1, ["without token ids", "With --tokenizer", "nothing was written"]),
        ("train ingest demo-cpu --out set --tokenizer home", 2, ["no tokenizer.json", "home"]),
        ("train ingest demo-cpu --out tmp --tokenizer {tokenizer}", 2, ["something here already", "--out"]),
        (
            "train ingest demo-cpu --out /proc/self/set --tokenizer {tokenizer}",
            3,
            ["cannot be written", "another place"],
        ),
        ("train ingest demo-cpu --out set --exclude gone", 2, ["cannot be read", "gone"]),
    ],
)
def test_a_request_that_is_wrong_is_told_and_nothing_is_written(
    cli: Cli, tokenizer_folder: Path, arguments: str, code: int, words: list[str]
) -> None:
    (cli.folder / "home").mkdir(exist_ok=True)
    done = cli.run(*arguments.format(tokenizer=tokenizer_folder).split())
    done.says(*words)
    assert done.code == code
    assert not (cli.folder / "set").exists()
    assert not list(cli.folder.glob(".*.part"))


def test_reading_sessions_waits_for_no_torch() -> None:
    assert not loaded_by("import trainer.data.ingest") & {"torch", "transformers", "textual", "litellm"}

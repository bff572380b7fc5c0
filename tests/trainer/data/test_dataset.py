"""A training set is written whole and read as it was written; what is torn or somebody else's is refused."""

from __future__ import annotations

import json
import resource
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sandbox.errors import EnvironmentFault, InternalError, UsageError
from trainer.data import dataset
from trainer.data.dataset import INDEX, SetWriter, read_set, write_set
from trainer.data.episode import Episode, Policy, Segment, Stage


def segment(random: np.random.Generator, length: int) -> Segment:
    action = random.random(length) < 0.5
    action[0] = False
    logprobs = np.where(action, -random.random(length), np.nan).astype(np.float32)
    turn = np.where(action, random.integers(1, 9, length), 0).astype(np.int32)
    return Segment(random.integers(0, 200_000, length).astype(np.int32), action, logprobs, turn)


def episodes(count: int = 5) -> list[Episode]:
    random = np.random.default_rng(3)
    return [
        Episode(
            id=f"s{number}",
            task="blocks:Norm",
            source_sha256="0" * 64,
            segments=tuple(segment(random, int(random.integers(2, 40))) for _ in range(1 + number % 3)),
            reward=None if number == 1 else float(number % 4),
            components={"judged": 3, "decision": 0.0},
            truncated=number == 2,
            policy=Policy("tiny", f"step-{number}", number, "a" * 64, "b" * 64, 0.7),
            refused={Stage.PPO: "It is old."} if number == 3 else {},
            facts={"turns": 3},
        )
        for number in range(count)
    ]


def same(one: Episode, other: Episode) -> bool:
    arrays = zip(one.segments, other.segments, strict=True)
    for a, b in arrays:
        for name in ("ids", "action", "logprobs", "turn"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name), strict=True)
    return replace(one, segments=()) == replace(other, segments=())


@pytest.fixture
def written(tmp_path: Path) -> Path:
    write_set(tmp_path / "set", episodes(), {"tokenizer_sha256": "a" * 64})
    return tmp_path / "set"


@pytest.mark.parametrize(("tokens", "shards"), [(1, 5), (30, 4), (dataset.SHARD_TOKENS, 1)])
def test_a_set_is_read_as_it_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tokens: int, shards: int
) -> None:
    monkeypatch.setattr(dataset, "SHARD_TOKENS", tokens)
    write_set(tmp_path / "deep" / "set", iter(episodes()), {"told": [1, None, "x"]})
    found = read_set(tmp_path / "deep" / "set")
    assert found.head == {"told": [1, None, "x"]}
    assert len(found) == 5
    assert all(same(one, other) for one, other in zip(episodes(), found, strict=True))
    assert same(found[-1], episodes()[-1])
    assert [episode.id for episode in found[1:3]] == ["s1", "s2"]
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["set"]
    assert len(list((tmp_path / "deep" / "set").glob("*.safetensors"))) == shards


def test_a_stage_gets_what_may_enter_it(written: Path) -> None:
    found = read_set(written)
    assert [episode.id for episode in found.eligible(Stage.PPO)] == ["s0", "s1", "s2", "s4"]
    assert same(found.eligible(Stage.PPO)[3], episodes()[4])
    assert len(found.eligible(Stage.RFT)[1:3]) == 2


def test_a_stage_that_nothing_may_enter_says_why(tmp_path: Path) -> None:
    refused = [replace(each, refused={Stage.RFT: "It failed."}) for each in episodes(2)]
    write_set(tmp_path / "set", refused, {})
    with pytest.raises(UsageError, match=r"No episode of this set may enter rft: 2 × It failed\."):
        read_set(tmp_path / "set").eligible(Stage.RFT)


def test_a_policy_with_another_tokenizer_is_refused(written: Path) -> None:
    found = read_set(written)
    found.require_tokenizer("a" * 64, "policy")
    with pytest.raises(
        UsageError, match="does not match: the set's is aaaaaaaaaaaa, the policy's cccccccccccc"
    ) as told:
        found.require_tokenizer("c" * 64, "policy")
    assert "--tokenizer policy" in told.value.next_step


def test_what_is_there_is_left_alone(written: Path) -> None:
    before = (written / INDEX).read_bytes()
    with pytest.raises(UsageError, match="something here already"):
        write_set(written, episodes(1), {})
    assert (written / INDEX).read_bytes() == before


def changed(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], object]:
    """Return what changes a set's index."""

    def apply(folder: Path) -> None:
        index = json.loads((folder / INDEX).read_text())
        change(index)
        (folder / INDEX).write_text(json.dumps(index))

    return apply


def cut(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:-7])


def flip(folder: Path) -> None:
    data = bytearray((folder / "shard-00000.safetensors").read_bytes())
    data[-5] ^= 1
    (folder / "shard-00000.safetensors").write_bytes(data)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda folder: (folder / INDEX).unlink(), "no training set that can be read: No such file"),
        (cut(INDEX), "no training set that can be read"),
        (lambda folder: (folder / INDEX).write_text("[]"), "The format of this training set is None"),
        (changed(lambda index: index.update(format="warpsmith.training-set/2")), "is warpsmith.training-set/2; this"),
        (cut("shard-00000.safetensors"), "is torn, or was changed"),
        (flip, "is torn, or was changed"),
        (lambda folder: (folder / "shard-00000.safetensors").unlink(), "cannot be read: No such file"),
        (changed(lambda index: index["episodes"][0].update(reward=float("nan"))), "holds NaN, which is no number"),
        (changed(lambda index: index["episodes"][0].update(reward="1e999")), "damaged.*its reward is inf"),
        (changed(lambda index: index["episodes"][0].pop("segments")), "damaged: KeyError 'segments'"),
        (changed(lambda index: index["episodes"][0].update(segments=[])), "s0 has no tokens"),
        (changed(lambda index: index["episodes"][4]["segments"][0].update(start=10**6)), "lies outside of its shard"),
        (changed(lambda index: index["episodes"][0].update(refused={"sft": "no"})), "damaged: ValueError"),
    ],
)
def test_a_set_that_is_torn_or_foreign_is_refused_with_what_to_do(
    written: Path, damage: Callable[[Path], object], said: str
) -> None:
    damage(written)
    with pytest.raises(UsageError, match=said) as told:
        read_set(written)
    assert "warpsmith train ingest" in told.value.next_step


@pytest.mark.parametrize(
    ("spoilt", "said"),
    [
        ({"reward": float("nan")}, "its reward is nan"),
        ({"segments": ()}, "it has no segments"),
        ({"segments": (replace(episodes()[0].segments[0], turn=np.zeros(1, np.int32)),)}, "different lengths"),
        (
            {
                "segments": (
                    Segment(np.ones(1, np.int32), np.ones(1, bool), np.ones(1, np.float32), np.ones(1, np.int32)),
                )
            },
            "first token of a segment is an action",
        ),
    ],
)
def test_what_is_no_episode_is_not_written(tmp_path: Path, spoilt: dict[str, Any], said: str) -> None:
    with pytest.raises(InternalError, match=said):
        write_set(tmp_path / "set", [episodes()[0], replace(episodes()[0], **spoilt)], {})
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_the_machines_fault_and_leaves_nothing(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (400, before[1]))
    try:
        with pytest.raises(EnvironmentFault, match="The training set cannot be written") as told:
            write_set(tmp_path / "set", episodes(), {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "Free some space" in told.value.next_step
    assert list(tmp_path.iterdir()) == []


def test_a_writer_that_is_given_up_leaves_nothing(tmp_path: Path) -> None:
    with SetWriter(tmp_path / "set") as writer:
        writer.add(episodes()[0])
    assert list(tmp_path.iterdir()) == []

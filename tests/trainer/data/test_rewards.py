"""What sessions earn: by the judge, from what was measured, and by what the developer decided."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent import events as ev
from agent.exports.trajectory import read_trajectory
from agent.replay import RECORDINGS
from agent.store import EVENTS
from sandbox.verdict import Speedup, Verdict
from tests.agent.exports.stories import Story
from tests.agent.support import make_verdict
from trainer.data.rewards import Earned, earned, rewarded, total

FILES = [{"path": "shifted.py", "before": None, "after": "0" * 64}]


def slow(**fields: object) -> Verdict:
    """Return a verdict of a correct candidate that is slower than eager: it earns 1."""
    return make_verdict(tier="full", ratio=0.5, reward=1, **fields)


def land(story: Story, attempt: int = 1, *, partial: bool = False) -> None:
    number = len(story.state.landings) + 1
    story.add(ev.Landed(landing=number, attempt=attempt, files=FILES, partial=partial, verdict={}))


def refuse(story: Story, attempt: int = 1) -> None:
    story.add(ev.HunkRejected(attempt=attempt, file="shifted.py", hunk="1", reason="It is hard to read."))


def undo(story: Story) -> None:
    story.add(ev.Undone(landing=1, files=[{"path": "shifted.py", "outcome": "removed"}]))


def remade(components: dict[str, Any]) -> float:
    """Return the reward that the measurements in an episode's components earn."""
    return total({**components, "judged": rewarded(Verdict.from_json(components["verdict"])).reward})


def of(story: Story, folder: Path, *, decisions: bool = True) -> Earned:
    return earned(read_trajectory(story.write(folder), lambda _: None), decisions=decisions)


@pytest.mark.parametrize(
    ("decided", "decision", "said"),
    [
        ([], 0.0, ""),
        ([land], 0.5, "landed"),
        ([refuse], -0.5, "rejected"),
        ([refuse, land], 0.5, "landed"),
        ([lambda story: land(story, partial=True)], 0.0, "landed in part"),
        ([land, undo], 0.0, "taken back"),
        ([land, undo, land], 0.5, "landed"),
        ([lambda story: refuse(story, 2)], 0.0, ""),
    ],
)
def test_the_developers_decision_counts_half_a_point(
    tmp_path: Path, decided: list[Callable[[Story], None]], decision: float, said: str
) -> None:
    story = Story()
    story.checked(slow())
    for decide in decided:
        decide(story)
    story.end()
    won = of(story, tmp_path / "yes")
    assert (won.reward, won.components["decision"], won.components["decided"]) == (1 + decision, decision, said)
    assert (won.components["judged"], won.components["tier"], won.components["attempt"]) == (1, "full", 1)
    without = of(story, tmp_path / "no", decisions=False)
    assert (without.reward, without.components["decision"], without.components["decided"]) == (1, 0.0, said)


def test_a_reward_stays_within_what_the_judge_can_give(tmp_path: Path) -> None:
    best = Story()
    best.checked(make_verdict(tier="full"))
    land(best)
    assert of(best, tmp_path / "best").reward == 3
    failed = Story()
    failed.checked(make_verdict(ok=False))
    refuse(failed)
    won = of(failed, tmp_path / "failed")
    assert (won.reward, won.components["verdict"], won.components["tier"]) == (-1, None, "quick")


def test_a_verdict_that_was_taken_from_another_session_is_told_as_such(tmp_path: Path) -> None:
    story = Story()
    story.checked(slow())
    assert of(story, tmp_path / "measured").components["taken_from"] is None
    other = {"session": "4d3c", "attempt": 7}
    story.add(ev.Attempt(attempt=2, files={}, verdict=make_verdict(tier="full").to_json(), taken_from=other))
    won = of(story, tmp_path / "taken")
    assert (won.reward, won.components["attempt"], won.components["taken_from"]) == (3, 2, other)


def test_the_best_attempt_counts_and_not_the_last(tmp_path: Path) -> None:
    story = Story()
    story.checked(slow())
    story.checked(make_verdict(tier="full", ratio=4.0))
    story.checked(make_verdict(ok=False))
    won = of(story, tmp_path)
    assert (won.reward, won.components["attempt"]) == (3, 2)


def test_a_reward_is_made_again_from_what_was_measured(tmp_path: Path) -> None:
    story = Story()
    story.checked(replace(slow(), reward=3))
    won = of(story, tmp_path)
    assert (won.reward, won.components["stored"], won.components["judged"]) == (1, 3, 1)
    stored = json.loads(json.dumps(won.components, allow_nan=False))
    assert remade(stored) == 1
    stored["verdict"]["profile"]["speedup"]["eager"] = {"ratio": 2.0, "low": 1.9, "high": 2.1}
    assert remade(stored) == 3, "it follows the measurements, and not the figure that was stored"


@pytest.mark.parametrize("name", sorted(path.name for path in RECORDINGS.iterdir()))
def test_the_rewards_of_the_bundled_recordings_follow_from_their_measurements(name: str) -> None:
    won = earned(read_trajectory(RECORDINGS / name, lambda _: None))
    assert (won.components["judged"], won.components["stored"], won.components["tier"]) == (3, 3, "full")
    assert remade(json.loads(json.dumps(won.components))) == won.reward == 3
    assert won.why == ""


def test_nobody_can_say_what_a_disturbed_or_unread_measurement_earns(tmp_path: Path) -> None:
    disturbed = Story()
    disturbed.checked(make_verdict(reward=None))
    won = of(disturbed, tmp_path / "disturbed")
    assert (won.reward, won.why) == (
        None,
        "Nobody can say what it earns: it was not judged, or the machine was at fault.",
    )
    verdict = make_verdict(tier="full")
    assert verdict.profile is not None
    spoilt = replace(verdict.profile, speedup={"eager": Speedup(None, None, None)})  # what NaN becomes on the disk
    assert rewarded(replace(verdict, profile=spoilt)).reward is None
    unread = Story()
    unread.checked(replace(verdict, profile=spoilt))
    assert of(unread, tmp_path / "unread").reward is None


@pytest.mark.parametrize(
    ("old", "new", "reward"),
    [
        ('"reward": 1, "reason"', '"reward": NaN, "reason"', 1.0),
        ('"ratio": 0.5', '"ratio": NaN', None),
        ('"low": 0.4', '"low": Infinity', None),
        ('"device_us": 10.0, "latency_us": 12.0', '"device_us": NaN, "latency_us": 12.0', None),
        ('"copy_us": 5.0', '"copy_us": NaN', 1.0),
    ],
)
def test_what_is_no_number_never_becomes_a_reward(tmp_path: Path, old: str, new: str, reward: float | None) -> None:
    story = Story()
    story.checked(slow())
    story.end()
    folder = story.write(tmp_path)
    text = (folder / EVENTS).read_text()
    assert old in text
    (folder / EVENTS).write_text(text.replace(old, new))
    won = earned(read_trajectory(folder, lambda _: None))
    assert won.reward == reward
    assert json.loads(json.dumps(won.components, allow_nan=False)) == won.components


def test_a_session_that_delivered_nothing_has_failed_and_one_that_was_stopped_has_not(tmp_path: Path) -> None:
    story = Story()
    story.answer("I would rather not.")
    story.end()
    assert of(story, tmp_path / "finished").reward == -1
    stopped = Story()
    stopped.answer("Wait.")
    stopped.end(ev.EndReason.INTERRUPTED)
    assert of(stopped, tmp_path / "stopped").reward is None


def test_a_quick_verdict_is_relied_on_from_three_placements_on(tmp_path: Path) -> None:
    verdict = make_verdict()
    assert verdict.profile is not None
    for placements, why in ((2, "Its reward is of a quick verdict with fewer than three placements."), (3, "")):
        profile = replace(verdict.profile, samples={"candidate": [[10.0]] * placements})
        story = Story()
        story.checked(replace(verdict, profile=profile))
        won = of(story, tmp_path / str(placements))
        assert (won.reward, won.components["placements"], won.why) == (3, placements, why)


def test_correctness_alone_is_a_reward_to_rely_on_and_told_as_such(tmp_path: Path) -> None:
    story = Story()
    story.checked(replace(make_verdict(reward=1), profile=None))
    won = of(story, tmp_path)
    assert (won.reward, won.why, won.components["tier"]) == (1, "", "correctness")
    assert remade(json.loads(json.dumps(won.components))) == 1

"""From sessions to episodes: whose token is whose, and which stage may learn from what."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agent import events as ev
from agent.exports.trajectory import read_trajectory
from agent.session import SESSION_FILE
from agent.store import EVENTS, SessionWriter
from tests.agent.exports.samples import cut_and_retold
from tests.agent.exports.stories import Story
from tests.agent.support import make_verdict
from tests.trainer.data.conftest import Read
from trainer.data.eligibility import Freshness
from trainer.data.episode import Episode, Policy, Stage
from trainer.data.episodes import Choice, Report, episodes_of
from trainer.data.segments import Target

OWN = {"weights": "step-4", "version": 4, "logprobs": "processed"}


def written(episode: Episode) -> dict[int, list[int]]:
    """Return the tokens of every turn that are actions."""
    found: dict[int, list[int]] = {}
    for segment in episode.segments:
        assert not segment.action[0]
        assert segment.action[-1], "the reward lies on an action"
        assert ((segment.turn > 0) == segment.action).all()
        assert (np.isnan(segment.logprobs) | segment.action).all()
        for turn in np.unique(segment.turn[segment.action]):
            assert int(turn) not in found, "an answer is an action once"
            found[int(turn)] = segment.ids[segment.turn == turn].tolist()
    return found


# --- as it was served -------------------------------------------------------------------------------------------------


def long_session(served: Story) -> Story:
    served.checked(make_verdict(ok=False), "wrong")
    served.say("Mind the clamp.", "steer")
    served.checked(make_verdict(tier="full"), "right")
    served.compact("So far: attempt 2 is right.")
    served.say("Attempt 2 is three times faster than attempt 1.", "contrast")
    served.checked(make_verdict(tier="full", ratio=3.0), "faster")
    served.retemplate()
    served.answer("Done.")
    served.say("The run ends here.")
    served.end()
    return served


def test_tokens_are_those_that_were_served_and_actions_what_the_policy_wrote(served: Story, read: Read) -> None:
    episode = read(long_session(served))
    turns = [event for event in served.events if isinstance(event, ev.ModelTurn)]
    assert written(episode) == {event.turn: event.token_ids for event in turns}
    assert len(episode.segments) == 3, "compacted once, and written otherwise than sampled once"
    for segment in episode.segments:
        assert (segment.logprobs[segment.action] == np.float32(-0.25)).all()
    assert (episode.reward, episode.truncated, episode.refused) == (3.0, False, {})


def test_what_a_policy_was_told_is_never_an_action(served: Story, read: Read, target: Target) -> None:
    episode = read(long_session(served))
    said = target.tokenizer.decode([token for ids in written(episode).values() for token in ids])
    told = "".join(target.tokenizer.decode(segment.ids[~segment.action]) for segment in episode.segments)
    for text in ("Mind the clamp.", "Attempt 2 is three times faster", "So far: attempt 2", "Written."):
        assert text in told
        assert text not in said
    assert "The run ends here." not in told, "what is told after the last answer leads to nothing"


def test_only_the_last_action_of_the_last_segment_is_the_end(read: Read) -> None:
    story = cut_and_retold()
    episode = read(story, target=None)
    assert [segment.action[-1] for segment in episode.segments] == [True] * 3
    assert episode.truncated, "it ended at a limit"
    assert episode.facts["ended"] == "turn_limit"


# --- of another tokenizer, or of none ---------------------------------------------------------------------------------


def test_a_session_in_other_tokens_is_written_anew(served: Story, read: Read, target: Target) -> None:
    served.answer("I read it.", ("c1", "Check", "{}"), identity={"tokenizer_sha256": "f" * 64})
    served.result("c1", "Check", "It is right.")
    served.end()
    episode = read(served)
    assert target.tokenizer.decode(written(episode)[1]) == (
        'I read it.\n<tool_call>\n{"name": "Check", "arguments": {}}\n</tool_call><|im_end|>'
    )
    assert episode.refused[Stage.PPO] == "Its tokens are of another tokenizer."
    assert episode.policy.tokenizer_sha256 == target.tokenizer_sha256
    assert episode.policy.chat_template_sha256 == target.chat_template_sha256


@pytest.mark.parametrize("identity", [{}, {"tokenizer_sha256": "of the target"}])
def test_a_tokenizer_that_a_server_does_not_tell_is_found_out_by_decoding(
    served: Story, read: Read, target: Target, identity: dict[str, str]
) -> None:
    identity = dict.fromkeys(identity, target.tokenizer_sha256)
    served.checked(make_verdict(tier="full"))
    served.answer("Ready.", identity=identity)
    served.end()
    assert Stage.PPO not in read(served).refused


def test_tokens_that_do_not_say_what_was_said_are_not_believed(read: Read) -> None:
    story = Story(ids=True)  # its ids are bytes, which mean something else to the target
    story.checked(make_verdict(tier="full"))
    story.end()
    why = "Its tokens do not decode to what was said, so they are of another tokenizer."
    assert read(story).refused == {Stage.PPO: why}


def test_tokens_outside_of_the_vocabulary_are_not_believed(served: Story, read: Read, target: Target) -> None:
    served.checked(make_verdict(tier="full"))
    served.answer("Done.", identity={"tokenizer_sha256": target.tokenizer_sha256})
    event = served.events[-1]
    assert isinstance(event, ev.ModelTurn)
    assert event.token_ids is not None
    served.events[-1] = replace(event, token_ids=[*event.token_ids[:-1], target.size])
    assert read(served).refused[Stage.PPO] == "It holds token ids that the tokenizer does not have."


def test_a_text_is_written_as_the_policy_would_have_to_write_it(read: Read, target: Target) -> None:
    story = Story()
    story.answer("", ("c1", "Write", '{"file_path": "kernels/a.cu", "content": "a\\nb"}'), reasoning="Hidden thoughts.")
    story.result("c1", "Write", "Written.")
    story.answer("This is cut", finish_reason="length")
    story.say("Go on.")
    story.answer("<|im_end|> is what ends me.")
    story.end()
    episode = read(story)
    texts = {turn: target.tokenizer.decode(ids) for turn, ids in written(episode).items()}
    call = '{"name": "Write", "arguments": {"file_path": "kernels/a.cu", "content": "a\\nb"}}'
    assert texts == {
        1: f"<tool_call>\n{call}\n</tool_call><|im_end|>",
        2: "This is cut",
        3: "<|im_end|> is what ends me.<|im_end|>",
    }
    (segment,) = episode.segments
    whole = target.tokenizer.decode(segment.ids)
    assert "Hidden thoughts" not in whole
    assert "This is cut<|im_end|>\n<|im_start|>user\nGo on." in whole, "what the model did not write was told"
    assert np.isnan(segment.logprobs).all()
    assert episode.facts["reasoning_left_out"] == 1


def test_a_compacted_text_is_two_segments(read: Read, target: Target) -> None:
    story = Story()
    story.checked(make_verdict(ok=False))
    story.compact("So far: nothing works.")
    story.checked(make_verdict(tier="full"))
    story.end()
    first, second = read(story).segments
    assert set(np.unique(first.turn)) == {0, 1}
    assert set(np.unique(second.turn)) == {0, 2}
    assert "I try fast." in target.tokenizer.decode(second.ids[~second.action]), "the copied answer is told"


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}", "does not write the calls of tools."),
        (
            "{{ raise_exception('Only user and assistant may speak') }}",
            "refuses the conversation: Only user and assistant",
        ),
        ("{{ messages | length }}", "writes a prompt otherwise once it is answered."),
        ("", "has no chat template"),
    ],
)
def test_what_a_template_cannot_write_is_left_out(tmp_path: Path, target: Target, template: str, why: str) -> None:
    tokenizer = copy.deepcopy(target.tokenizer)
    tokenizer.chat_template = template or None
    story = Story()
    story.checked(make_verdict(tier="full"))
    report = Report()
    assert list(episodes_of([story.write(tmp_path)], Choice(replace(target, tokenizer=tokenizer)), report)) == []
    assert why in report.left_out[0]["why"]


def test_a_session_with_an_answer_without_ids_is_written_anew_as_a_whole(
    served: Story, read: Read, target: Target
) -> None:
    served.checked(make_verdict(tier="full"))
    served.answer("Done.")
    event = served.events[-1]
    assert isinstance(event, ev.ModelTurn)
    served.events[-1] = replace(event, token_ids=None)
    episode = read(served)
    assert episode.refused == {Stage.PPO: "An answer came without token ids."}
    assert target.tokenizer.decode(written(episode)[2]) == "Done.<|im_end|>"


def test_a_session_whose_server_told_an_empty_prompt_is_written_anew(served: Story, read: Read) -> None:
    served.checked(make_verdict(tier="full"))
    served.events = [
        replace(event, prompt_token_ids=[]) if isinstance(event, ev.ModelTurn) else event for event in served.events
    ]
    assert read(served).refused == {Stage.PPO: "An answer came without the token ids of what it answers."}
    assert read(served).segments[0].ids.size > 0


# --- which stage ------------------------------------------------------------------------------------------------------


def judged(story: Story, **fields: Any) -> Story:
    """Let every answer of a good session have these fields."""
    story.checked(make_verdict(tier="full"))
    story.answer("Done.")
    story.end()
    story.events = [replace(each, **fields) if isinstance(each, ev.ModelTurn) else each for each in story.events]
    return story


@pytest.mark.parametrize(
    ("fields", "freshness", "why"),
    [
        ({}, Freshness(), ""),
        ({"logprobs": None}, Freshness(), "An answer came without log-probabilities."),
        ({"identity": OWN}, Freshness(4), ""),
        ({"identity": OWN}, Freshness(8, 4), ""),
        ({"identity": OWN}, Freshness(9, 4), "The policy that wrote it is more than 4 updates old."),
        ({"identity": OWN}, Freshness(3), "A later policy wrote it than the one that is trained."),
        ({"sampling": {"temperature": 1.0, "top_p": 1}}, Freshness(), ""),
        ({"sampling": {"temperature": 0}}, Freshness(), "Its answers were not sampled: the temperature was 0."),
        ({"sampling": {"temperature": 0.7}, "identity": OWN}, Freshness(), ""),
        (
            {"sampling": {"temperature": 0.7}},
            Freshness(),
            "Its log-probabilities are the model's before temperature or top_p",
        ),
        (
            {"sampling": {"top_p": 0.9}},
            Freshness(),
            "Its log-probabilities are the model's before temperature or top_p",
        ),
    ],
)
def test_ppo_learns_from_what_its_policy_sampled(
    served: Story, read: Read, fields: dict[str, Any], freshness: Freshness, why: str
) -> None:
    episode = read(judged(served, **fields), freshness=freshness)
    assert set(episode.refused) == ({Stage.PPO} if why else set())
    assert episode.refused.get(Stage.PPO, "").startswith(why)
    assert episode.policy.version == fields.get("identity", {}).get("version", 0)
    assert episode.policy.temperature == fields.get("sampling", {}).get("temperature", 1.0)


def test_ppo_learns_nothing_from_models_that_are_not_in_training(served: Story, read: Read) -> None:
    """Their log-probabilities are those of other weights, which no importance weight makes up for."""
    refused = read(judged(served), answered_by=Policy()).refused
    assert refused == {
        Stage.PPO: "Its server does not say which policy in training wrote it; that of serve and of cycle does."
    }


def test_who_answered_can_be_told_where_the_server_does_not(served: Story, read: Read) -> None:
    known = Policy(weights="step-7", version=7)
    episode = read(judged(served), freshness=Freshness(8), answered_by=known)
    assert (episode.policy.weights, episode.policy.version, episode.refused) == ("step-7", 7, {})


def test_log_probabilities_that_are_not_finite_are_none(served: Story, read: Read) -> None:
    story = judged(served)
    event = next(each for each in story.events if isinstance(each, ev.ModelTurn))
    assert event.logprobs is not None
    story.events[story.events.index(event)] = replace(event, logprobs=[float("nan"), *event.logprobs[1:]])
    assert read(story).refused == {Stage.PPO: "An answer came without log-probabilities."}


def test_failures_teach_the_critic_and_not_the_policy_by_imitation(served: Story, read: Read) -> None:
    served.checked(make_verdict(ok=False))
    served.end()
    episode = read(served)
    assert (episode.reward, episode.refused) == (-1.0, {Stage.RFT: "Its reward is not above 0."})


def test_without_a_reward_no_stage_learns_anything(served: Story, read: Read) -> None:
    served.checked(make_verdict(reward=None))
    served.end()
    assert set(read(served).refused) == set(Stage)


def test_a_reward_of_too_few_placements_is_enough_to_imitate_only(served: Story, read: Read) -> None:
    served.checked(make_verdict(tier="quick"))
    served.end()
    assert set(read(served).refused) == {Stage.VALUE, Stage.PPO}


# --- what is no example -----------------------------------------------------------------------------------------------


def bad_call(story: Story, name: str, arguments: str, times: int = 1, **fields: Any) -> None:
    for number in range(times):
        call = f"x{number}"
        story.answer("Next.", (call, name, arguments), **fields)
        story.result(call, name, "The same.", ok=False)


QUICK = '{"tier": "quick"}'
GUARDED = '{"file_path": ".git/config", "content": "x"}'
PARSE_ERROR = {"parse_errors": [{"call_id": "x0", "tool": "Check", "raw": "{", "problem": "no JSON"}]}


@pytest.mark.parametrize(
    ("habit", "why"),
    [
        (lambda story: bad_call(story, "Check", "{}", **PARSE_ERROR), "A call could not be understood."),
        (lambda story: bad_call(story, "Check", '{"tier": "slow"}'), "A call breaks the schema of its tool."),
        (lambda story: bad_call(story, "Write", '{"content": "x"}'), "A call breaks the schema of its tool."),
        (lambda story: bad_call(story, "Fly", "{}"), "A call breaks the schema of its tool."),
        (lambda story: bad_call(story, "Write", GUARDED), "It tried to write a protected file."),
        (
            lambda story: bad_call(story, "Check", QUICK, 3),
            "It did the same thing with the same result 3 times or more.",
        ),
        (lambda story: bad_call(story, "Check", QUICK, 2), ""),
        (lambda story: bad_call(story, "Check", '{"tier": "QUICK"}'), ""),
    ],
)
def test_bad_habits_are_not_imitated_and_are_learned_from_all_the_same(
    served: Story, read: Read, habit: Callable[[Story], None], why: str
) -> None:
    habit(served)
    episode = read(judged(served))
    assert episode.reward == 3
    assert episode.refused == ({Stage.RFT: why} if why else {})


def test_the_same_check_after_another_change_is_no_loop(served: Story, read: Read) -> None:
    for source in ("one", "two", "three", "four"):
        served.checked(make_verdict(tier="full"), source)
    assert read(served).refused == {}


def test_the_same_code_judged_again_and_again_is_a_loop(served: Story, read: Read) -> None:
    for _ in range(3):
        served.checked(replace(make_verdict(tier="full"), source_sha256="5" * 64), "fast")
    assert Stage.RFT in read(served).refused


# --- what is no episode -----------------------------------------------------------------------------------------------


def left_out(folder: Path, choice: Choice | None = None) -> str:
    report = Report()
    assert list(episodes_of([folder], choice or Choice(), report)) == []
    return report.left_out[0]["why"]


def test_a_replay_teaches_nothing_new(served: Story, tmp_path: Path) -> None:
    folder = judged(served).write(tmp_path)
    data = json.loads((folder / SESSION_FILE).read_text())
    data["settings"]["model"] = "replay:demo-cpu"
    (folder / SESSION_FILE).write_text(json.dumps(data))
    assert left_out(folder) == "It replays another session, which is the one to learn from."


def test_a_session_that_goes_on_is_not_taken_and_one_that_was_cut_off_is(served: Story, tmp_path: Path) -> None:
    served.checked(make_verdict(tier="full"))
    folder = served.write(tmp_path)
    writer = SessionWriter(folder)
    assert left_out(folder) == "It is still going on."
    writer.close()
    report = Report()
    (episode,) = episodes_of([folder], Choice(), report)
    assert episode.truncated
    assert report.notes.total() == 1


def test_a_torn_last_line_costs_nothing_and_a_torn_middle_is_told(served: Story, tmp_path: Path) -> None:
    folder = judged(served).write(tmp_path)
    lines = (folder / EVENTS).read_bytes().splitlines(keepends=True)
    (folder / EVENTS).write_bytes(b"".join(lines)[:-9])
    assert len(list(episodes_of([folder], Choice(), Report()))) == 1
    heard = next(index for index, line in enumerate(lines) if b'"tool_finished"' in line)
    (folder / EVENTS).write_bytes(b"".join([*lines[:heard], lines[heard][:40] + b"\n", *lines[heard + 1 :]]))
    assert left_out(folder) == "It is torn: what the model was asked cannot be made again as it was sent."


def test_somebody_elses_events_are_told_and_hide_no_other_session(served: Story, tmp_path: Path) -> None:
    folder = judged(served).write(tmp_path / "good")
    strange = judged(Story()).write(tmp_path / "strange")
    text = (strange / EVENTS).read_text()
    (strange / EVENTS).write_text(
        text.replace('"schema": "warpsmith.verdict/1"', '"schema": "other"').replace('"tier"', '"t"')
    )
    nothing = tmp_path / "nothing"
    nothing.mkdir()
    report = Report()
    assert len(list(episodes_of([strange, nothing, folder], Choice(), report))) == 1
    assert "cannot be understood: KeyError 'tier'" in report.left_out[0]["why"]
    assert "not a session that can be read" in report.left_out[1]["why"]


def test_a_copy_of_a_session_counts_once(served: Story, tmp_path: Path) -> None:
    folder = judged(served).write(tmp_path)
    report = Report()
    assert len(list(episodes_of([folder, shutil.copytree(folder, tmp_path / "copy")], Choice(), report))) == 1
    assert report.left_out == [{"session": "copy", "why": "It is a copy of another session that is read."}]


def test_an_answer_of_no_tokens_is_no_episode(tmp_path: Path) -> None:
    story = Story(ids=True, encode=lambda _: [])
    story.answer("")
    story.end()
    assert left_out(story.write(tmp_path)) == "It holds no token that the policy wrote."


def test_every_prompt_of_an_episode_is_the_one_that_was_served(served: Story, tmp_path: Path) -> None:
    folder = long_session(served).write(tmp_path)
    (episode,) = episodes_of([folder], Choice(), Report())
    trajectory = read_trajectory(folder, lambda _: None)
    for turn, prompt in zip(trajectory.turns, trajectory.prompt_ids(), strict=True):
        segment = next(each for each in episode.segments if turn.event.turn in each.turn)
        start = int(np.flatnonzero(segment.turn == turn.event.turn)[0])
        assert segment.ids[:start].tolist() == prompt

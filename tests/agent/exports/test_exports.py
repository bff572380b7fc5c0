"""Exports of sessions as they are, of sessions cut anywhere, and of pairs of sessions."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent import events as ev
from agent.context.prompts import prompt_of
from agent.exports import FORMATS
from agent.exports.plain import with_objects
from agent.exports.trajectory import Trajectory, read_trajectory
from agent.replay import RECORDINGS
from agent.store import EVENTS, read_events
from app.cli import main
from tests.agent.exports.atif_rules import assert_follows_the_rules
from tests.agent.exports.samples import cut_and_retold, sibling
from tests.agent.exports.stories import Story
from tests.agent.support import make_verdict

BUNDLED = sorted(path.name for path in RECORDINGS.iterdir())


def exported(name: str, *folders: Path) -> tuple[list[dict[str, Any]], Counter[str]]:
    """Return the rows of some sessions, as somebody reads them from a file, and what was noted."""
    notes: Counter[str] = Counter()

    def note(text: str) -> None:
        notes[text] += 1

    rows = FORMATS[name]((read_trajectory(folder, note) for folder in folders), note)
    return [json.loads(json.dumps(row, allow_nan=False)) for row in rows], notes


def trajectory(folder: Path) -> Trajectory:
    return read_trajectory(folder, lambda _: None)


# --- bundled recordings, by the command --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["atif", "messages", "preferences", "verl", "verl-tasks"])
def test_the_bundled_recordings_export(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["sessions", "export", *BUNDLED, "--format", name])
    out, err = capsys.readouterr()
    rows = [json.loads(line) for line in out.splitlines()]
    expected = 0 if name in ("preferences", "verl") else len(BUNDLED)
    assert (len(rows), code) == (expected, 0 if expected else 1)
    assert err.startswith(f"{expected} rows of {len(BUNDLED)} sessions.\n")
    assert "not proven" not in err
    if name == "atif":
        for document in rows:
            assert_follows_the_rules(document)
            calls = [call for step in document["steps"] for call in step.get("tool_calls", ())]
            results = [r for s in document["steps"] if "observation" in s for r in s["observation"]["results"]]
            assert {call["tool_call_id"] for call in calls} == {result["source_call_id"] for result in results}
            assert document["extra"]["outcome"]["reward"] == 3
    if not expected:
        assert " × " in err, "what is left out is said, and why"


def test_what_is_written_is_whole_and_a_folder_holds_a_document_a_file(tmp_path: Path) -> None:
    folder = cut_and_retold().write(tmp_path)
    assert main(["sessions", "export", str(folder), "--format", "atif", "--out", f"{tmp_path}/atif/"]) == 0
    documents = {path.name: json.loads(path.read_text()) for path in (tmp_path / "atif").iterdir()}
    first = next(document for document in documents.values() if "continued_trajectory_ref" in document)
    assert set(documents) == {f"{first['session_id']}.json", first["continued_trajectory_ref"]}
    out = tmp_path / "rows.jsonl"
    assert main(["sessions", "export", str(folder), "--format", "messages", "--out", str(out)]) == 0
    assert len(out.read_text().splitlines()) == 2
    assert main(["sessions", "export", "demo-cpu", "--format", "verl", "--out", str(out)]) == 1
    assert len(out.read_text().splitlines()) == 2, "nothing is written over what there is"
    assert [path.name for path in tmp_path.glob("*.part")] == []


def test_what_cannot_be_asked_for_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sessions", "export", "--format", "atif"]) == 2
    assert "No session is named" in capsys.readouterr().err
    assert main(["sessions", "export", "demo-cpu", "--format", "messages", "--out", str(tmp_path)]) == 2
    assert "Name a file" in capsys.readouterr().err
    assert main(["sessions", "export", "demo-cpu", "--format", "messages", "--out", f"{tmp_path}/no/a.jsonl"]) == 3
    assert "cannot be written" in capsys.readouterr().err


def test_a_newer_session_is_exported_and_warned_of(tmp_path: Path) -> None:
    folder = sibling("fast", 3.0, taken=True).write(tmp_path)
    with (folder / EVENTS).open("a") as file:
        file.write('{"n": 99, "time": 1.0, "type": "of_tomorrow"}\n')
    for name in FORMATS:
        _, notes = exported(name, folder)
        assert notes["An event of a kind that a newer version knows is left out."] == 1


# --- the formats -------------------------------------------------------------------------------------------------


def test_atif_says_what_was_copied_and_keeps_verdicts_and_decisions_where_they_happened(tmp_path: Path) -> None:
    story = cut_and_retold()
    story.add(ev.HunkRejected(attempt=4, file="shifted.py", hunk="1", reason="Too clever."))
    documents, _ = exported("atif", story.write(tmp_path))
    for document in documents:
        assert_follows_the_rules(document)
    first, second = documents
    assert first["continued_trajectory_ref"] == f"{second['trajectory_id']}.json"
    assert [step.get("is_copied_context") for step in second["steps"]] == [True, True, None, True, None, None]
    origins = [[s["extra"]["origin"] for s in each["steps"] if s["source"] == "user"] for each in documents]
    assert origins == [["task", "steer"], ["task", "summary"]]
    answers = [s for document in documents for s in document["steps"] if s.get("llm_call_count") == 1]
    assert [a["extra"]["attempts"][0]["verdict"]["reward"] for a in answers] == [-1, 3, 3, 3]
    assert answers[-1]["extra"]["decisions"][0]["reason"] == "Too clever."
    assert [len(a["metrics"]["completion_token_ids"]) for a in answers] == [
        len(a["metrics"]["logprobs"]) for a in answers
    ]
    assert (
        answers[1]["metrics"]["prompt_token_ids"][: len(answers[0]["metrics"]["prompt_token_ids"])]
        == (answers[0]["metrics"]["prompt_token_ids"])
    )


def test_messages_are_as_they_were_sent_and_arguments_objects_where_that_is_asked_for(tmp_path: Path) -> None:
    folder = cut_and_retold().write(tmp_path)
    rows, _ = exported("messages", folder)
    read = trajectory(folder)
    assert [row["metadata"]["context"] for row in rows] == [2, 6]
    steer, summary = {"index": 5, "origin": "steer"}, {"index": 2, "origin": "summary"}
    assert [row["metadata"]["origins"][1:] for row in rows] == [[steer], [summary]]
    assert [turn.proven for turn in read.turns] == [True] * 4
    assert rows[0]["messages"] == [*read.turns[1].messages, read.turns[1].event.message]
    calls = [call for message in with_objects(rows[0]["messages"]) for call in message.get("tool_calls", ())]
    assert calls[0]["function"]["arguments"] == {"file_path": "shifted.py", "content": "wrong"}


def test_what_a_provider_sealed_for_itself_is_left_out(tmp_path: Path) -> None:
    story = Story()
    story.answer("I look.", ("c1", "Check", "{}"))
    message = story.state.messages[-1]
    message |= {"thinking_blocks": [{"signature": "SEALED"}], "reasoning_content": "It is memory bound."}
    message["tool_calls"][0]["provider_specific_fields"] = {"thought_signature": "SEALED"}
    story.result("c1", "Check", "Done.")
    story.answer("Done.")
    folder = story.write(tmp_path)
    (row,), notes = exported("messages", folder)
    assert not notes
    assert "SEALED" not in json.dumps(row)
    assert row["messages"][2]["reasoning_content"] == "It is memory bound."


def test_token_rows_split_where_tokens_part_and_end_with_the_model(tmp_path: Path) -> None:
    folder = cut_and_retold().write(tmp_path)
    rows, notes = exported("verl", folder)
    read = trajectory(folder)
    prompts = list(read.prompt_ids())
    assert not notes
    assert [[span["turn"] for span in json.loads(row["extra_info"]["spans"])] for row in rows] == [[1, 2], [3], [4]]
    for row in rows:
        assert len(row["response_ids"]) == len(row["response_mask"]) == len(row["rollout_log_probs"])
        assert row["response_mask"][-1] == 1
        assert row["reward"] == 3.0
        for span in json.loads(row["extra_info"]["spans"]):
            turn = read.turns[span["turn"] - 1]
            whole = [*row["prompt_ids"], *row["response_ids"][: span["start"]]]
            assert whole == prompts[span["turn"] - 1]
            assert row["response_ids"][span["start"] : span["end"]] == turn.event.token_ids
            assert set(row["response_mask"][span["start"] : span["end"]]) == {1}


def test_an_answer_of_no_tokens_at_the_end_does_not_carry_the_reward(tmp_path: Path) -> None:
    story = Story(ids=True)
    story.checked(make_verdict())
    before = story.state.prompt_sha256
    kept = ev.ModelTurn(
        turn=2,
        message={"role": "assistant", "content": ""},
        prompt_sha256=before,
        finish_reason="stop",
        model="local/policy",
        seconds=1.0,
        token_ids=[],
        logprobs=[],
        prompt_tokens_kept=10_000,
        prompt_token_ids=[7, 8, 9],
    )
    story.add(kept)
    rows, _ = exported("verl", story.write(tmp_path))
    assert [row["response_mask"][-1] for row in rows] == [1]
    assert rows[0]["num_turns"] == 1


def test_who_cannot_say_what_a_session_earns_exports_no_token_row(tmp_path: Path) -> None:
    story = Story(ids=True)
    story.answer("I will look.")
    story.end(ev.EndReason.INTERRUPTED)
    assert exported("verl", story.write(tmp_path / "a"))[0] == []
    story = Story(ids=True)
    story.answer("I give up.")
    story.end()
    assert [row["reward"] for row in exported("verl", story.write(tmp_path / "b"))[0]] == [-1.0]


def test_a_task_is_exported_once(tmp_path: Path) -> None:
    folders = [sibling(name, 2.0, taken=True).write(tmp_path / name) for name in ("a", "b")]
    rows, notes = exported("verl-tasks", *folders, cut_and_retold().write(tmp_path / "c"))
    assert len(rows) == 1
    assert [message["role"] for message in rows[0]["prompt"]] == ["system", "user"]
    assert notes["A session was begun on a task that is exported already."] == 2


# --- pairs -------------------------------------------------------------------------------------------------------


def test_siblings_are_a_pair_by_decision_and_by_time(tmp_path: Path) -> None:
    folders = [
        sibling("slow", 2.0, taken=False).write(tmp_path / "a"),
        sibling("fast", 4.0, taken=True).write(tmp_path / "b"),
    ]
    rows, _ = exported("preferences", *folders)
    assert [row["evidence"]["kind"] for row in rows] == ["accepted", "faster"]
    for row in rows:
        assert [message["role"] for message in row["prompt"]] == ["system", "user"]
        assert [len(row[side]) for side in ("chosen", "rejected")] == [1, 1]
        assert row["chosen"][0]["content"] == "I try fast."
        assert row["evidence"]["rejected"]["said"] == "It is hard to read."
        assert row["evidence"]["chosen"]["low"] > row["evidence"]["rejected"]["high"]


@pytest.mark.parametrize(
    ("one", "other", "why"),
    [
        (sibling("fast", 2.05, taken=True), sibling("slow", 2.0, taken=True), "The intervals of two attempts overlap."),
        (
            sibling("fast", 4.0, taken=False),
            sibling("slow", 2.0, taken=True),
            "The faster of two attempts is one that the developer refused.",
        ),
        (
            sibling("same", 4.0, taken=True),
            sibling("same", 4.0, taken=True),
            "Two sessions do not differ in any answer.",
        ),
    ],
)
def test_what_is_no_pair_is_counted_and_said(tmp_path: Path, one: Story, other: Story, why: str) -> None:
    rows, notes = exported("preferences", one.write(tmp_path / "a"), other.write(tmp_path / "b"))
    assert [row["evidence"]["kind"] for row in rows if row["evidence"]["kind"] == "faster"] == []
    assert notes[why] == 1


def test_what_was_taken_back_is_not_accepted_any_more(tmp_path: Path) -> None:
    back = sibling("fast", 2.0, taken=True)
    back.add(ev.Undone(landing=1, files=[]))
    refused = sibling("slow", 2.0, taken=False)
    rows, notes = exported("preferences", back.write(tmp_path / "a"), refused.write(tmp_path / "b"))
    assert rows == []
    assert notes["An attempt was accepted in part, or taken back, so it is neither accepted nor rejected."] == 1


def test_no_pair_where_the_same_answer_was_told_other_things(tmp_path: Path) -> None:
    stories = [Story(), Story()]
    for story, told in zip(stories, ("1.0 µs", "1.1 µs"), strict=True):
        story.answer("I look.", ("p1", "Check", "{}"))
        story.result("p1", "Check", told)
        story.checked(make_verdict(ratio=2.0 + len(told) + stories.index(story)), told)
    rows, notes = exported("preferences", *(s.write(tmp_path / str(n)) for n, s in enumerate(stories)))
    assert rows == []
    assert notes["After the same answers two sessions were told different things."] == 1


def test_other_openings_are_no_pair(tmp_path: Path) -> None:
    folders = []
    for number in (1, 2):
        story = Story(opening=f"Idea {number}")
        story.checked(make_verdict(ratio=2.0 * number))
        folders.append(story.write(tmp_path / str(number)))
    rows, notes = exported("preferences", *folders)
    assert rows == []
    assert notes["A session shares its opening with no other one that is exported."] == 2


# --- anything a loop may have stored -----------------------------------------------------------------------------

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
CALL = st.tuples(st.sampled_from(["Write", "Check", "Unknown"]), st.sampled_from(["{}", '{"a": "é\\n"}', "{}"]))
MOVE = st.one_of(
    st.tuples(st.just("answer"), TEXT, st.lists(CALL, max_size=3), st.permutations(range(3)), st.integers(0, 3)),
    st.tuples(st.just("say"), TEXT),
    st.tuples(st.just("compacted"), TEXT),
    st.tuples(st.just("retemplate")),
    st.tuples(st.just("resumed")),
    st.tuples(st.just("judged"), st.sampled_from([1.5, 3.0, None])),
)


def told(moves: list[Any], *, ids: bool) -> Story:
    """Let the moves happen: results come in any order, and after some of them the calls left are interrupted."""
    story = Story(ids=ids)
    for move in moves:
        match move:
            case ("answer", text, calls, order, done):
                names = [f"c{story.state.turns % 2}_{index}" for index in range(len(calls))]
                story.answer(text, *((i, *call) for i, call in zip(names, calls, strict=True)))
                for place, index in enumerate(index for index in order if index < len(calls)):
                    ok = place < done
                    story.result(names[index], calls[index][0], "Done." if ok else "Interrupted by a kill.", ok=ok)
            case ("say", text):
                story.say(text, "steer")
            case ("compacted", text):
                story.compact(text)
            case ("retemplate",):
                story.retemplate()
            case ("resumed",):
                story.add(ev.SessionResumed(note="A new shell."))
            case ("judged", ratio):
                story.attempt(make_verdict(ok=ratio is not None, ratio=ratio or 1.0))
    return story


@settings(max_examples=40)
@given(st.lists(MOVE, max_size=9), st.booleans(), st.floats(0, 1))
def test_every_export_of_any_session_holds_all_of_it(moves: list[Any], ids: bool, cut: float) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = told(moves, ids=ids).write(Path(name))
        log = folder / EVENTS
        log.write_bytes(log.read_bytes()[: int(log.stat().st_size * (1 - cut / 2))])
        read = trajectory(folder)
        stored = [each.event for each in read_events(folder)]
        answers = sum(isinstance(event, ev.ModelTurn) for event in stored)
        results = sum(isinstance(event, ev.ToolFinished) for event in stored)
        for turn in read.turns:
            assert turn.proven
            assert prompt_of(stored, turn.event.turn) == (list(turn.messages), turn.tools)
        _holds_messages(exported("messages", folder)[0], answers)
        _holds_atif(exported("atif", folder)[0], answers, results)
        _holds_tokens(exported("verl", folder)[0], read, ids)
        assert len(exported("verl-tasks", folder)[0]) == min(answers, 1)
        assert exported("preferences", folder, folder)[0] == []


def _holds_messages(rows: list[dict[str, Any]], answers: int) -> None:
    written = 0
    for row in rows:
        messages = row["messages"]
        assert messages[-1]["role"] == "assistant"
        written += sum(message["role"] == "assistant" for message in messages[row["metadata"]["context"] :])
        called = [call["id"] for message in messages[:-1] for call in message.get("tool_calls", ())]
        assert sorted(called) == sorted(m["tool_call_id"] for m in messages if m["role"] == "tool")
    assert written == answers


def _holds_atif(documents: list[dict[str, Any]], answers: int, results: int) -> None:
    for document in documents:
        assert_follows_the_rules(document)
    steps = [step for document in documents for step in document["steps"]]
    new = [step for step in steps if not step.get("is_copied_context")]
    found = [result for step in new if "observation" in step for result in step["observation"]["results"]]
    assert sum(step.get("llm_call_count", 0) for step in steps) == answers
    assert len(found) == results
    assert all("source_call_id" in result for result in found)


def _holds_tokens(rows: list[dict[str, Any]], read: Trajectory, ids: bool) -> None:
    exportable = ids and read.reward is not None
    written = sum(len(turn.event.token_ids or ()) for turn in read.turns) if exportable else 0
    assert sum(sum(row["response_mask"]) for row in rows) == written
    for row in rows:
        assert row["response_mask"][-1] == 1
        assert len(row["response_ids"]) == len(row["response_mask"]) == len(row["rollout_log_probs"])

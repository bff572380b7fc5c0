"""What a policy writes, taken apart: in whatever pieces it comes, the message is the same."""

from __future__ import annotations

import json

import pytest

from trainer.rollout.answer_text import UNNAMED, AnswerText, CallText

CALL = '<tool_call>\n{"name": "Check", "arguments": {"tier": "full"}}\n</tool_call>'
CHECK = CallText("Check", '{"tier": "full"}')


def taken(text, size):
    said, answer = [], AnswerText()
    for start in range(0, len(text), size):
        said += answer.add(text[start : start + size])
    said += answer.end()
    assert "".join(each for each in said if isinstance(each, str)) == answer.content
    assert [each for each in said if not isinstance(each, str)] == answer.calls
    return answer


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
@pytest.mark.parametrize(
    ("text", "content", "calls"),
    [
        ("Just words, a < b.", "Just words, a < b.", []),
        (CALL, "", [CHECK]),
        (f"First I look.\n{CALL}\n{CALL}\n", "First I look.", [CHECK, CHECK]),
        (f"{CALL}\nAnd more <tool", "And more <tool", [CHECK]),
        (
            "Cut <tool_call>\n" + '{"name": "Write", "arguments": {"fi',
            "Cut",
            [CallText("Write", '{"name": "Write", "arguments": {"fi')],
        ),
        ("<tool_call>nothing</tool_call>", "", [CallText(UNNAMED, "nothing")]),
        ('<tool_call>{"name": "Todo"}</tool_call>', "", [CallText("Todo", "{}")]),
        ("<tool_call>[1]</tool_call>", "", [CallText(UNNAMED, "[1]")]),
    ],
)
def test_words_and_calls_are_told_apart(text, content, calls, size):
    answer = taken(text, size)
    assert answer.content == content
    assert answer.calls == calls


def test_a_call_with_line_breaks_in_its_text_becomes_proper_json():
    answer = taken('<tool_call>{"name": "Write", "arguments": {"content": "a\nb"}}</tool_call>', 5)
    assert json.loads(answer.calls[0].arguments) == {"content": "a\nb"}


def test_the_message_has_the_form_that_clients_know():
    message = taken(f"Now.\n{CALL}", 4).message("x")
    assert message["content"] == "Now."
    assert message["tool_calls"] == [
        {"id": "x_0", "type": "function", "function": {"name": "Check", "arguments": '{"tier": "full"}'}}
    ]

"""Prompts go on from the very ids that were sampled, wherever the conversation goes on from an answer."""

from __future__ import annotations

import json

import pytest

from trainer.rollout.answer_text import AnswerText
from trainer.rollout.conversations import Conversations

TOOLS = [{"type": "function", "function": {"name": "Check", "description": "Judge.", "parameters": {"type": "object"}}}]
ASKED = [{"role": "system", "content": "You write kernels."}, {"role": "user", "content": "Begin."}]
ODD = '<tool_call>{"arguments":{},   "name":"Check"}</tool_call>'
"""A call as the template would not write it."""


@pytest.fixture
def conversations(policy):
    return Conversations(policy.tokenizer, [policy.tokenizer.eos_token_id])


def answered(policy, text):
    """Return a message, and ids that are not those that its text would become."""
    answer = AnswerText()
    list(answer.add(text))
    list(answer.end())
    ids = [token for letter in text for token in policy.tokenizer.encode(letter, add_special_tokens=False)]
    assert ids != policy.tokenizer.encode(text, add_special_tokens=False)
    return answer.message("a"), ids


@pytest.mark.parametrize("ended", [True, False])
def test_a_prompt_goes_on_from_the_ids_of_prompt_and_answer(policy, conversations, ended):
    prompt = conversations.prompt(ASKED, TOOLS)
    message, ids = answered(policy, f"I look.\n{ODD}")
    ids += [policy.tokenizer.eos_token_id] if ended else []
    conversations.remember(ASKED, TOOLS, message, prompt + ids)
    told = {"role": "tool", "tool_call_id": "a_0", "content": "Attempt 1: reward 3"}
    back = json.loads(json.dumps(message))
    back["tool_calls"][0]["id"] = "another"
    again = conversations.prompt([*ASKED, back, told], TOOLS)
    assert again[: len(prompt) + len(ids)] == prompt + ids
    rest = policy.tokenizer.decode(again[len(prompt) + len(ids) :])
    assert rest.startswith("\n<|im_start|>" if ended else "<|im_end|>\n<|im_start|>")
    assert rest.endswith("reward 3\n</tool_response><|im_end|>\n<|im_start|>assistant\n")
    whole = policy.tokenizer.decode(again)
    assert whole.count("<|im_end|>") == whole.count("<|im_start|>") - 1


def test_arguments_that_are_no_json_may_come_back_empty(policy, conversations):
    prompt = conversations.prompt(ASKED, TOOLS)
    message, ids = answered(policy, '<tool_call>{"name": "Check", "arguments": {"ti')
    conversations.remember(ASKED, TOOLS, message, prompt + ids)
    message["tool_calls"][0]["function"]["arguments"] = "{}"
    again = conversations.prompt([*ASKED, message, {"role": "user", "content": "Go on."}], TOOLS)
    assert again[: len(prompt) + len(ids)] == prompt + ids


@pytest.mark.parametrize("change", ["words", "tools", "before"])
def test_another_conversation_is_made_of_its_text(policy, conversations, change):
    prompt = conversations.prompt(ASKED, TOOLS)
    message, ids = answered(policy, "I am done.")
    conversations.remember(ASKED, TOOLS, message, prompt + ids)
    message = {**message, "content": "I am not."} if change == "words" else message
    tools = [] if change == "tools" else TOOLS
    asked = [{"role": "user", "content": "Other."}] if change == "before" else ASKED
    messages = [*asked, message, {"role": "user", "content": "Go on."}]
    text = policy.tokenizer.apply_chat_template(
        messages, tools=tools or None, add_generation_prompt=True, tokenize=False
    )
    assert conversations.prompt(messages, tools) == policy.tokenizer.encode(text, add_special_tokens=False)

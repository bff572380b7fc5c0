"""The tiny policy: a tokenizer that loses nothing, a template that tools and masks go through, the same one every time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.policy.identity import read_hashes
from trainer.policy.model import load_policy
from trainer.policy.tiny import tiny_tokenizer, write_tiny_policy

TOKENIZER = tiny_tokenizer(512, phrases=["int i = blockIdx.x;"])
TOOLS = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}]
CALL = '<tool_call>\n{"name": "bash", "arguments": {"command": "ls"}}\n</tool_call>'


def conversation(arguments: str | dict[str, str]) -> list[dict[str, Any]]:
    call = {"id": "1", "type": "function", "function": {"name": "bash", "arguments": arguments}}
    return [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is here?"},
        {"role": "assistant", "content": "I look.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "a.cu"},
        {"role": "tool", "tool_call_id": "2", "content": "b.cu"},
        {"role": "assistant", "content": "Two files."},
    ]


@settings(max_examples=30)
@given(st.text())
def test_any_text_comes_back(text: str):
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == text


def test_phrases_and_marks_are_one_token_each():
    assert len(TOKENIZER.encode("int i = blockIdx.x;")) == 1
    assert len(TOKENIZER.encode("<tool_call>")) == 1
    assert len(TOKENIZER) <= 512 + 1


@pytest.mark.parametrize("arguments", ['{"command": "ls"}', {"command": "ls"}])
def test_the_template_writes_tools_calls_and_results(arguments: str | dict[str, str]):
    text = TOKENIZER.apply_chat_template(
        conversation(arguments), tools=TOOLS, tokenize=False, add_generation_prompt=True
    )
    assert '"name": "bash"' in text.split("<|im_end|>")[0]
    assert f"<|im_start|>assistant\nI look.\n{CALL}<|im_end|>\n" in text
    results = "<tool_response>\na.cu\n</tool_response>\n<tool_response>\nb.cu\n</tool_response>"
    assert f"<|im_start|>user\n{results}<|im_end|>\n" in text
    assert text.endswith("<|im_start|>assistant\nTwo files.<|im_end|>\n<|im_start|>assistant\n")


def test_the_template_marks_what_the_assistant_wrote():
    found = TOKENIZER.apply_chat_template(
        conversation('{"command": "ls"}'), tools=TOOLS, return_dict=True, return_assistant_tokens_mask=True
    )
    written = [token for token, mark in zip(found["input_ids"], found["assistant_masks"], strict=True) if mark]
    assert TOKENIZER.decode(written) == f"I look.\n{CALL}<|im_end|>Two files.<|im_end|>"


def test_the_next_prompt_goes_on_from_the_last_answer():
    messages = conversation('{"command": "ls"}')
    asked = TOKENIZER.apply_chat_template(messages[:2], tools=TOOLS, tokenize=False, add_generation_prompt=True)
    later = TOKENIZER.apply_chat_template(messages[:5], tools=TOOLS, tokenize=False, add_generation_prompt=True)
    assert later.startswith(f"{asked}I look.\n{CALL}<|im_end|>")


def test_the_same_arguments_write_the_same_policy(tmp_path: Path):
    hashes = [
        read_hashes(write_tiny_policy(tmp_path / name, vocabulary=512, seed=s))
        for name, s in zip("abc", (0, 0, 1), strict=True)
    ]
    assert hashes[0] == hashes[1]
    assert hashes[0].weights != hashes[2].weights
    assert hashes[0].tokenizer_sha256 == hashes[2].tokenizer_sha256


def test_the_tokenizer_survives_the_disk(tiny_folder: Path):
    policy = load_policy(tiny_folder)
    text = "__global__ void scale(float* x) {}"
    assert policy.tokenizer.encode(text) == tiny_tokenizer(512).encode(text)
    assert policy.base.config.eos_token_id == policy.tokenizer.convert_tokens_to_ids("<|im_end|>")

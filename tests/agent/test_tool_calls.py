"""Tool calls as models really write them."""

from __future__ import annotations

import json

import pytest

from agent.tool_calls import parse_errors, understand
from agent.tools.base import FunctionTool

TOOLS = {"Read": FunctionTool("Read", "", {"path": {"type": "string"}}, lambda path: path, ("path",))}


def message(*calls):
    sent = [{"id": i, "type": "function", "function": {"name": name, "arguments": text}} for i, name, text in calls]
    return {"role": "assistant", "content": "", "tool_calls": sent}


def test_a_good_call_is_parsed_and_goes_back_byte_by_byte():
    sent = message(("a", "Read", '{"path":  "x" }'))
    back, (call,) = understand(sent, 1, TOOLS)
    assert back == sent
    assert (call.id, call.arguments, call.problem) == ("a", {"path": "x"}, "")


def test_an_answer_without_calls_has_no_empty_list_of_them():
    back, calls = understand({"role": "assistant", "content": "done", "tool_calls": []}, 1, TOOLS)
    assert back == {"role": "assistant", "content": "done"}
    assert calls == []


def test_missing_and_repeated_ids_are_replaced():
    back, calls = understand(message(("", "Read", "{}"), ("a", "Read", "{}"), ("a", "Read", "{}")), 4, TOOLS)
    ids = [call["id"] for call in back["tool_calls"]]
    assert ids == [call.id for call in calls] == ["call_4_0", "a", "call_4_2"]


@pytest.mark.parametrize("text", ['{"path": ', "path=x", "[1]", '"x"', "null"])
def test_arguments_that_are_no_object_are_told_and_go_back_as_valid_json(text):
    back, (call,) = understand(message(("a", "Read", text)), 1, TOOLS)
    assert call.problem
    assert call.arguments == {"_raw": text}
    assert json.loads(back["tool_calls"][0]["function"]["arguments"]) == {}


def test_no_arguments_at_all_mean_none():
    _, (call,) = understand(message(("a", "Read", "")), 1, TOOLS)
    assert (call.arguments, call.problem) == ({}, "")


def test_an_answer_cut_at_the_output_limit_is_named_as_the_cause():
    _, (call,) = understand(message(("a", "Read", '{"path": "x')), 1, TOOLS, cut=True)
    assert "cut off at the output limit" in call.problem


def test_an_unknown_tool_is_told_which_there_are():
    _, (call,) = understand(message(("a", "Browse", '{"url": "x"}')), 1, TOOLS)
    assert call.problem == "There is no tool 'Browse'. The tools are: Read."
    assert call.arguments == {"url": "x"}


def test_what_could_not_be_understood_is_kept_as_it_was_written():
    _, calls = understand(
        message(("a", "Read", '{"path": '), ("b", "Read", "{}"), ("c", "Browse", '{"url": "x"}')), 1, TOOLS
    )
    errors = parse_errors(calls)
    assert [(error["call_id"], error["raw"]) for error in errors] == [("a", '{"path": '), ("c", '{"url": "x"}')]
    assert errors[1]["problem"] == calls[2].problem


def test_what_a_provider_put_on_a_call_goes_back_with_it():
    sent = message(("", "Read", "{}"))
    sent["tool_calls"][0]["provider_specific_fields"] = {"thought_signature": "s"}
    back, _ = understand(sent, 1, TOOLS)
    assert back["tool_calls"][0]["provider_specific_fields"] == {"thought_signature": "s"}

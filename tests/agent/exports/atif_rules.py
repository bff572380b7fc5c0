"""What the published models of ATIF 1.8 demand of a document, for where their package is not installed."""

from __future__ import annotations

from datetime import datetime
from typing import Any

_KEYS = {
    "document": "schema_version session_id trajectory_id agent steps notes final_metrics continued_trajectory_ref extra "
    "subagent_trajectories",
    "agent": "name version model_name tool_definitions extra",
    "step": "step_id timestamp source model_name reasoning_effort message reasoning_content tool_calls observation metrics "
    "is_copied_context llm_call_count extra",
    "tool_call": "tool_call_id function_name arguments extra",
    "result": "source_call_id content subagent_trajectory_ref extra",
    "metrics": "prompt_tokens completion_tokens cached_tokens cost_usd prompt_token_ids completion_token_ids logprobs extra",
    "final_metrics": "total_prompt_tokens total_completion_tokens total_cached_tokens total_cost_usd total_steps extra",
}
_AGENTS_ONLY = {"model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics"}


def assert_follows_the_rules(document: dict[str, Any]) -> None:
    """Fail where the published models would refuse it."""
    _only(document, "document")
    _only(document["agent"], "agent")
    _only(document["final_metrics"], "final_metrics")
    assert document["schema_version"] == "ATIF-v1.8"
    assert isinstance(document["agent"]["name"], str)
    assert isinstance(document["agent"]["version"], str)
    assert [step["step_id"] for step in document["steps"]] == list(range(1, len(document["steps"]) + 1))
    assert document["steps"]
    for step in document["steps"]:
        _step(step)


def _step(step: dict[str, Any]) -> None:
    _only(step, "step")
    assert isinstance(step["message"], str)
    assert step["source"] in ("system", "user", "agent")
    assert step["source"] == "agent" or not _AGENTS_ONLY & step.keys()
    if "timestamp" in step:
        datetime.fromisoformat(step["timestamp"])
    for call in step.get("tool_calls", ()):
        _only(call, "tool_call")
        assert isinstance(call["arguments"], dict)
    made = {call["tool_call_id"] for call in step.get("tool_calls", ())}
    for result in step.get("observation", {"results": []})["results"]:
        _only(result, "result")
        assert isinstance(result["content"], str)
        assert "source_call_id" not in result or result["source_call_id"] in made
    metrics = step.get("metrics", {})
    _only(metrics, "metrics")
    assert all(isinstance(value, float | int) for value in metrics.get("logprobs", ()))


def _only(record: dict[str, Any], kind: str) -> None:
    assert record.keys() <= set(_KEYS[kind].split()), kind
    assert None not in record.values(), kind

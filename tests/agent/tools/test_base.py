import errno
from pathlib import Path

import pytest

from agent.tools.base import LONGEST_ANSWER, FunctionTool, ToolProblem, clipped
from sandbox.errors import EnvironmentFault

from .conftest import Hands


def test_a_short_answer_stays_whole() -> None:
    result = clipped("short")
    assert (result.text, result.full) == ("short", None)


def test_a_long_answer_keeps_whole_lines_of_both_ends_and_says_what_is_missing() -> None:
    text = "\n".join(f"line {number}" for number in range(10_000))
    result = clipped(text, ok=False)
    assert not result.ok
    assert result.full == text
    assert len(result.text) < LONGEST_ANSWER + 200
    head, note, tail = result.text.partition("\n[... ")
    count = int(note and tail.split()[0].replace(",", ""))
    kept = [*head.splitlines(), *tail.partition("...]\n")[2].splitlines()]
    assert len(kept) + count in (10_000, 10_001)
    assert set(kept) <= set(text.splitlines())
    assert (kept[0], kept[-1]) == ("line 0", "line 9999")


def test_one_endless_line_is_cut_too() -> None:
    assert len(clipped("x" * 1_000_000).text) < LONGEST_ANSWER + 200


async def test_wrong_arguments_are_answered_and_nothing_is_run() -> None:
    tool = FunctionTool("Cut", "Cuts.", {"path": {"type": "string"}}, lambda path: 1 / 0, ("path",))
    result = await tool.run({})
    assert (result.ok, result.text) == (False, "Cut was not run: 'path' is missing. It is of type string")


async def test_a_problem_is_an_answer_and_a_full_disk_is_not() -> None:
    def refuse(kind: str) -> str:
        if kind == "problem":
            raise ToolProblem("not like this")
        raise OSError(errno.ENOSPC if kind == "full" else errno.EIO, "trouble")

    tool = FunctionTool("Cut", "Cuts.", {"kind": {"type": "string"}}, refuse)
    assert (await tool.run({"kind": "problem"})).text == "not like this"
    assert (await tool.run({"kind": "broken"})).text == "Cut failed: trouble."
    with pytest.raises(EnvironmentFault, match="disk is full"):
        await tool.run({"kind": "full"})


def test_every_schema_describes_itself_to_a_model(hands: Hands) -> None:
    names = "Bash BashOutput KillBash Read Write Edit MultiEdit Glob Grep NotebookEdit TodoWrite"
    assert sorted(hands.tools) == sorted(names.split())
    for name, tool in hands.tools.items():
        assert tool.schema["name"] == name
        assert len(tool.schema["description"]) > 20
        parameters = tool.schema["parameters"]
        assert parameters["additionalProperties"] is False
        assert set(parameters["required"]) <= set(parameters["properties"])
        assert all(each.get("description") for each in parameters["properties"].values())
    assert {name for name, tool in hands.tools.items() if tool.read_only} == {"Read", "Glob", "Grep"}


async def test_the_plan_is_passed_on(hands: Hands, tmp_path: Path) -> None:
    plan = [{"content": "measure", "status": "completed"}, {"content": "fuse", "status": "in_progress"}]
    assert await hands.done("TodoWrite", todos=plan) == "The plan has 2 items, 1 completed."
    assert "one item" in await hands.refused("TodoWrite", todos=[{**each, "status": "in_progress"} for each in plan])
    assert "todos[0].status" in await hands.refused("TodoWrite", todos=[{"content": "x", "status": "done"}])
    assert hands.plans == [plan]

"""TodoWrite: the agent's plan, which the developer watches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agent.tools.base import FunctionTool, Tool, ToolProblem

STATUSES = ("pending", "in_progress", "completed")


def todo_tool(on_todo: Callable[[list[dict[str, str]]], None]) -> Tool:
    """Return the tool; ``on_todo`` is told the whole plan each time, in the thread of the caller."""

    async def write(todos: list[dict[str, str]]) -> str:
        if sum(each["status"] == "in_progress" for each in todos) > 1:
            raise ToolProblem("Only one item can be in_progress at a time; the plan was not changed.")
        on_todo(todos)
        done = sum(each["status"] == "completed" for each in todos)
        return f"The plan has {len(todos)} items, {done} completed."

    item: dict[str, Any] = {
        "type": "object",
        "properties": {
            "content": {"type": "string", "minLength": 1, "description": "What is to be done, in a few words."},
            "status": {"type": "string", "enum": list(STATUSES), "description": "At most one item is in_progress."},
        },
        "required": ["content", "status"],
        "additionalProperties": False,
    }
    todos = {"type": "array", "items": item, "description": "The whole plan, in order; it replaces the one before."}
    description = (
        "Write down your plan, or bring it up to date, for work of three steps and more. The developer sees it. "
        "Mark an item in_progress when you begin it and completed as soon as it is done."
    )
    return FunctionTool("TodoWrite", description, {"todos": todos}, write, ("todos",))

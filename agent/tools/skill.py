"""The Skill tool: a skill's instructions, or one of its reference files, on demand."""

from __future__ import annotations

from typing import Any

from agent.skills import Skills
from agent.tools.base import FunctionTool, Tool, ToolProblem


def skill_tool(skills: Skills) -> Tool:
    """Return the tool; it reads the skills and the files they list, and nothing else."""

    def read(name: str, file: str = "") -> str:
        try:
            skill = skills.named(name)
        except KeyError as error:
            raise ToolProblem(f"There is no skill '{name}' any more.") from error
        if not file:
            files = "".join(f"\n- {path}" for path in skill.resources)
            return f"{skill.body}\n\nFiles of this skill:{files}" if files else skill.body
        try:
            return skill.read(file)
        except KeyError as error:
            known = ", ".join(skill.resources) or "none"
            raise ToolProblem(f"Skill '{name}' has no file '{file}'. It has: {known}.") from error
        except ValueError as error:
            raise ToolProblem(f"Skill '{name}' cannot be read: {error}.") from error

    example = next((f", such as {skill.resources[-1]}" for skill in skills.all if skill.resources), "")
    parameters: dict[str, Any] = {
        "name": {"type": "string", "enum": [skill.name for skill in skills.all]},
        "file": {"type": "string", "description": f"A file of the skill{example}."},
    }
    description = "Read a skill's instructions, or one of the files it names."
    return FunctionTool("Skill", description, parameters, read, ("name",), read_only=True)

"""The Skill tool: a skill's instructions, or one of its reference files, on demand."""

from __future__ import annotations

from typing import Any

from agent.skills import Skill, Skills
from agent.tools.base import FunctionTool, Tool, ToolProblem


def skill_tool(skills: Skills) -> Tool:
    """Return the tool; it reads the skills and the files they list, and nothing else."""

    def read(name: str, file: str = "") -> str:
        skill, file = _meant(skills, name, file)
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
        "name": {"type": "string", "description": f"The skill: {_names(skills)}."},
        "file": {"type": "string", "description": f"A file of the skill{example}."},
    }
    description = "Read a skill's instructions, or one of the files it names."
    return FunctionTool("Skill", description, parameters, read, ("name",), read_only=True)


def _meant(skills: Skills, name: str, file: str) -> tuple[Skill, str]:
    """Return the skill and the file that a call means, also where it names a file, or skill/file, in place of the skill."""
    first, _, rest = name.partition("/")
    for skill in skills.all:
        if name == skill.name:
            return skill, file
        if not file and first == skill.name and rest:
            return skill, rest
    owners = [skill for skill in skills.all if name in skill.resources and not file]
    if len(owners) != 1:
        raise ToolProblem(f"There is no skill '{name}'. There is: {_names(skills)}. A file of one goes into 'file'.")
    return owners[0], name


def _names(skills: Skills) -> str:
    return ", ".join(skill.name for skill in skills.all)

"""The Skill tool: a skill's instructions, or one of its reference files, on demand."""

from __future__ import annotations

from typing import Any

from agent.skills import Skills
from agent.tools.base import ToolResult


class SkillTool:
    """Reads skills; see ``agent.tools.base.Tool``."""

    name = "Skill"
    read_only = True

    def __init__(self, skills: Skills) -> None:
        self._skills = skills
        self.schema: dict[str, Any] = {
            "name": self.name,
            "description": "Read a skill's instructions, or one of the files it names.",
            "parameters": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "enum": [skill.name for skill in skills.all]},
                    "file": {"type": "string", "description": "A file of the skill, such as references/reductions.md."},
                },
                "required": ["name"],
            },
        }

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Return the body with the list of files, or one file."""
        skill = self._skills.named(arguments["name"])
        if not arguments.get("file"):
            files = "\n".join(f"- {path}" for path in skill.resources)
            return ToolResult(ok=True, text=f"{skill.body}\n\nFiles of this skill:\n{files}" if files else skill.body)
        try:
            return ToolResult(ok=True, text=skill.read(arguments["file"]))
        except KeyError:
            known = ", ".join(skill.resources) or "none"
            return ToolResult(
                ok=False, text=f"Skill '{skill.name}' has no file '{arguments['file']}'. It has: {known}."
            )

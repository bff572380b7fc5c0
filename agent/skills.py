"""Skills in the open Agent Skills form: a folder with ``SKILL.md``, its front matter, and references beside it.

What is disclosed grows with need: name and description of every skill in the system prompt, the body of the main one
with them, everything else through the ``Skill`` tool.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

SKILLS = Path(__file__).parent.parent / "skills"
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_DEEPEST = 4
_MOST_FILES = 100


@dataclass(frozen=True)
class Skill:
    """One skill. ``body`` is what follows the front matter; ``resources`` are its other files, relative to ``folder``."""

    name: str
    description: str
    body: str
    folder: Path
    resources: tuple[str, ...]
    main: bool = False

    def read(self, resource: str) -> str:
        """Return a resource's text.

        Raises:
            KeyError: The skill has no such resource.
        """
        if resource not in self.resources:
            raise KeyError(resource)
        return (self.folder / resource).read_text(errors="replace")


@dataclass(frozen=True)
class Skills:
    """Every skill found, by name, and what was wrong with those found (``path: what``)."""

    all: tuple[Skill, ...]
    problems: tuple[str, ...]

    @property
    def main(self) -> Skill | None:
        """The skill that guides every session: the one whose metadata says ``main: "true"``."""
        return next((skill for skill in self.all if skill.main), None)

    def named(self, name: str) -> Skill:
        """Return a skill by name; ``KeyError`` if there is none."""
        return next(skill for skill in self.all if skill.name == name)


def load_skills(folders: Sequence[Path] = (SKILLS,)) -> Skills:
    """Load every skill below these folders; of two with one name the first counts.

    A wrong name is reported and the skill is loaded all the same; without a description, or with front matter that does
    not parse, it is reported and left out.
    """
    skills: dict[str, Skill] = {}
    problems: list[str] = []
    for path in (path for folder in folders for path in sorted(folder.glob("*/SKILL.md"))):
        try:
            skill, complaints = _load(path)
        except ValueError as error:
            problems.append(f"{path}: {error}; it was left out")
            continue
        problems += [f"{path}: {complaint}" for complaint in complaints]
        if skill.name in skills:
            problems.append(f"{path}: another skill is called '{skill.name}'; it was left out")
            continue
        skills[skill.name] = skill
    return Skills(tuple(skills.values()), tuple(problems))


def _load(path: Path) -> tuple[Skill, list[str]]:
    text = path.read_text(errors="replace")
    match = re.match(r"---\s*\n(.*?)\n---\s*(?:\n|\Z)(.*)", text, re.DOTALL)
    if not match:
        raise ValueError("there is no front matter between lines of '---'")
    data = _front_matter(match[1])
    name, description = data.get("name"), data.get("description")
    if not isinstance(description, str) or not description.strip():
        raise ValueError("the description is missing")
    metadata = data.get("metadata")
    skill = Skill(
        name=str(name or path.parent.name),
        description=" ".join(description.split()),
        body=match[2].strip(),
        folder=path.parent,
        resources=_resources(path.parent),
        main=isinstance(metadata, dict) and str(metadata.get("main", "")).lower() == "true",
    )
    return skill, list(_complaints(skill, data))


def _front_matter(text: str) -> dict[str, Any]:
    """Parse front matter, once more with plain values quoted where a colon in one breaks it."""
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError:
        quoted = re.sub(r"^(\w[\w-]*): +(?![\"'|>\[{])(.*)$", lambda m: f"{m[1]}: {_quoted(m[2])}", text, flags=re.M)
        try:
            data = yaml.safe_load(quoted)
        except yaml.YAMLError as error:
            raise ValueError(f"the front matter does not parse: {error}") from error
    if not isinstance(data, dict):
        raise ValueError("the front matter is not a mapping")
    return data


def _quoted(value: str) -> str:
    return "'" + value.strip().replace("'", "''") + "'"


def _complaints(skill: Skill, data: dict[str, Any]) -> list[str]:
    found = []
    if skill.name != skill.folder.name or len(skill.name) > 64 or not _NAME.fullmatch(skill.name):
        found.append(
            f"the name '{skill.name}' must equal the folder's, in lower-case letters, digits and single hyphens"
        )
    if len(skill.description) > 1024:
        found.append("the description is longer than 1,024 characters")
    if len(str(data.get("compatibility", ""))) > 500:
        found.append("the compatibility is longer than 500 characters")
    metadata = data.get("metadata", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        found.append("the metadata must map strings to strings")
    return found


def _resources(folder: Path) -> tuple[str, ...]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "SKILL.md")
    relative = (path.relative_to(folder) for path in files if path.resolve().is_relative_to(folder.resolve()))
    shown = (path.as_posix() for path in relative if len(path.parts) <= _DEEPEST and "__pycache__" not in path.parts)
    return tuple(shown)[:_MOST_FILES]

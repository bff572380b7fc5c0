"""Skills in the open Agent Skills form: a folder with ``SKILL.md``, its front matter, and references beside it.

What is disclosed grows with need: name and description of every skill in the system prompt, the body of the main one
with them, everything else through the ``Skill`` tool.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

SKILLS = Path(__file__).parent.parent / "skills"
SKILL_FILE = "SKILL.md"
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_DEEPEST = 4
_MOST_FILES = 100
_MOST_SKILLS = 64
_LARGEST = 256 * 1024


@dataclass(frozen=True)
class Skill:
    """One skill.

    Attributes:
        body: What follows the front matter.
        resources: Its other files, relative to ``folder``.
        main: Whether its body is in every system prompt.
        sha256: Hash of all its files as they were loaded.
    """

    name: str
    description: str
    body: str
    folder: Path
    resources: tuple[str, ...]
    main: bool = False
    sha256: str = ""

    @property
    def told(self) -> str:
        """The body as the agent is told it, with the names of the other files."""
        names = ", ".join(self.resources)
        files = (
            f"\n\nFiles of this skill (read one with Skill: name {self.name}, file as here): {names}" if names else ""
        )
        return f'<skill name="{self.name}">\n{self.body}{files}\n</skill>'

    def read(self, resource: str) -> str:
        """Return a resource's text.

        Raises:
            KeyError: The skill has no such resource.
            ValueError: Its files are no longer those that were loaded, and perhaps trusted.
        """
        if resource not in self.resources:
            raise KeyError(resource)
        if content_sha256(self.folder) != self.sha256:
            raise ValueError("its files have changed since the session began")
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
        found = next((skill for skill in self.all if skill.name == name), None)
        if found is None:
            raise KeyError(name)
        return found

    def asked_for(self, text: str) -> Skill | None:
        """Return the skill that the developer names at the start of what they say, as ``/name``."""
        match = re.match(r"/([a-z0-9-]+)(?:\s|$)", text)
        return next((skill for skill in self.all if match and skill.name == match[1]), None)


def load_skills(folders: Sequence[Path] = (SKILLS,), refuse: Callable[[Path], str] = lambda _: "") -> Skills:
    """Load every skill below these folders; of two with one name the first counts.

    A wrong name is reported and the skill is loaded all the same; without a description, or with front matter that does
    not parse, it is reported and left out.

    Args:
        folders: Where to look, a few folders deep, those that win first.
        refuse: Returns why the skill in a folder is left out, or an empty text.
    """
    skills: dict[str, Skill] = {}
    problems: list[str] = []
    for path in (path for folder in folders for path in skill_files(folder)):
        if reason := refuse(path.parent):
            problems.append(f"{path}: {reason}")
            continue
        if len(skills) == _MOST_SKILLS:
            problems.append(f"{path}: there are more than {_MOST_SKILLS} skills; it was left out")
            break
        try:
            skill, complaints = _load(path)
        except ValueError as error:
            problems.append(f"{path}: {error}; it was left out")
            continue
        problems += [f"{path}: {complaint}" for complaint in complaints]
        if skill.name in skills:
            problems.append(
                f"{path}: another skill is called '{skill.name}'; it was left out for {skills[skill.name].folder}"
            )
            continue
        skills[skill.name] = skill
    return Skills(tuple(skills.values()), tuple(problems))


def content_sha256(folder: Path) -> str:
    """Return a hash of a skill's files, their names and contents; links count as what they lead to."""
    whole = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        whole.update(f"{path.relative_to(folder).as_posix()}\0{content}\n".encode(errors="surrogateescape"))
    return whole.hexdigest()


def validate(folder: Path) -> list[str]:
    """Return what is wrong with the skill in a folder, by the published rules."""
    try:
        return _load(folder / SKILL_FILE)[1]
    except OSError as error:
        return [f"SKILL.md cannot be read: {error.strerror}"]
    except ValueError as error:
        return [str(error)]


def skill_files(folder: Path) -> Iterator[Path]:
    """Yield every ``SKILL.md`` a few folders deep, none below another and none through a link."""
    if not folder.is_dir():
        return
    for place, below, files in os.walk(folder):
        depth = len(Path(place).relative_to(folder).parts)
        if SKILL_FILE in files and depth:
            below.clear()
            yield Path(place) / SKILL_FILE
        below[:] = sorted(name for name in below if not name.startswith(".")) if depth < _DEEPEST else []


def _load(path: Path) -> tuple[Skill, list[str]]:
    if path.stat().st_size > _LARGEST:
        raise ValueError(f"it is larger than {_LARGEST:,} bytes")
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
        sha256=content_sha256(path.parent),
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
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != SKILL_FILE)
    relative = (path.relative_to(folder) for path in files if path.resolve().is_relative_to(folder.resolve()))
    shown = (path.as_posix() for path in relative if len(path.parts) <= _DEEPEST and "__pycache__" not in path.parts)
    return tuple(shown)[:_MOST_FILES]

"""Where skills are found: the project's, the developer's and ours, in this order; a project's only once it is trusted."""

from __future__ import annotations

import json
from pathlib import Path

import platformdirs

from agent.skills import SKILLS, Skills, content_sha256, load_skills, skill_files
from agent.store import write_atomically
from sandbox.task import TaskSpec

TRUSTED = "trusted_skills.json"


class SkillTrust:
    """Which skills of projects the developer trusts: by folder, as their files were then.

    Args:
        home: The folder of the developer's data (``Settings.home``).
    """

    def __init__(self, home: Path) -> None:
        self._file = home / TRUSTED

    def has(self, folder: Path) -> bool:
        """Whether the skill in a folder is trusted as it is now."""
        return self._read().get(str(folder.resolve())) == content_sha256(folder)

    def give(self, folder: Path, sha256: str = "") -> None:
        """Trust the skill in a folder as it is now, or as it was when its files had this hash."""
        self._write({**self._read(), str(folder.resolve()): sha256 or content_sha256(folder)})

    def take(self, folder: Path) -> None:
        """Trust it no more."""
        self._write({place: sha for place, sha in self._read().items() if place != str(folder.resolve())})

    def refusal(self, folder: Path) -> str:
        """Return why a project's skill is left out, with the way out; empty for one that is trusted."""
        known = str(folder.resolve()) in self._read()
        if known and self.has(folder):
            return ""
        what = "it has changed since you trusted it" if known else "a project's skill tells the agent what to do"
        return (
            f"{what}, so it is left out until you have read it and say (K in the IDE): warpsmith skills trust {folder}"
        )

    def _read(self) -> dict[str, str]:
        try:
            data = json.loads(self._file.read_text())
        except (OSError, ValueError):
            return {}
        return data if isinstance(data, dict) else {}

    def _write(self, data: dict[str, str]) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self._file, json.dumps(data, indent=1).encode())


def skill_folders(project: Path) -> dict[str, list[Path]]:
    """Return the folders that are looked in, by scope, those that win first."""
    return {
        "project": [project / ".warpsmith" / "skills", project / ".agents" / "skills"],
        "user": [Path(platformdirs.user_config_dir("warpsmith")) / "skills", Path.home() / ".agents" / "skills"],
        "built-in": [SKILLS],
    }


def find_skills(home: Path, project: Path) -> Skills:
    """Load the skills that a session in a project has."""
    trust, folders = SkillTrust(home), skill_folders(project)

    def refuse(folder: Path) -> str:
        theirs = any(folder.is_relative_to(place) for place in folders["project"])
        return trust.refusal(folder) if theirs else ""

    return load_skills([place for scope in folders.values() for place in scope], refuse)


def left_out(home: Path, project: Path) -> dict[Path, str]:
    """Return the folders of a project's skills that are not trusted as they are now, with the hashes of their files."""
    trust = SkillTrust(home)
    found = [path.parent for place in skill_folders(project)["project"] for path in skill_files(place)]
    return {folder: content_sha256(folder) for folder in found if trust.refusal(folder)}


def scope_of(folder: Path, project: Path) -> str:
    """Return the scope that a skill's folder belongs to: project, user or built-in."""
    folders = skill_folders(project)
    return next(scope for scope, places in folders.items() if any(folder.is_relative_to(place) for place in places))


def project_of(spec: TaskSpec) -> Path:
    """Return the folder of a task's project; see ``project_above``."""
    return project_above(spec.root if spec.kind == "module" else spec.path.parent)


def project_above(folder: Path) -> Path:
    """Return the nearest folder with a repository or with settings of ours, below the developer's home; else this one."""
    above = [folder, *folder.parents]
    below_home = above[: above.index(Path.home())] if Path.home() in above else above
    return next((f for f in below_home if (f / ".git").exists() or (f / "warpsmith.toml").exists()), folder)

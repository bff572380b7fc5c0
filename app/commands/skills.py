"""List skills, validate one, and say which of a project's are trusted.

warpsmith skills                  list those that a session in this folder has, and what is wrong with those left out
warpsmith skills validate FOLDER  check a skill by the published rules of Agent Skills
warpsmith skills trust FOLDER     let the agent read a project's skill, or all below a folder, as they are now
warpsmith skills distrust FOLDER  and no more

The project's lie in .warpsmith/skills and .agents/skills, yours in the settings' folder and in ~/.agents/skills. A skill tells
the agent what to do: read one before you trust it. One that changes has to be trusted again.
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from agent.skill_places import SkillTrust, find_skills, project_above, scope_of
from agent.skills import SKILL_FILE, skill_files, validate
from app.commands.options import settings_from
from sandbox.errors import ExitCode, UsageError


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.set_defaults(action=list_all)
    shared = argparse.ArgumentParser(add_help=False)
    for target in (parser, shared):
        target.add_argument("--home", metavar="DIR", default=argparse.SUPPRESS, help="where sessions are kept")
        target.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON")
    actions = parser.add_subparsers(metavar="ACTION")
    actions.add_parser("list", parents=[shared]).set_defaults(action=list_all)
    for name, action in (("validate", check), ("trust", trust), ("distrust", distrust)):
        each = actions.add_parser(name, parents=[shared])
        each.set_defaults(action=action)
        each.add_argument("folder", type=Path, metavar="FOLDER", help="a skill, or a folder of skills")


def main(options: argparse.Namespace) -> int:
    """Do what was asked."""
    options.json = getattr(options, "json", False)
    return int(options.action(options))


def list_all(options: argparse.Namespace) -> ExitCode:
    """Print a line a skill, and on stderr what was left out."""
    project = project_above(Path.cwd())
    found = find_skills(settings_from(options).home, project)
    rows = [
        {"name": s.name, "scope": scope_of(s.folder, project), "description": s.description, "folder": str(s.folder)}
        for s in found.all
    ]
    if options.json:
        print(json.dumps({"skills": rows, "problems": list(found.problems)}))
        return ExitCode.OK
    for each in rows:
        print(f"{each['name']:24} {each['scope']:9} {textwrap.shorten(each['description'], 90, placeholder=' …')}")
    for problem in found.problems:
        print(problem, file=sys.stderr)
    return ExitCode.OK


def check(options: argparse.Namespace) -> ExitCode:
    """Print what is wrong with skills; exit code 1 if anything is."""
    problems = {str(folder): validate(folder) for folder in _skills_in(options.folder)}
    if options.json:
        print(json.dumps(problems))
    else:
        for folder, found in problems.items():
            print("\n".join([f"{folder}: {complaint}" for complaint in found] or [f"{folder}: valid"]))
    return ExitCode.FAILED if any(problems.values()) else ExitCode.OK


def trust(options: argparse.Namespace) -> ExitCode:
    """Trust skills as they are now."""
    given = SkillTrust(settings_from(options).home)
    folders = _skills_in(options.folder)
    for folder in folders:
        given.give(folder)
    _tell(folders, "trusted as it is now", as_json=options.json)
    return ExitCode.OK


def distrust(options: argparse.Namespace) -> ExitCode:
    """Trust skills no more."""
    given = SkillTrust(settings_from(options).home)
    folders = _skills_in(options.folder)
    for folder in folders:
        given.take(folder)
    _tell(folders, "no longer trusted", as_json=options.json)
    return ExitCode.OK


def _tell(folders: Sequence[Path], what: str, *, as_json: bool) -> None:
    print(json.dumps([str(f) for f in folders]) if as_json else "\n".join(f"{folder}: {what}" for folder in folders))


def _skills_in(folder: Path) -> list[Path]:
    """Return the skill in a folder, or all below it.

    Raises:
        UsageError: There is none.
    """
    folder = folder.resolve()
    if (folder / SKILL_FILE).is_file():
        return [folder]
    found = [path.parent for path in skill_files(folder)]
    if not found:
        raise UsageError(f"There is no {SKILL_FILE} in it.", where=str(folder), next_step="Name the folder of a skill.")
    return found

"""The index of what has landed in a project, ``.warpsmith/landed.toml``: what a colleague's clone needs to judge it again.

Every line names its landing and stands for itself, in sorted order, so that git can keep the lines of both sides when
two branches land something; ``.warpsmith/.gitattributes`` tells it to. Lines that are none of ours stay as they are.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from agent.landing.change import FileChange
from agent.landing.kept import Kept
from agent.landing.write import read
from sandbox.errors import LandingRefused, UsageError
from sandbox.target import locate

FOLDER = ".warpsmith"
INDEX = "landed.toml"
ATTRIBUTES = ".gitattributes"
_ATTRIBUTES = b"landed.toml text eol=lf merge=union\n"
_HEADER = "# What Warpsmith landed here; warpsmith landed lists it. Each line stands for itself: merges keep both sides' lines."
_PROJECT_FILES = ("warpsmith.toml", "pyproject.toml", "setup.py", "setup.cfg")


def project_root(path: Path) -> Path:
    """Return the project that a file or folder belongs to: the nearest folder above with an index or a repository.

    Without either it is the nearest with a project's file, and at last the folder that the file is imported from.
    """
    start = path if path.is_dir() else path.parent
    above = (start, *start.parents)
    for folder in above:
        if (folder / FOLDER).is_dir() or (folder / ".git").exists():
            return folder
    found = next((each for each in above if any((each / name).is_file() for name in _PROJECT_FILES)), None)
    return found or (start if path.is_dir() else locate(path)[0])


def read_index(project: Path) -> dict[str, Kept]:
    """Return what a project's index holds, by name.

    Raises:
        UsageError: It does not parse, or an entry lacks something.
    """
    path = project / FOLDER / INDEX
    try:
        data = tomllib.loads((read(path) or b"").decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        next_step = "Keep one line of each key, and no marks of a merge."
        raise UsageError(
            f"The index of landings does not parse: {error}.", where=str(path), next_step=next_step
        ) from error
    found = {}
    for name, values in sorted(data.items()):
        try:
            found[name] = Kept.from_json(name, values)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            what = f"The index of landings holds nothing usable of {name} ({error})."
            raise UsageError(what, where=str(path), next_step="Land it again, or take its lines out.") from error
    return found


def find(entries: Mapping[str, Kept], name: str, project: Path) -> Kept:
    """Return the landing of a name: whole, its class, or the end of its path.

    Raises:
        UsageError: None or several are called so.
    """
    fits = [each for each in entries.values() if name in (each.name, each.class_name) or each.name.endswith(f"/{name}")]
    fits = [each for each in fits if each.name == name] or fits
    if len(fits) == 1:
        return fits[0]
    where = str(project / FOLDER / INDEX)
    if fits:
        several = ", ".join(each.name for each in fits)
        raise UsageError(
            f"'{name}' fits {len(fits)} landings: {several}.", where=where, next_step="Give the whole name."
        )
    known = f"There are: {', '.join(entries)}." if entries else "Nothing has landed here."
    raise UsageError(f"No landing is called '{name}'.", where=where, next_step=known)


def noted(project: Path, name: str, lines: Sequence[str]) -> list[FileChange]:
    """Return the changes that make the index hold these lines of a landing, and no other ones of it.

    Raises:
        LandingRefused: The index is no plain file, or no text.
    """
    folder = project / FOLDER
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        what = f"{FOLDER} is not a folder of the project, and the index of landings goes there."
        raise LandingRefused(what, where=str(folder), next_step="Move it away, then land again.")
    index, attributes = folder / INDEX, folder / ATTRIBUTES
    before, marked = read(index), read(attributes)
    after = _with_lines(before, name, lines, index)
    changes = [FileChange(index, before, after)] if after != before else []
    if after is not None and marked is None:
        changes.append(FileChange(attributes, None, _ATTRIBUTES))
    elif after is None and marked is not None and marked.replace(b"\r\n", b"\n") == _ATTRIBUTES:
        changes.append(FileChange(attributes, marked, None))
    return changes


def is_index(path: Path) -> bool:
    """Whether a file is the index or belongs to it."""
    return path.parent.name == FOLDER and path.name in (INDEX, ATTRIBUTES)


def lines_of(data: bytes | None, name: str) -> list[str]:
    """Return the lines of a landing in the text of an index."""
    prefix = f"{_key(name)}."
    return [line for line in _split((data or b"").decode()) if line.startswith(prefix)]


def lines_for(kept: Kept) -> list[str]:
    """Return an entry as its lines."""
    return sorted(_lines(_key(kept.name), kept.to_json()))


def _with_lines(before: bytes | None, name: str, lines: Sequence[str], path: Path) -> bytes | None:
    """Return an index with the lines of one landing replaced; None if nothing of ours is left in it."""
    try:
        text = (before or f"{_HEADER}\n".encode()).decode()
    except UnicodeDecodeError as error:
        raise LandingRefused("The index of landings is no text.", where=str(path), next_step="Mend it.") from error
    end = "\r\n" if "\r\n" in text else "\n"
    blocks = [block for block in re.split(r"(?:\r?\n){2,}", text.strip("\r\n")) if block]
    prefix = f"{_key(name)}."
    kept = [end.join(line for line in _split(block) if not line.startswith(prefix)) for block in blocks]
    kept = [block for block in kept if block]
    if lines:
        at = next((n for n, block in enumerate(kept) if block.startswith('"') and block > prefix), len(kept))
        kept.insert(at, end.join(lines))
    if kept in ([], [_HEADER]):
        return None
    return (end * 2).join(kept).encode() + end.encode()


def _split(text: str) -> list[str]:
    """Split at the ends of lines that TOML knows, which are fewer than Python does."""
    return text.replace("\r\n", "\n").split("\n")


def _lines(key: str, value: object) -> list[str]:
    if not isinstance(value, Mapping):
        return [f"{key} = {_value(value)}"]
    return [line for name, item in value.items() for line in _lines(f"{key}.{_key(name)}", item)]


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _value(name)


def _value(value: object) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_key(name)} = {_value(item)}' for name, item in value.items())}}}"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")

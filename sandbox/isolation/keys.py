"""Where developers keep keys: files and folders that no cell has to see, even inside a folder it may read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

_SECRET = re.compile(r"\.env(\..*)?|\.netrc|\.git-credentials|\.npmrc|\.pypirc|\.ssh|\.aws|\.gnupg|.*\.pem|id_rsa.*")


def secrets_in(folders: Iterable[Path]) -> tuple[Path, ...]:
    """Return what to hide in folders a cell may read: keys at their top, and every hidden entry of a home folder inside."""
    found: set[Path] = set()
    for folder in folders:
        if folder.is_dir():
            found.update(_keys(folder), _hidden_in_home(folder))
    return tuple(sorted(found))


def _keys(folder: Path) -> Iterator[Path]:
    """Yield what usually holds keys at the top of a folder; the configuration of its repository may hold a token."""
    yield from (path for path in folder.iterdir() if _SECRET.fullmatch(path.name))
    yield folder / ".git" / "config"


def _hidden_in_home(folder: Path) -> Iterator[Path]:
    home = Path.home()
    if folder.resolve() in (home, *home.parents):
        yield from home.glob(".*")

"""Where developers keep keys: files and folders that no cell has to see, even inside a folder it may read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

_SECRET = re.compile(r"\.env(\..*)?|\.netrc|\.git-credentials|\.npmrc|\.pypirc|\.ssh|\.aws|\.gnupg|.*\.pem|id_rsa.*")


_KEY = re.compile(r"KEYS?|TOKENS?|SECRETS?|PASS|PASSWD|PASSWORDS?|CREDENTIALS?|AUTH|COOKIES?|PAT|APIKEY|DSN")
"""Words of a variable's name that say that its value is nobody else's business."""


def without_keys(variables: Mapping[str, str]) -> dict[str, str]:
    """Return environment variables without those whose names say that they hold keys or passwords."""
    return {name: value for name, value in variables.items() if not any(map(_KEY.fullmatch, name.upper().split("_")))}


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

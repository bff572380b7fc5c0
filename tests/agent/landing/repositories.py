"""Real repositories in every state a developer may have them in, and a picture of all that must not change."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

MODULE = b"import torch\n\nclass Block(torch.nn.Module):\n    def forward(self, x):\n        return x * 2 + 1\n"


def git(folder: Path, *command: str) -> str:
    env = {
        **os.environ,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
        **{f"GIT_{who}_{what}": "dev@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }
    whole = ["git", "-c", "protocol.file.allow=always", *command]
    return subprocess.run(whole, cwd=folder, env=env, check=True, capture_output=True, text=True).stdout


def project(folder: Path) -> Path:
    """A package with a module in it; returns the module's file."""
    (folder / "pkg").mkdir(parents=True)
    (folder / "pkg/__init__.py").write_bytes(b"")
    (folder / "pkg/other.py").write_bytes(b"OTHER = 1\r\n")
    (folder / "pkg/blocks.py").write_bytes(MODULE)
    return folder / "pkg/blocks.py"


def repository(folder: Path) -> Path:
    """The same, committed on ``main``."""
    module = project(folder)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "start")
    return module


def dirty_index(folder: Path) -> Path:
    module = repository(folder)
    (folder / "pkg/other.py").write_bytes(b"STAGED = 1\n")
    (folder / "new.txt").write_bytes(b"new\n")
    git(folder, "add", "pkg/other.py", "new.txt")
    (folder / "pkg/other.py").write_bytes(b"NOT_STAGED = 1\n")
    (folder / "untracked.txt").write_bytes(b"mine\n")
    return module


def with_stash(folder: Path) -> Path:
    module = repository(folder)
    module.write_bytes(MODULE + b"# stashed\n")
    git(folder, "stash")
    return module


def failing_hooks(folder: Path) -> Path:
    module = repository(folder)
    for name in ("pre-commit", "post-checkout", "post-index-change", "reference-transaction", "fsmonitor"):
        hook = folder / ".git/hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text("#!/bin/sh\ntouch hook-ran\nexit 1\n")
        hook.chmod(0o755)
    git(folder, "config", "core.fsmonitor", str(folder / ".git/hooks/fsmonitor"))
    return module


def submodule(folder: Path) -> Path:
    repository(folder / "library")
    repository(folder / "app")
    git(folder / "app", "submodule", "--quiet", "add", str(folder / "library"), "vendored")
    return folder / "app/vendored/pkg/blocks.py"


def worktree(folder: Path) -> Path:
    repository(folder / "main")
    git(folder / "main", "worktree", "add", "-q", "-b", "side", str(folder / "side"))
    return folder / "side/pkg/blocks.py"


def detached(folder: Path) -> Path:
    module = repository(folder)
    git(folder, "checkout", "-q", "--detach")
    return module


def unborn(folder: Path) -> Path:
    module = project(folder)
    git(folder, "init", "-q", "-b", "main")
    return module


def crlf(folder: Path) -> Path:
    module = project(folder)
    module.write_bytes(MODULE.replace(b"\n", b"\r\n"))
    git(folder, "init", "-q", "-b", "main")
    git(folder, "config", "core.autocrlf", "true")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "start")
    return module


def executable(folder: Path) -> Path:
    module = repository(folder)
    module.chmod(0o755)
    return module


KINDS = (
    project,
    repository,
    dirty_index,
    with_stash,
    failing_hooks,
    submodule,
    worktree,
    detached,
    unborn,
    crlf,
    executable,
)


def picture(folder: Path) -> dict[str, tuple[int, str]]:
    """Mode and content of everything below a folder, git's own files included."""
    seen = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        if path.is_symlink():
            content = str(path.readlink())
        else:
            content = "folder" if path.is_dir() else hashlib.sha256(path.read_bytes()).hexdigest()
        seen[str(path.relative_to(folder))] = (status.st_mode, content)
    return seen

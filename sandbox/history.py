"""The history of a workspace: a git repository that nothing of the developer's git configuration can touch."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sandbox.errors import EnvironmentFault

_BRANCH = "refs/heads/main"
_ORIGINAL = "refs/warpsmith/original"
_EXCLUDED = "__pycache__/\n*.o\n*.so\n*.cubin\n*.ptx\n.*\n"
_HARDENED = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0")


class History:
    """Commits of a folder, made and read with git's plumbing: no index of the developer's, no hook, no filter is involved."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._repository = folder / ".git"

    def begin(self) -> None:
        """Make the repository, or complete one that was left half made."""
        self._git("init", "--quiet", "--template=")
        self._git("symbolic-ref", "HEAD", _BRANCH)
        exclude = self._repository / "info" / "exclude"
        exclude.parent.mkdir(exist_ok=True)
        exclude.write_text(_EXCLUDED)

    def has_original(self) -> bool:
        """Whether the first commit was made, and with it everything before it."""
        return self._repository.is_dir() and bool(self._git("for-each-ref", _ORIGINAL))

    def record(self, message: str, files: Mapping[str, bytes], *, original: bool = False) -> str:
        """Commit exactly ``files`` and return the commit's hash."""
        stamp = int(time.time())
        head = f"commit {_BRANCH}\ncommitter Warpsmith <warpsmith@localhost> {stamp} +0000\n".encode()
        stream = [head, _data(message.encode())]
        if self._git("for-each-ref", _BRANCH):
            stream.append(f"from {_BRANCH}^0\n".encode())
        stream.append(b"deleteall\n")
        for path, content in files.items():
            stream += [b"M 100644 inline %s\n" % _quoted(path), _data(content)]
        if original:
            stream.append(f"reset {_ORIGINAL}\nfrom {_BRANCH}\n\n".encode())
        with tempfile.TemporaryFile() as file:
            file.write(b"".join(stream) + b"done\n")
            file.seek(0)
            self._git("fast-import", "--quiet", "--done", istream=file)
        self._git("read-tree", _BRANCH)
        return self._git("rev-parse", _BRANCH).decode().strip()

    def original(self) -> dict[str, bytes]:
        """Return the files of the first commit."""
        names = self._git("ls-tree", "-r", "-z", "--name-only", _ORIGINAL).decode().split("\0")
        return {name: self._git("cat-file", "blob", f"{_ORIGINAL}:{name}") for name in names if name}

    def _git(self, *arguments: str, istream: Any = None) -> bytes:
        """Run git on this repository alone and return what it prints."""
        # Importing it looks for git and fails without; a first paint should not wait for it either.
        os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
        import git

        runner = git.cmd.Git(self._folder)
        runner.update_environment(**self._environment())
        command = ["git", *_HARDENED, *arguments]
        try:
            out: bytes = runner.execute(command, istream=istream, stdout_as_string=False, strip_newline_in_stdout=False)
        except git.exc.GitCommandNotFound as error:
            raise EnvironmentFault("git is not installed.", where="workspace", next_step="Install git.") from error
        except git.exc.GitCommandError as error:
            what = str(error.stderr or error).strip()
            raise EnvironmentFault(f"git {arguments[0]} failed: {what}.", where=str(self._folder)) from error
        return out

    def _environment(self) -> dict[str, str]:
        """Return an environment in which git reads this repository and no configuration but its own."""
        repository = str(self._repository)
        return {
            "GIT_DIR": repository, "GIT_COMMON_DIR": repository, "GIT_WORK_TREE": str(self._folder),
            "GIT_INDEX_FILE": f"{repository}/index", "GIT_OBJECT_DIRECTORY": f"{repository}/objects",
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": "", "GIT_NAMESPACE": "", "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_SYSTEM": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_COUNT": "0", "GIT_CONFIG_PARAMETERS": "",
            "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C",
        }  # fmt: skip


def _data(content: bytes) -> bytes:
    return b"data %d\n%s\n" % (len(content), content)


def _quoted(path: str) -> bytes:
    escaped = path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return b'"%s"' % os.fsencode(escaped)

"""What a landing does to one file of the developer's tree."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class FileChange:
    """One file before and after a landing.

    Attributes:
        path: Absolute path of the file; never a symbolic link.
        before: Its bytes before the landing; None if it was not there.
        after: Its bytes after it; None if the landing removes it.
        mode: Its permission bits on either side; None leaves an existing file's as they are, and gives a new one the
            system's default.
    """

    path: Path
    before: bytes | None
    after: bytes | None
    mode: int | None = None

    def inverse(self) -> FileChange:
        """Return the change that takes this one back."""
        return FileChange(self.path, self.after, self.before, self.mode)

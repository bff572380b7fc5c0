"""Code in a worker's memory that came from nowhere it should: seen from outside, in the kernel's list of what is mapped.

However a candidate brings code (a library built or fetched on the way, bytes made executable), to run it must be mapped.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from pathlib import Path

from sandbox.verdict import Finding, Severity

_LINE = re.compile(r"[0-9a-f]+-[0-9a-f]+ ..x. [0-9a-f]+ [0-9a-f]+:[0-9a-f]+ \d+\s*(?P<name>.*)")
_OF_KERNEL = ("[vdso]", "[vsyscall]", "[uprobes]")
_ANONYMOUS = "memory without a file"
_SYSTEM = tuple(
    map(Path, ("/usr", "/lib", "/lib64", "/opt", "/nix", "/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm"))
)


def executable(pids: Iterable[int]) -> frozenset[str]:
    """Return the files that some processes have mapped to execute, and a name for memory without a file.

    Empty where nothing can be read: they are gone, or the system keeps it from this user.
    """
    names: set[str] = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            listing = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace")
            names.update(found["name"] for line in listing.splitlines() if (found := _LINE.match(line)))
    return frozenset(name or _ANONYMOUS for name in names if name not in _OF_KERNEL)


def foreign_code(
    before: frozenset[str], after: frozenset[str], expected: Iterable[Path], *, severity: Severity = "reject"
) -> list[Finding]:
    """Return a finding for code that has been mapped meanwhile.

    Args:
        before: What was mapped before the candidate was loaded.
        after: What is mapped now.
        expected: Files and folders that code may come from: the candidate's library, the interpreter's packages.
        severity: For memory without a file, which torch's own just-in-time compilers make too.
    """
    if not before:
        return []
    roots = (*_SYSTEM, *expected)
    new = sorted(after - before)
    files = [name for name in new if name != _ANONYMOUS and not any(Path(name).is_relative_to(root) for root in roots)]
    found = []
    if files:
        why = f"runs code that is neither kernels/ nor the interpreter's: {', '.join(files[:5])}"
        found.append(Finding("foreign-code", "reject", why))
    if _ANONYMOUS in new:
        why = "has made memory executable while it ran; kernels are compiled from kernels/"
        found.append(Finding("foreign-code", severity, why))
    return found

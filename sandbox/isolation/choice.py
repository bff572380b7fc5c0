"""Which isolation this machine allows, found out by really entering one."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path

from sandbox.errors import EnvironmentFault, UsageError
from sandbox.isolation.cell import Cell, Isolation
from sandbox.isolation.limits import ResourceLimits
from sandbox.isolation.namespaces import Namespaces

_LADDER: tuple[type[Namespaces | ResourceLimits], ...] = (Namespaces, ResourceLimits)


@functools.cache
def probe(name: str) -> str:
    """Return why an isolation cannot be used here, or an empty text if it can; tried once in a process."""
    isolation = next(level for level in _LADDER if level.name == name)()
    try:
        process = isolation.popen(["true"], Cell((), (), Path("/")), stdin=subprocess.DEVNULL)
    except EnvironmentFault as fault:
        return fault.what
    status = process.wait()
    return "" if status == 0 else f"a process in it ended with status {status}"


def best_isolation(minimum: str | None = None) -> Isolation:
    """Return the strongest isolation this machine allows.

    Args:
        minimum: The weakest to accept, ``namespaces`` or ``limits``; None or empty for the best there is.

    Raises:
        UsageError: ``minimum`` is no isolation.
        EnvironmentFault: Only weaker ones can be used here; the message says why.
    """
    names = [level.name for level in _LADDER]
    if minimum and minimum not in names:
        raise UsageError(f"There is no isolation '{minimum}'.", next_step=f"Choose from: {', '.join(names)}.")
    refusals: list[str] = []
    for level in _LADDER:
        reason = probe(level.name)
        if not reason:
            return level()
        refusals.append(f"{level.name}: {reason}")
        if level.name == minimum:
            break
    raise EnvironmentFault(
        f"Code cannot be isolated here as strongly as asked for. {' '.join(refusals)}",
        where="isolation",
        next_step="Allow user namespaces (on Ubuntu 24.04: sysctl kernel.apparmor_restrict_unprivileged_userns=0), or accept "
        "less with --isolation limits.",
    )

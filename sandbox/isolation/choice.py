"""Which isolation this machine allows, found out by really entering one."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path

from sandbox.errors import EnvironmentFault, UsageError
from sandbox.isolation.bubblewrap import Bubblewrap
from sandbox.isolation.cell import Cell, Isolation
from sandbox.isolation.docker import Docker
from sandbox.isolation.limits import ResourceLimits
from sandbox.isolation.namespaces import Namespaces

_LADDER: dict[str, type[Namespaces | Bubblewrap | ResourceLimits]] = {
    "namespaces": Namespaces,
    "bubblewrap": Bubblewrap,
    "limits": ResourceLimits,
}
LEVELS = ("docker", *_LADDER)
"""What ``--isolation`` takes: containers are used where they are asked for, the others from the strongest down."""

HOW_TO_ALLOW = (
    "Allow user namespaces (on Ubuntu 24.04: sysctl kernel.apparmor_restrict_unprivileged_userns=0), or accept less with "
    "--isolation bubblewrap (on Ubuntu 24.04: install bubblewrap and apparmor-profiles, and load the profile "
    "bwrap-userns-restrict with apparmor_parser) or --isolation limits."
)


@functools.cache
def probe(name: str) -> str:
    """Return why an isolation cannot be used here, or an empty text if it can; tried once in a process."""
    isolation: Isolation = Docker() if name == "docker" else _LADDER[name]()
    try:
        process = isolation.popen(["true"], Cell((), (), Path("/")), stdin=subprocess.DEVNULL)
    except EnvironmentFault as fault:
        return fault.what
    status = process.wait()
    return "" if status == 0 else f"a process in it ended with status {status}"


def best_isolation(minimum: str | None = None) -> Isolation:
    """Return the strongest isolation this machine allows, or containers where those are asked for.

    Args:
        minimum: The weakest to accept, one of ``LEVELS``; None or empty for the best there is but for containers.

    Raises:
        UsageError: ``minimum`` is no isolation.
        EnvironmentFault: Only weaker ones can be used here; the message says why.
    """
    if minimum == "docker":
        return _containers()
    if minimum and minimum not in _LADDER:
        raise UsageError(f"There is no isolation '{minimum}'.", next_step=f"Choose from: {', '.join(LEVELS)}.")
    refusals: list[str] = []
    for name, level in _LADDER.items():
        reason = probe(name)
        if not reason:
            return level()
        refusals.append(f"{name}: {reason}")
        if name == minimum:
            break
    what = f"Code cannot be isolated here as strongly as asked for. {' '.join(refusals)}"
    raise EnvironmentFault(what, where="isolation", next_step=HOW_TO_ALLOW)


def _containers() -> Isolation:
    if reason := probe("docker"):
        raise EnvironmentFault(
            reason,
            where="isolation docker",
            next_step="Start the engine and let this user reach it, or leave --isolation out.",
        )
    return Docker()

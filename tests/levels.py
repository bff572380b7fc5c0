"""Isolations by name, whether or not this machine would choose them: for tests and comparisons."""

from __future__ import annotations

from sandbox.isolation import Isolation, best_isolation
from sandbox.isolation.bubblewrap import Bubblewrap
from sandbox.isolation.limits import ResourceLimits
from sandbox.isolation.namespaces import Namespaces

LOCAL: dict[str, type[Namespaces | Bubblewrap | ResourceLimits]] = {
    "limits": ResourceLimits,
    "namespaces": Namespaces,
    "bubblewrap": Bubblewrap,
}


def isolation_named(name: str) -> Isolation:
    """Return exactly this isolation. Ask ``probe`` first whether it is to be had."""
    return best_isolation("docker") if name == "docker" else LOCAL[name]()

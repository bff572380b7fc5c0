"""How strongly candidates are kept apart, in a few words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def isolation_badge(environment: Mapping[str, Any]) -> str:
    """Return the isolation a verdict's environment names, that of workers where it is another, and whether it is weak.

    >>> isolation_badge({"isolation": "docker", "worker_isolation": "docker"})
    'docker'
    >>> isolation_badge({"isolation": "bubblewrap", "worker_isolation": "limits"})
    'bubblewrap, workers limits (weak)'
    >>> isolation_badge({"isolation": "limits", "worker_isolation": "limits"})
    'limits (weak)'
    """
    name = str(environment.get("isolation") or "")
    workers = str(environment.get("worker_isolation") or name)
    told = name if workers == name else f"{name}, workers {workers}"
    return f"{told} (weak)" if workers == "limits" else told

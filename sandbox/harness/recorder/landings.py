"""What landed kernels counted in this process: whether they ran, and why not."""

from __future__ import annotations

import sys
from typing import Any, Dict


def landing_counts() -> Dict[str, Dict[str, Any]]:
    """Return what each landed folder counted, by its package, with the class that landed in it."""
    found: Dict[str, Dict[str, Any]] = {}
    for name, module in list(sys.modules.items()):
        landings = getattr(module, "_LANDINGS", None) if name.endswith("._runtime") else None
        for package, landing in (landings or {}).items():
            cls = landing.original._landed if landing.original is not None else None
            found[package] = {
                "module": cls.__module__ if cls else "",
                "class": cls.__qualname__ if cls else package,
                **landing.counts(),
            }
    return found

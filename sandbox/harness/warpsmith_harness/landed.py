"""Loads a folder of kernels in the form in which it lands, so that a candidate is judged as it will be used."""

from __future__ import annotations

import importlib.util
import sys
import types
from pathlib import Path
from typing import Any, Dict, Optional

from warpsmith_harness.problems import CandidateProblem


def load_landed(name: str, folder: Path, manifest: Optional[Dict[str, Any]]) -> types.ModuleType:
    """Import a landed folder as a package.

    Args:
        name: Its import name.
        folder: Where it lies.
        manifest: Of the library that was built of its sources, which it uses instead of building one; None if it has none.

    Raises:
        CandidateProblem: There is no such folder.
    """
    location = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if location is None or location.loader is None or not (folder / "__init__.py").exists():
        raise CandidateProblem("Its folder of kernels is missing.", folder.name)
    package = importlib.util.module_from_spec(location)
    sys.modules[name] = package
    location.loader.exec_module(package)
    if manifest is not None:
        package._landing.adopt(manifest["library"])
    return package


def operators_of(package: types.ModuleType) -> str:
    """Return what the names of a landed folder's operators begin with."""
    namespace: str = package._landed.RECORD["namespace"]
    return f"{namespace}::"


def refuse_original(package: types.ModuleType) -> None:
    """Raise ``CandidateProblem`` where a folder's checks have sent a call to the original code so far."""
    counted = package.counts()
    if counted["original"]:
        reasons = ", ".join(counted["reasons"])
        raise CandidateProblem(f"As it lands, a call like those that were verified runs the original code: {reasons}.")

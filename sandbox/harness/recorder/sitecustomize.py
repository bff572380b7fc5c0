"""Runs the developer's own ``sitecustomize``, then waits for ``import torch`` and starts the recorder.

Whoever starts a command with this folder first on ``PYTHONPATH`` and ``WARPSMITH_RECORD`` naming a folder has every
Python process of it recorded. Any Python 3 may come along here, so this file keeps to what old ones understand.
"""

import importlib.machinery
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PACKAGE = "_warpsmith_recorder"
FOLDER = os.environ.get("WARPSMITH_RECORD", "")
OLDEST = (3, 9)


class TorchFinder:
    """Stands first among the finders until torch is imported, and has the recorder started right after that."""

    def find_spec(self, name: str, *_: Any) -> Any:
        """Return torch's spec with its loader told what to do afterwards; nothing of any other name."""
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            _then_start(spec.loader)
        return spec


def _then_start(loader: Any) -> None:
    execute = loader.exec_module

    def exec_module(module: Any) -> None:
        del loader.exec_module
        execute(module)
        _start(module)

    loader.exec_module = exec_module


def _start(torch: Any) -> None:
    spec: Any = importlib.util.spec_from_file_location(
        PACKAGE, str(HERE / "__init__.py"), submodule_search_locations=[str(HERE)]
    )
    package = importlib.util.module_from_spec(spec)
    sys.modules[PACKAGE] = package
    spec.loader.exec_module(package)
    importlib.import_module(PACKAGE + ".start").start(FOLDER, torch)


def _leave_the_path() -> None:
    """Take this folder off ``sys.path``: the developer's imports must not find what lies here."""
    sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != HERE]
    sys.path_importer_cache.pop(str(HERE), None)


def _run_theirs() -> None:
    """Run the developer's own ``sitecustomize``, under its name, as if this one were not there."""
    spec: Any = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def _sign_in() -> None:
    """Leave a note that this process was here: it tells whoever reads why there may be no recording."""
    numbers = (os.getpid(), *sys.version_info[:3])
    try:
        with Path(FOLDER, "seen-%d.json" % os.getpid()).open("w") as file:
            file.write('{"pid": %d, "python": [%d, %d, %d]}' % numbers)
    except OSError:  # a full disk, or a folder that is gone: their program is not to suffer from it
        return


_leave_the_path()
try:
    _run_theirs()
finally:
    if FOLDER and Path(FOLDER).is_dir():
        _sign_in()
        if sys.version_info >= OLDEST:
            sys.meta_path.insert(0, TorchFinder())

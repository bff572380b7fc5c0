"""What must be visible for a Python interpreter to work in a cell."""

from __future__ import annotations

import functools
import json
import subprocess
from pathlib import Path

from sandbox.errors import EnvironmentFault

_ASK = (
    "import json, sys, sysconfig; print(json.dumps([sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix, "
    "sys.executable, *sysconfig.get_paths().values(), *sys.path[1:]]))"
)
_PROVIDED = (Path("/"), Path("/usr"), Path("/bin"), Path("/lib"))


@functools.cache
def interpreter_paths(python: Path) -> tuple[Path, ...]:
    """Return the folders an interpreter imports from and is made of, for ``Cell.readable``; asks it once.

    Raises:
        EnvironmentFault: The interpreter does not run.
    """
    try:
        answer = subprocess.run([python, "-c", _ASK], capture_output=True, text=True, timeout=60, check=True, cwd="/")
        found = json.loads(answer.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        raise EnvironmentFault(
            f"The interpreter does not run: {error}.", where=str(python), next_step="Name another one with --python."
        ) from error
    paths = {Path(text) for text in found if text and Path(text).exists()}
    paths |= {path.resolve() for path in paths}
    wanted = sorted(path for path in {python.absolute(), *paths} if path not in _PROVIDED)
    return tuple(path for path in wanted if not any(parent in wanted for parent in path.parents))

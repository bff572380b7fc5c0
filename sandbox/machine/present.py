"""What times depend on, here and now, read without importing torch: versions, GPU and driver, as a verdict names them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from sandbox.errors import EnvironmentFault
from sandbox.machine.devices import gpu_of
from sandbox.wire import HARNESS

_ASK = """
import importlib.util, json, os, runpy, sys
sys.path.append(sys.argv[1])
from warpsmith_harness.machine import cpu_name
found = importlib.util.find_spec("torch")
version = runpy.run_path(os.path.join(os.path.dirname(found.origin), "version.py")) if found else {}
print(json.dumps({"torch": version.get("__version__"), "cuda": version.get("cuda"), "cpu": cpu_name()}))
"""
_PATIENCE_SECONDS = 60


def present(python: Path, device: str) -> dict[str, str]:
    """Return torch, CUDA and CPU of an interpreter, and name, compute capability and driver of a GPU; those that there are.

    Raises:
        EnvironmentFault: It does not answer, or has no torch.
    """
    mend = "Install torch there, or name your project's interpreter with --python."
    command = [str(python), "-c", _ASK, str(HARNESS)]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_SECONDS, check=False)
        found = json.loads(answer.stdout.strip().splitlines()[-1])
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentFault(
            f"The interpreter does not answer: {error}", where=str(python), next_step=mend
        ) from error
    except (IndexError, ValueError) as error:
        last = (answer.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise EnvironmentFault(
            f"The interpreter cannot be asked: {last}.", where=str(python), next_step=mend
        ) from error
    if not found["torch"]:
        raise EnvironmentFault("There is no torch in the interpreter.", where=str(python), next_step=mend)
    gpu = gpu_of(device)
    if gpu is not None:
        found |= {"device": gpu.name, "sm": f"sm_{gpu.sm}", "driver": gpu.driver}
    return {key: str(value) for key, value in found.items() if value}

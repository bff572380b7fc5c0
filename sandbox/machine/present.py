"""What times depend on, here and now, without opening a judge: versions, GPU and driver, as a verdict would name them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from sandbox.errors import EnvironmentFault
from sandbox.machine.devices import gpu_of
from sandbox.wire import HARNESS

_ASK = """
import json, sys
sys.path.append(sys.argv[1])
from warpsmith_harness.machine import machine_of
print(json.dumps(machine_of(sys.argv[2])))
"""
_PATIENCE_SECONDS = 120


def present(python: Path, device: str) -> dict[str, str]:
    """Return torch, CUDA, device, compute capability, CPU and driver of an interpreter; those that there are.

    Raises:
        EnvironmentFault: It does not answer, or has no torch.
    """
    command = [str(python), "-c", _ASK, str(HARNESS), device]
    mend = "Install torch there, or name your project's interpreter with --python."
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
    gpu = gpu_of(device)
    return {**{key: str(value) for key, value in found.items() if value}, **({"driver": gpu.driver} if gpu else {})}

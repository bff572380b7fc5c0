"""What the machine does to a run, told with what to change: memory used up, another process gone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist

from sandbox.errors import EnvironmentFault
from trainer.run.presets import Recipe
from trainer.run.processes import Processes

_NO_MEMORY = ("can't allocate memory", "out of memory", "Cannot allocate memory")
_GONE = (
    "Connection closed by peer",
    "Connection reset by peer",
    "Broken pipe",
    "Timed out waiting",
    "remote process exited",
)


@contextmanager
def told(recipe: Recipe, processes: Processes) -> Iterator[None]:
    """Turn what torch says of memory and of other processes into what a person can act on.

    Raises:
        EnvironmentFault: Memory is used up, or another process of the run ended.
    """
    try:
        yield
    except MemoryError as error:
        raise _memory(recipe, processes) from error
    except RuntimeError as error:
        text = str(error)
        if isinstance(error, torch.OutOfMemoryError) or any(part in text for part in _NO_MEMORY):
            raise _memory(recipe, processes) from error
        if isinstance(error, dist.DistError) or any(part in text for part in _GONE):
            raise EnvironmentFault(
                "Another process of this run has ended.",
                where=f"process {processes.rank} of {processes.world}",
                next_step="Look for its own message above. The same command goes on from the last checkpoint.",
            ) from error
        raise


def _memory(recipe: Recipe, processes: Processes) -> EnvironmentFault:
    device = processes.device
    what = f"The memory of {device} is used up." if device.type == "cuda" else "The memory of this machine is used up."
    where = ""
    if device.type == "cuda":
        used, there = torch.cuda.max_memory_allocated(device), torch.cuda.get_device_properties(device).total_memory
        where = f"{used / 2**30:.1f} of {there / 2**30:.1f} GiB at most"
    return EnvironmentFault(
        what,
        where=where,
        next_step=f"Give the model less at once (--set tokens={recipe.tokens // 2}) or start more processes (torchrun): the run "
        "goes on from its last checkpoint. Or begin another that trains adapters only (--lora 16).",
    )

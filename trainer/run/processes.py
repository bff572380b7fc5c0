"""One process, or several under ``torchrun``, with the same numbers.

Every process holds the whole batch as numbers of the CPU, so that denominators, advantages and the order of the data are
computed everywhere and need no exchange; only forward and backward passes are shared out. With more than one process the
parameters are sharded over all of them (FSDP2, ``fully_shard``).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor

from sandbox.errors import EnvironmentFault, UsageError, WarpsmithError

Item = TypeVar("Item")
PATIENCE = timedelta(minutes=30)
"""How long a process waits for the others; rollouts and checkpoints may lie between two exchanges."""


@dataclass(frozen=True)
class Processes:
    """This process among those of the run.

    Attributes:
        rank: Number of this process, from 0.
        world: How many there are.
        device: Where this one computes.
    """

    rank: int
    world: int
    device: torch.device

    @property
    def first(self) -> bool:
        """Whether this process writes and speaks for all."""
        return self.rank == 0

    def share(self, items: Sequence[Item]) -> list[tuple[Item, bool]]:
        """Return this process's share of the items, as many as every other's, with whether each counts.

        Sharded layers meet in every pass, so a process that has run out goes through one more, which counts nothing.
        """
        rounds = -(-len(items) // self.world)
        own = [round_ * self.world + self.rank for round_ in range(rounds)]
        return [(items[number % len(items)], number < len(items)) for number in own]

    def total(self, tensor: Tensor) -> Tensor:
        """Add up a tensor over all processes, in place, and return it."""
        if self.world > 1:
            there = tensor.to(self.device)
            dist.all_reduce(there)
            tensor.copy_(there)
        return tensor

    def largest(self, value: float) -> float:
        """Return the largest of a number over all processes."""
        if self.world == 1:
            return value
        there = torch.tensor(value, dtype=torch.float64, device=self.device)
        dist.all_reduce(there, dist.ReduceOp.MAX)
        return float(there)

    def from_first(self, value: Any) -> Any:
        """Return what the first process has here."""
        if self.world == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=0, device=self.device)
        return box[0]

    @contextmanager
    def together(self) -> Iterator[None]:
        """Wait at the end for all, and raise everywhere what went wrong in any of them."""
        error: WarpsmithError | OSError | None = None
        try:
            yield
        except (WarpsmithError, OSError) as raised:
            error = raised
        if self.world > 1:
            told: list[str | None] = [None] * self.world
            dist.all_gather_object(told, str(error) if error else None)
            if error is None and (text := next(filter(None, told), None)):
                raise EnvironmentFault("Another process of this run gave up.", where=text)
        if error:
            raise error

    def shard(self, module: nn.Module, layers: Iterable[nn.Module], dtype: torch.dtype) -> None:
        """Spread the parameters of a module over all processes, a layer at a time.

        Args:
            module: All of it.
            layers: Of its decoder; on a GPU they are gathered in ``dtype``, everything else, heads included, as it is kept.
            dtype: What the module computes in.
        """
        if self.world == 1:
            return
        mesh = init_device_mesh(self.device.type, (self.world,))
        as_kept = MixedPrecisionPolicy(reduce_dtype=torch.float32, cast_forward_inputs=False)
        in_layers = replace(as_kept, param_dtype=dtype) if self.device.type == "cuda" else as_kept
        for layer in layers:
            fully_shard(layer, mesh=mesh, mp_policy=in_layers)
        fully_shard(module, mesh=mesh, mp_policy=as_kept)


@contextmanager
def started(device: str = "auto") -> Iterator[Processes]:
    """Join the processes of this run: those of ``torchrun`` where it started this one, or this one alone.

    Args:
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.

    Raises:
        UsageError: The device is named wrongly, or one for all is named where each process has its own.
        EnvironmentFault: There is no such device.
    """
    world, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    own = _device(device, int(os.environ.get("LOCAL_RANK", "0")), world)
    if own.type == "cuda":
        torch.cuda.set_device(own)
    if world == 1:
        yield Processes(0, 1, own)
        return
    dist.init_process_group("nccl" if own.type == "cuda" else "gloo", timeout=PATIENCE)
    try:
        yield Processes(rank, world, own)
    finally:
        dist.destroy_process_group()


def whole(tensor: Tensor) -> Tensor:
    """Return a tensor that may be sharded as a whole one; every process has to ask."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def own_part(tensor: Tensor) -> tuple[Tensor, int]:
    """Return this process's rows of a tensor that may be sharded, and the number of the first of them."""
    if not isinstance(tensor, DTensor):
        return tensor, 0
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    _, offset = compute_local_shape_and_global_offset(tensor.shape, tensor.device_mesh, tensor.placements)
    return tensor.to_local(), offset[0] if offset else 0


def _device(name: str, local: int, world: int) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cpu":
        return torch.device("cpu")
    kind, _, number = name.partition(":")
    if kind != "cuda" or (number and (not number.isdigit() or world > 1)):
        raise UsageError(
            f"{name!r} is no device to train on.", next_step="Give auto, cpu, cuda, or cuda:N in one process."
        )
    index = int(number) if number else local
    if index >= torch.cuda.device_count():
        raise EnvironmentFault(
            f"There is no GPU {index} here.",
            where=f"{torch.cuda.device_count()} found",
            next_step="Start as many processes as there are GPUs, or use --device cpu.",
        )
    return torch.device("cuda", index)

"""What is trained, and how it goes forward and backward: policy, critic, their optimizers, the order of the data."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sandbox.errors import InternalError, UsageError
from trainer.data.episode import Episode
from trainer.policy.critic import Critic
from trainer.policy.logprobs import ActionLogprobs
from trainer.policy.model import PolicyModel
from trainer.policy.packing import PackedBatch
from trainer.run.batch import Batch
from trainer.run.optimizer import Optimizer
from trainer.run.presets import Recipe
from trainer.run.processes import Processes, whole

Loss = Callable[[Tensor, Tensor], Tensor]
"""Of where a row's actions stand among the batch's, and what the model gave them: this row's share of the batch's loss."""


class Learner:
    """A policy and its critic in training, on one process or several.

    Args:
        recipe: What it trains by.
        processes: Who takes part.
        policy: The policy; none where only a critic of its own is trained.
        critic: The critic, or none.
        trains: Which of the two are trained: ``policy``, ``critic``.
        seed: Of the order of the data.
        version: Updates behind the policy when this run began.

    Attributes:
        step: Steps behind it in this run.
        random: Draws the order of the data; its state is in the checkpoints.
    """

    def __init__(
        self,
        recipe: Recipe,
        processes: Processes,
        policy: PolicyModel | None,
        critic: Critic | None,
        *,
        trains: Sequence[str],
        seed: int = 0,
        version: int = 0,
    ) -> None:
        self.recipe, self.processes, self.policy, self.critic = recipe, processes, policy, critic
        self.step = 0
        self.random = np.random.default_rng(seed)
        self._began, self._seed = version, seed
        self._waiting: list[list[int]] = []
        for model in (policy, critic.model if critic and not critic.beside else None):
            if model:
                processes.shard(model, model.layers, model.dtype)
        self.optimizers: dict[str, Optimizer] = {}
        if policy and "policy" in trains:
            self.optimizers["policy"] = _optimizer("policy", policy.trained(), recipe, recipe.actor_lr)
        if critic and "critic" in trains:
            self.optimizers["critic"] = _optimizer("critic", critic.trained(), recipe, recipe.critic_lr)

    @property
    def version(self) -> int:
        """Updates behind the policy in all."""
        return self._began + (self.step if "policy" in self.optimizers else 0)

    def batch(self, episodes: Sequence[Episode], *, sampled: bool = True) -> Batch:
        """Pack episodes for the model; ``sampled`` as in `Batch.of`."""
        return Batch.of(episodes, self.recipe.tokens, sampled=sampled)

    def next_episodes(self, count: int) -> list[int]:
        """Return the numbers of the next step's episodes of ``count`` in all; each comes once before any comes again."""
        if not self._waiting:
            parts = -(-count // self.recipe.batch)
            self._waiting = [part.tolist() for part in np.array_split(self.random.permutation(count), parts)]
        return self._waiting.pop(0)

    @property
    def passed(self) -> bool:
        """Whether a pass through all episodes has just ended."""
        return not self._waiting

    def logprobs(self, batch: Batch) -> ActionLogprobs:
        """Return what the policy gives all actions of a batch, and its entropies there; float32 on the CPU."""
        found = torch.zeros(2, batch.actions)
        for row, where in self._rows(batch):
            found[:, where] = torch.stack(self._policy(row)).cpu()[:, : len(where)]
        self.processes.total(found)
        return ActionLogprobs(found[0], found[1])

    def reference_logprobs(self, batch: Batch) -> Tensor:
        """Return what the policy gave all actions of a batch before training, without its adapters; float32 on the CPU.

        Raises:
            UsageError: All weights are trained, so the model as it was is not there any more.
        """
        if self.policy is None or self.policy.adapters is None:
            raise UsageError(
                "The divergence from the start is asked for, and all weights are trained.",
                where="--set kl",
                next_step="Train adapters (--lora RANK), whose base stays as it was, or leave kl at 0.",
            )
        with self.policy.reference():
            return self.logprobs(batch).logp

    def values(self, batch: Batch) -> Tensor:
        """Return what the critic expects before all actions of a batch; float32 on the CPU."""
        found = torch.zeros(batch.actions)
        for row, where in self._rows(batch):
            found[where] = self._critic(row).cpu()[: len(where)]
        return self.processes.total(found)

    def improve_policy(self, batch: Batch, loss: Loss) -> tuple[float, float]:
        """Take a step of the policy down a loss of its log-probabilities.

        Returns:
            The loss, and the norm of its gradient.
        """
        return self._descend("policy", lambda row: self._policy(row).logp, batch, loss)

    def improve_critic(self, batch: Batch, loss: Loss) -> tuple[float, float]:
        """Take a step of the critic down a loss of its values.

        Returns:
            The loss, and the norm of its gradient.
        """
        return self._descend("critic", self._critic, batch, loss)

    @contextmanager
    def measured(self, batch: Batch) -> Iterator[dict[str, float | None]]:
        """Collect a step's numbers, and add how long it took and how much memory."""
        device = self.processes.device
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        began = time.perf_counter()
        numbers: dict[str, float | None] = {
            "episodes": len(batch.episodes),
            "actions": batch.actions,
            "reward": float(batch.rewards.mean()),
            "length_clip": sum(episode.truncated for episode in batch.episodes) / len(batch.episodes),
        }
        yield numbers
        seconds = time.perf_counter() - began
        numbers |= {
            "seconds": seconds,
            "tokens_per_second": batch.tokens / seconds,
            "memory_gib": self.processes.largest(self._memory()),
        }

    def tensors(self) -> dict[str, Tensor]:
        """Return all that a checkpoint's parts hold, by name."""
        return {name: tensor for optimizer in self.optimizers.values() for name, tensor in optimizer.tensors().items()}

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint holds beside tensors, as JSON values."""
        return {
            "version": self.version,
            "step": self.step,
            "updates": {name: optimizer.updates for name, optimizer in self.optimizers.items()},
            "random": self.random.bit_generator.state,
            "waiting": self._waiting,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint's state, once `tensors` have been filled from it."""
        self.step = state["step"]
        self.random.bit_generator.state = state["random"]
        self._waiting = state["waiting"]
        for name, optimizer in self.optimizers.items():
            optimizer.resume(state["updates"][name])

    def finish(self, folder: Path) -> None:
        """Write ``policy/`` and ``critic/``, those that are trained, as others load them."""
        if self.policy and "policy" in self.optimizers:
            self._save(self.policy, self.policy, folder / "policy")
        if self.critic and "critic" in self.optimizers:
            self._save(self.critic.model, self.critic, folder / "critic")

    def _save(self, module: nn.Module, saves: PolicyModel | Critic, folder: Path) -> None:
        state = None
        if self.processes.world > 1:
            state = {name: whole(tensor).cpu() for name, tensor in module.state_dict().items()}
        if self.processes.first:
            saves.save(folder, state)

    def _rows(self, batch: Batch) -> Iterator[tuple[PackedBatch, Tensor]]:
        with torch.no_grad():
            for row, counts in self.processes.share(batch.rows):
                where = batch.where(row)
                yield row.to(self.processes.device), where if counts else where[:0]

    def _descend(
        self, name: str, forward: Callable[[PackedBatch], Tensor], batch: Batch, loss: Loss
    ) -> tuple[float, float]:
        device, world = self.processes.device, self.processes.world
        sum_ = torch.zeros((), dtype=torch.float64)
        for row, counts in self.processes.share(batch.rows):
            share = loss(batch.where(row), forward(row.to(device)))
            if not counts:
                share = share * 0.0
            (share * world).backward()  # sharded gradients are averages over the processes
            sum_ += share.detach().double().cpu()
        norm = self.optimizers[name].step()
        return float(self.processes.total(sum_)), norm

    def _policy(self, row: PackedBatch) -> ActionLogprobs:
        if self.policy is None:
            raise InternalError("This learner has no policy.")
        found: ActionLogprobs = self.policy(row)
        return found

    def _critic(self, row: PackedBatch) -> Tensor:
        if self.critic is None:
            raise InternalError("This learner has no critic.")
        values: Tensor = self.critic(row)
        return values

    def _memory(self) -> float:
        device = self.processes.device
        if device.type == "cuda":
            return torch.cuda.max_memory_allocated(device) / 2**30
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # KiB


def _optimizer(name: str, parameters: Sequence[tuple[str, nn.Parameter]], recipe: Recipe, rate: float) -> Optimizer:
    return Optimizer(name, parameters, rate=rate, warm_up=recipe.warm_up, clip=recipe.grad_clip)

"""AdamW with a warm-up and a bound on the gradient, whose state fits a checkpoint of any number of processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from sandbox.errors import ExitCode, WarpsmithError
from trainer.run.processes import whole


class NotFinite(WarpsmithError):
    """A loss or its gradient is not a number; the weights were left as they were."""

    exit_code = ExitCode.FAILED


class Optimizer:
    """Trains named parameters.

    Args:
        name: Of what is trained; names its tensors in a checkpoint.
        parameters: By name, sharded or not; the same in every process.
        rate: Learning rate once warm.
        warm_up: Updates over which it rises in a straight line.
        clip: Largest norm of the gradient.
    """

    def __init__(
        self, name: str, parameters: Sequence[tuple[str, nn.Parameter]], *, rate: float, warm_up: int, clip: float
    ) -> None:
        self.name = name
        self.updates = 0
        self._parameters = dict(parameters)
        self._rate, self._warm_up, self._clip = rate, warm_up, clip
        self._adam = torch.optim.AdamW(self._parameters.values(), lr=rate, weight_decay=0.0)
        for parameter in self._parameters.values():
            moments = {name: torch.zeros_like(parameter.detach()) for name in ("exp_avg", "exp_avg_sq")}
            self._adam.state[parameter] = {"step": torch.tensor(0.0), **moments}

    def step(self) -> float:
        """Take one step along the gradients and forget them.

        Returns:
            The norm that they had, over all processes.

        Raises:
            NotFinite: It is no number; no weight was changed.
        """
        trained = list(self._parameters.values())
        norm = float(whole(clip_grad_norm_(trained, self._clip)))
        if not torch.isfinite(torch.tensor(norm)):
            self._adam.zero_grad()
            raise NotFinite(
                f"The gradient of the {self.name} is not a number (its norm is {norm}): this step was not taken.",
                next_step="The run stands at its last checkpoint. Begin another from it, at a lower learning rate.",
            )
        for group in self._adam.param_groups:
            group["lr"] = self._rate * min(1.0, (self.updates + 1) / max(1, self._warm_up))
        self._adam.step()
        self._adam.zero_grad()
        self.updates += 1
        return norm

    def tensors(self) -> dict[str, Tensor]:
        """Return the weights and both moments of each, by the names they have in a checkpoint."""
        found: dict[str, Tensor] = {}
        for name, parameter in self._parameters.items():
            state: Mapping[str, Tensor] = self._adam.state[parameter]
            found[f"{self.name}/{name}"] = parameter.detach()
            found[f"{self.name}/{name}/exp_avg"] = state["exp_avg"]
            found[f"{self.name}/{name}/exp_avg_sq"] = state["exp_avg_sq"]
        return found

    def resume(self, updates: int) -> None:
        """Go on after so many updates, once `tensors` have been filled."""
        self.updates = updates
        for parameter in self._parameters.values():
            self._adam.state[parameter]["step"].fill_(updates)

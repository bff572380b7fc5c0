"""The critic: a value for each state that an action was taken in, from an adapter beside the actor's or a model of its own.

The value of the state before an action is read where the action's log-probability is: at the token before it.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from sandbox.errors import UsageError
from trainer.policy.adapters import CRITIC
from trainer.policy.model import NETWORK_PREFIX, PolicyModel, load_policy, network_state
from trainer.policy.packing import PackedBatch

HEAD = "value_head.safetensors"
_HEAD_PREFIX = "value_head."


@dataclass(frozen=True)
class Bounds:
    """What values lie between; rewards are from -1 to 3."""

    low: float = -1.0
    high: float = 3.0


class ValueHead(nn.Module):
    """A linear map from hidden states to values in single precision, zero at first; bounded by an arctangent if asked for.

    V = low + (high - low) (1/2 + arctan(z) / pi), after BPCO (arXiv 2608.23566): it begins in the middle, and no estimate is
    ever outside of what can be earned.
    """

    def __init__(self, width: int, bounds: Bounds | None) -> None:
        super().__init__()
        self.bounds = bounds
        self.linear = nn.Linear(width, 1)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, hidden: Tensor) -> Tensor:
        """Return float32 values, (states,), of hidden states, (states, width)."""
        with torch.autocast(hidden.device.type, enabled=False):
            raw: Tensor = self.linear(hidden.float()).squeeze(-1)
            if self.bounds is None:
                return raw
            low, high = self.bounds.low, self.bounds.high
            return low + (high - low) * (0.5 + torch.arctan(raw) / math.pi)


class Critic(nn.Module):
    """What estimates values.

    Attributes:
        model: The policy itself where the critic is an adapter beside the actor's; its own model otherwise.
        beside: Which of the two.
    """

    def __init__(self, model: PolicyModel, *, beside: bool) -> None:
        super().__init__()
        self.model = model
        self.beside = beside

    @property
    def layers(self) -> nn.ModuleList:
        """The layers of the decoder."""
        return self.model.layers

    def forward(self, batch: PackedBatch) -> Tensor:
        """Return float32 values, (actions,), of the states that a row's actions were taken in."""
        values: Tensor = self.model(batch, "value")
        return values

    def trained(self) -> list[tuple[str, nn.Parameter]]:
        """Return the parameters that an optimizer changes for the critic, with their names in its model's ``state_dict``."""
        named = self.model.adapters.parameters(CRITIC) if self.model.adapters else self.model.network.named_parameters()
        head = [(f"{_HEAD_PREFIX}{name}", value) for name, value in self._head.named_parameters()]
        return [(f"{NETWORK_PREFIX}{name}", value) for name, value in named] + head

    def save(self, folder: Path, state_dict: dict[str, Tensor] | None = None) -> None:
        """Write the critic: its head, and its adapter or its whole model.

        Args:
            folder: Made if it does not exist.
            state_dict: The state of ``model``, where its parameters are spread over processes.
        """
        state = self.model.state_dict() if state_dict is None else state_dict
        folder.mkdir(parents=True, exist_ok=True)
        if self.model.adapters:
            self.model.adapters.write(CRITIC, folder, network_state(state))
        else:
            self.model.save(folder, state)
        head = {
            name.removeprefix(_HEAD_PREFIX): value.detach().cpu().contiguous()
            for name, value in state.items()
            if name.startswith(_HEAD_PREFIX)
        }
        bounds = "" if self._head.bounds is None else json.dumps(asdict(self._head.bounds))
        save_file(head, folder / HEAD, metadata={"bounds": bounds})

    @property
    def _head(self) -> ValueHead:
        head = self.model.value_head
        assert isinstance(head, ValueHead)
        return head


def critic_beside(policy: PolicyModel, bounds: Bounds | None = None, folder: Path | None = None) -> Critic:
    """Give a policy with adapters a critic that shares its frozen base.

    Args:
        policy: Has an adapter, and no critic yet.
        bounds: What a new head's values lie between; None leaves them free.
        folder: What `Critic.save` wrote, to go on from; its head comes with its own bounds.

    Raises:
        UsageError: All weights of the policy are trained, or the folder holds no critic.
    """
    if policy.adapters is None:
        raise UsageError(
            "A critic can share only a base that is frozen, and all weights of this policy are trained.",
            next_step="Train adapters, or give the critic a model of its own.",
        )
    policy.adapters.add_critic()
    if folder:
        policy.adapters.load(CRITIC, folder)
    policy.value_head = _head(policy, bounds, folder)
    policy.to(policy.device)
    return Critic(policy, beside=True)


def load_critic(
    path: Path | str,
    bounds: Bounds | None = None,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
    checkpointing: bool = True,
) -> Critic:
    """Load a critic that is a model of its own, all weights of which are trained.

    Args:
        path: The folder of a critic, or that of a policy, which then begins with a new head.
        bounds: What a new head's values lie between; None leaves them free.
        dtype: What is computed in, as for a policy.
        device: Where.
        checkpointing: As for a policy.
    """
    model = load_policy(path, dtype=dtype, device=device, checkpointing=checkpointing)
    folder = Path(path)
    model.drop_language_head()
    model.value_head = _head(model, bounds, folder if (folder / HEAD).is_file() else None)
    return Critic(model, beside=False)


def _head(model: PolicyModel, bounds: Bounds | None, folder: Path | None) -> ValueHead:
    width = model.base.config.hidden_size
    if folder is None:
        return ValueHead(width, bounds).to(model.device)
    path = folder / HEAD
    if not path.is_file():
        raise UsageError(
            "There is no critic in this folder.", where=str(folder), next_step="Name one that value wrote."
        )
    with safe_open(path, framework="pt") as file:
        told = (file.metadata() or {}).get("bounds")
    head = ValueHead(width, Bounds(**json.loads(told)) if told else None)
    head.load_state_dict(load_file(path))
    return head.to(model.device)

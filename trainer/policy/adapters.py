"""Low-rank adapters by name over one frozen base: the actor's, the critic's, and none, which is the reference."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict
from peft.tuners.tuners_utils import BaseTunerLayer
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

ACTOR = "actor"
CRITIC = "critic"
CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"


@dataclass(frozen=True)
class LoraSettings:
    """How large adapters are and where they sit (LoRA, arXiv 2106.09685).

    Attributes:
        rank: Of the update of each matrix.
        alpha: The update is scaled by alpha / rank.
        targets: Names of the modules that have one, or ``all-linear``: all of them but the head.
        seed: Of their first values; the update itself begins at zero.
    """

    rank: int = 16
    alpha: int = 32
    targets: str | tuple[str, ...] = "all-linear"
    seed: int = 0


class Adapters:
    """The adapters of a network, and which of them it computes with.

    peft trains only the adapter in use. Here every adapter stays trainable, and only what is computed changes, so that
    optimizers of several can exist side by side.
    """

    def __init__(self, network: PeftModel) -> None:
        self.network = network
        self._layers = [module for module in network.modules() if isinstance(module, BaseTunerLayer)]
        self._use(ACTOR)

    def add_critic(self, seed: int = 0) -> None:
        """Add an adapter of the same shape as the actor's for the critic; the actor's stays in use."""
        with _seeded(seed), _quiet():
            self.network.add_adapter(CRITIC, self.network.peft_config[ACTOR])
        for _, value in [*self.parameters(ACTOR), *self.parameters(CRITIC)]:
            value.requires_grad_(True)
        self._use(ACTOR)

    def load(self, name: str, folder: Path) -> None:
        """Give an adapter the weights that a folder holds."""
        set_peft_model_state_dict(self.network, load_file(folder / WEIGHTS), adapter_name=name)

    def write(self, name: str, folder: Path, state: dict[str, Tensor] | None = None) -> None:
        """Write one adapter as peft does, so that whatever reads peft's folders reads it.

        Args:
            name: Which.
            folder: Exists.
            state: The network's state where its parameters are spread over processes; None takes it from the network.
        """
        weights = get_peft_model_state_dict(self.network, state_dict=state, adapter_name=name)
        save_file({key: value.detach().cpu().contiguous() for key, value in weights.items()}, folder / WEIGHTS)
        self.network.peft_config[name].save_pretrained(str(folder))

    @property
    def active(self) -> str | None:
        """The adapter in use; None is the base alone."""
        return self._active

    def parameters(self, name: str) -> list[tuple[str, nn.Parameter]]:
        """Return the parameters of one adapter, with their names in the network."""
        return [(path, value) for path, value in self.network.named_parameters() if f".{name}." in path]

    @contextmanager
    def using(self, name: str | None) -> Iterator[None]:
        """Compute with one adapter, or with none, for as long as the context lasts."""
        before = self._active
        self._use(name)
        try:
            yield
        finally:
            self._use(before)

    def _use(self, name: str | None) -> None:
        # peft's own way freezes whatever is not in use, which an optimizer or a gradient on its way would find frozen.
        for layer in self._layers:
            layer._disable_adapters = name is None
            layer._active_adapter = [name or ACTOR]
        self._active = name


def add_actor(network: Any, settings: LoraSettings) -> PeftModel:
    """Freeze a network and put the actor's adapter over it, in single precision."""
    with _seeded(settings.seed), _quiet():
        return get_peft_model(network, _config(settings), adapter_name=ACTOR)


def read_actor(network: Any, folder: Path) -> PeftModel:
    """Put the adapter that a folder holds over a network, as the actor's."""
    with _quiet():
        return PeftModel.from_pretrained(network, folder, adapter_name=ACTOR, is_trainable=True)


def compute_in(network: PeftModel) -> None:
    """Let autocast choose the type that adapters compute in, and not the type that their weights are kept in."""
    for module in network.modules():
        if isinstance(module, BaseTunerLayer):
            setattr(module, "cast_input_dtype_enabled", False)  # noqa: B010


def _config(settings: LoraSettings) -> LoraConfig:
    targets = settings.targets if isinstance(settings.targets, str) else list(settings.targets)
    return LoraConfig(
        r=settings.rank, lora_alpha=settings.alpha, target_modules=targets, lora_dropout=0.0, task_type="CAUSAL_LM"
    )


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


@contextmanager
def _quiet() -> Iterator[None]:
    """Say nothing of names that transformers is about to drop, and that peft still asks for."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        yield

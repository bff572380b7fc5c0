"""The policy in training: a causal language model from a folder, read as the trainer needs it.

All that is computed goes through `PolicyModel.forward`, the head included, because a model whose parameters are spread over
processes gathers them there.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, overload

import torch
from peft import PeftModel
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

from sandbox.errors import InternalError, UsageError
from trainer.policy import adapters as lora_adapters
from trainer.policy.adapters import ACTOR, CRITIC, Adapters, LoraSettings
from trainer.policy.attention import LENGTHS, NAME
from trainer.policy.identity import Hashes, copy_tokenizer, read_hashes
from trainer.policy.logprobs import ActionLogprobs, head_logprobs
from trainer.policy.packing import PackedBatch

Head = Literal["policy", "value"]

NETWORK_PREFIX = "network."
"""What the names of the network's parameters begin with in a `PolicyModel`'s state."""

_FULL_ATTENTION = "full_attention"
_RESHAPED = ("logits_scaling", "logit_scale", "final_logit_softcapping")
_DTYPES = (torch.float32, torch.bfloat16)


class PolicyModel(nn.Module):
    """A language model with, if it shares them with a critic, the critic's adapter and head.

    Attributes:
        network: The model as transformers, or peft, knows it.
        tokenizer: Its tokenizer.
        folder: Where it was read from.
        dtype: What it computes in; the weights in training are kept in single precision.
        hashes: What it is known by. Whoever changes the weights gives them another name.
        value_head: What makes values of hidden states, or None.
    """

    def __init__(
        self,
        network: nn.Module,
        tokenizer: Any,
        folder: Path,
        hashes: Hashes,
        dtype: torch.dtype,
        adapters: Adapters | None,
    ) -> None:
        super().__init__()
        self.network = network
        self.tokenizer = tokenizer
        self.folder = folder
        self.hashes = hashes
        self.dtype = dtype
        self.adapters = adapters
        self.value_head: nn.Module | None = None
        self._is_reference = False

    @property
    def base(self) -> Any:
        """The language model itself, with the adapters' layers in it where there are some."""
        network: Any = self.network
        return network.get_base_model() if self.adapters else network

    @property
    def layers(self) -> nn.ModuleList:
        """The layers of the decoder, which are sharded and recomputed one by one."""
        layers: nn.ModuleList = self.base.get_decoder().layers
        return layers

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.network.parameters()).device

    @overload
    def forward(self, batch: PackedBatch, head: Literal["policy"] = "policy") -> ActionLogprobs: ...

    @overload
    def forward(self, batch: PackedBatch, head: Literal["value"]) -> Tensor: ...

    def forward(self, batch: PackedBatch, head: Head = "policy") -> ActionLogprobs | Tensor:
        """Read a row of segments.

        Args:
            batch: On the model's device.
            head: ``policy`` for log-probabilities and entropies of the actions, ``value`` for the values of the states
                that they were taken in.

        Returns:
            float32, (actions,) each.
        """
        with self.computing(head):
            hidden = self._hidden(batch)[batch.actions - 1]
            if head == "value":
                if self.value_head is None:
                    raise InternalError("This model has no critic beside it.")
                values: Tensor = self.value_head(hidden)
                return values
            output = self.base.get_output_embeddings()
            return head_logprobs(hidden, output.weight, output.bias, batch.targets, batch.temperature)

    def trained(self) -> list[tuple[str, nn.Parameter]]:
        """Return the parameters of the policy that an optimizer changes, with their names in ``state_dict``."""
        named = self.adapters.parameters(ACTOR) if self.adapters else self.network.named_parameters()
        return [(f"{NETWORK_PREFIX}{name}", value) for name, value in named]

    @contextmanager
    def computing(self, head: Head = "policy") -> Iterator[None]:
        """Choose the adapter of a head and the type to compute in, for whoever calls the network itself."""
        adapter: AbstractContextManager[None] = nullcontext()
        if self.adapters and not self._is_reference:
            adapter = self.adapters.using(CRITIC if head == "value" else ACTOR)
        autocast = torch.autocast(self.device.type, dtype=self.dtype, enabled=self.dtype != torch.float32)
        with adapter, autocast:
            yield

    @contextmanager
    def reference(self) -> Iterator[None]:
        """Compute without adapters, as the model was before training.

        Raises:
            InternalError: All weights are trained; then the reference is a model of its own.
        """
        if self.adapters is None:
            raise InternalError("Where all weights are trained, the reference is loaded as a model of its own.")
        self._is_reference = True
        try:
            with self.adapters.using(None):
                yield
        finally:
            self._is_reference = False

    def save(self, folder: Path, state_dict: dict[str, Tensor] | None = None) -> None:
        """Write the policy: the whole model, or its adapter, which names the folder of its base.

        Args:
            folder: Made if it does not exist.
            state_dict: This module's state, where its parameters are spread over processes.
        """
        folder.mkdir(parents=True, exist_ok=True)
        state = None if state_dict is None else network_state(state_dict)
        if self.adapters:
            self.adapters.write(ACTOR, folder, state)
        else:
            self.base.save_pretrained(folder, state_dict=state and self._without_twins(state))
        copy_tokenizer(self.folder, folder)

    def _without_twins(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        """Leave out the second names of shared weights, which are copies where a state was gathered."""
        every = {name for name, _ in self.base.named_parameters(remove_duplicate=False)}
        twins = every - {name for name, _ in self.base.named_parameters()}
        return {name: value for name, value in state.items() if name not in twins}

    def drop_language_head(self) -> None:
        """Forget the head over the vocabulary, which a critic has no use for."""
        self.base.set_output_embeddings(nn.Identity())

    def recompute_each_layer(self) -> None:
        """Keep only the inputs of the layers for the way back, and compute a layer again when its turn comes."""
        for layer in self.layers:
            layer.forward = self._recomputed(layer.forward)

    def _hidden(self, batch: PackedBatch) -> Tensor:
        """Return the last hidden states of a row, (tokens, width)."""
        output = self.base.get_decoder()(
            input_ids=batch.ids[None],
            position_ids=batch.positions[None],
            use_cache=False,  # with a cache, transformers would take the row for one sequence
            **{LENGTHS: batch.lengths},
        )
        hidden: Tensor = output.last_hidden_state[0]
        return hidden

    def _recomputed(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(forward)
        def run(*arguments: Any, **named: Any) -> Any:
            if not torch.is_grad_enabled():
                return forward(*arguments, **named)
            return checkpoint(
                forward,
                *arguments,
                use_reentrant=False,
                preserve_rng_state=False,
                context_fn=self._recomputing,
                **named,
            )

        return run

    def _recomputing(self) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        """Recompute with the adapter of the way out, whichever is in use by then."""
        if self.adapters is None:
            return nullcontext(), nullcontext()
        return nullcontext(), self.adapters.using(self.adapters.active)


def load_policy(
    path: Path | str,
    *,
    lora: LoraSettings | None = None,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
    checkpointing: bool = True,
) -> PolicyModel:
    """Load a policy from a folder in transformers' form, or from one with an adapter that names such a folder.

    Args:
        path: The folder; never the name of something to download.
        lora: The adapter to train; None trains all weights. An adapter that the folder holds goes on being trained as it
            is where one is asked for, and becomes part of the weights where none is.
        dtype: What is computed in: float32 or bfloat16. Weights in training are kept in float32 in any case.
        device: Where.
        checkpointing: Whether layers are computed again on the way back, instead of keeping all that they computed.

    Raises:
        UsageError: There is no such model, its adapter has another rank, or it is not one whose segments stay apart in a row
            and whose logits are its head's.
    """
    if dtype not in _DTYPES:
        raise UsageError(f"A policy is trained in float32 or bfloat16, not in {dtype}.")
    folder = Path(path).resolve()
    adapter = _adapter_base(folder)
    _refuse_without_model(adapter or folder)
    hashes = _hashes(folder, adapter)
    network = _read_network(adapter or folder, torch.float32 if lora is None else dtype)
    if adapter:
        network = lora_adapters.read_actor(network, folder)
        if lora:
            _refuse_other_rank(network, lora, folder)
        else:
            network = network.merge_and_unload()
    elif lora:
        network = lora_adapters.add_actor(network, lora)
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    policy = make_policy(network.to(device), tokenizer, folder, hashes, dtype, checkpointing=checkpointing)
    refuse_what_leaks(policy)
    _refuse_other_logits(policy)
    return policy


def make_policy(
    network: Any, tokenizer: Any, folder: Path, hashes: Hashes, dtype: torch.dtype, *, checkpointing: bool = True
) -> PolicyModel:
    """Make a policy of a network that is on its device already, with the actor's adapter over it or without.

    On a GPU, a policy in bfloat16 has its head multiply on tensor cores (TF32, single-precision sums), with three more bits
    than all else is computed with there, at many times the speed of full single precision; this is set for the process.
    """
    adapters = Adapters(network) if isinstance(network, PeftModel) else None
    if adapters and dtype != torch.float32:
        lora_adapters.compute_in(network)
    if network.device.type == "cuda":
        torch.set_float32_matmul_precision("highest" if dtype == torch.float32 else "high")
    policy = PolicyModel(network, tokenizer, folder, hashes, dtype, adapters).eval()
    if checkpointing:
        policy.recompute_each_layer()
    return policy


def network_state(state_dict: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the part of a `PolicyModel`'s state that is its network's, by the network's own names."""
    return {
        name.removeprefix(NETWORK_PREFIX): value
        for name, value in state_dict.items()
        if name.startswith(NETWORK_PREFIX)
    }


def refuse_what_leaks(policy: PolicyModel) -> None:
    """Read two rows that differ in their first segment only, and see that the second one's states do not.

    Raises:
        UsageError: They do, or the architecture has attention of another kind than full.
    """
    config = policy.base.config
    kinds = set(getattr(config, "layer_types", None) or [_FULL_ATTENTION])
    window = getattr(config, "sliding_window", None)
    if window and not hasattr(config, "layer_types") and window < config.max_position_embeddings:
        kinds.add("sliding_attention")
    length = 4
    ids = torch.arange(3 * length, device=policy.device) % policy.base.config.vocab_size
    positions = torch.arange(length, device=policy.device).repeat(2)
    nothing = torch.empty(0, device=policy.device)
    row = PackedBatch(ids[: 2 * length], positions, nothing.long(), nothing, (length, length), (0, 0), (0, 1))
    other = replace(row, ids=torch.cat([ids[2 * length :], row.ids[length:]]))
    with torch.no_grad(), policy.computing("policy"):
        states = [policy._hidden(one)[length:] for one in (row, other)]
    if kinds != {_FULL_ATTENTION} or not torch.equal(*states):
        raise UsageError(
            f"Packed segments of a {type(policy.base).__name__} would see each other.",
            where=str(policy.folder),
            next_step="Train a model with full attention in all layers, such as Llama, Qwen2 or Qwen3.",
        )


def _refuse_other_logits(policy: PolicyModel) -> None:
    """Refuse a model whose logits are more than its head's product: `head_logprobs` would score them wrongly."""
    for name in _RESHAPED:
        if (value := getattr(policy.base.config, name, None)) not in (None, 1.0):
            raise UsageError(
                f"The logits of a {type(policy.base).__name__} are scaled ({name}={value}), which the trainer does not do.",
                where=str(policy.folder),
                next_step="Train a model whose logits are those of its head, such as Llama, Qwen2 or Qwen3.",
            )


def _refuse_other_rank(network: PeftModel, lora: LoraSettings, folder: Path) -> None:
    rank: int = getattr(network.peft_config[ACTOR], "r")  # noqa: B009 - peft tells the type of no adapter
    if rank != lora.rank:
        raise UsageError(
            f"The adapter in this folder has rank {rank}, and {lora.rank} is asked for.",
            where=str(folder),
            next_step=f"Go on with it (--lora {rank}), or leave --lora out, which makes it part of the weights.",
        )


def _refuse_without_model(folder: Path) -> None:
    if not (folder / "config.json").is_file():
        raise UsageError(
            "There is no model in this folder: it has no config.json.",
            where=str(folder),
            next_step="Name a folder that transformers' save_pretrained wrote; nothing is downloaded.",
        )


def _read_network(folder: Path, dtype: torch.dtype) -> Any:
    config = json.loads((folder / "config.json").read_text())
    dropouts = {name: 0.0 for name in config if name.endswith("dropout") and isinstance(config[name], int | float)}
    logging.disable_progress_bar()
    return AutoModelForCausalLM.from_pretrained(
        folder, dtype=dtype, attn_implementation=NAME, local_files_only=True, **dropouts
    )


def _adapter_base(folder: Path) -> Path | None:
    """Return the folder of the model that an adapter's folder belongs over; None if it holds a whole model."""
    config = folder / lora_adapters.CONFIG
    return Path(json.loads(config.read_text())["base_model_name_or_path"]) if config.is_file() else None


def _hashes(folder: Path, base: Path | None) -> Hashes:
    hashes = read_hashes(folder)
    return replace(hashes, weights=f"{read_hashes(base).weights}+{hashes.weights}") if base else hashes

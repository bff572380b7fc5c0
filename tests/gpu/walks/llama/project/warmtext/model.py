"""A small Llama with random weights, with this project's own copy of its norm."""

import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

from warmtext.norm import LlamaRMSNorm


def make_model(hidden: int, layers: int, seed: int = 0) -> LlamaForCausalLM:
    """Return a Llama in eval mode whose norms are ours."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=2048,
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 64,
        num_key_value_heads=max(1, hidden // 256),
        max_position_embeddings=4096,
    )
    model = LlamaForCausalLM(config)
    _take_our_norm(model)
    return model.eval()


def _take_our_norm(module: nn.Module) -> None:
    for name, child in module.named_children():
        if type(child).__name__ == "LlamaRMSNorm":
            ours = LlamaRMSNorm(child.weight.shape[0], eps=child.variance_epsilon)
            ours.load_state_dict(child.state_dict())
            setattr(module, name, ours)
        else:
            _take_our_norm(child)

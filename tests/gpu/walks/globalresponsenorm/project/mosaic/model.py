"""A small masked-token image model with random weights, with this project's own copy of its response norm."""

import torch
from diffusers import UVit2DModel
from torch import nn

from mosaic.norm import GlobalResponseNorm

TOKENS = 256
MASK = TOKENS


def make_model(width: int = 128, layers: int = 2, seed: int = 0) -> UVit2DModel:
    """Return it in eval mode; its norms have weights as training leaves them, and not the zeros that they begin with."""
    torch.manual_seed(seed)
    model = UVit2DModel(
        hidden_size=width,
        encoder_hidden_size=64,
        intermediate_size=2 * width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        codebook_size=TOKENS,
        vocab_size=TOKENS + 1,
        block_out_channels=width,
        block_num_heads=4,
        in_channels=width,
        cond_embed_dim=64,
        micro_cond_encode_dim=32,
        micro_cond_embed_dim=160,
    )
    _take_our_norm(model)
    return model.eval()


def _take_our_norm(module: nn.Module) -> None:
    for name, child in module.named_children():
        if type(child).__name__ == "GlobalResponseNorm":
            ours = GlobalResponseNorm(child.gamma.shape[-1])
            nn.init.normal_(ours.gamma, std=0.5)
            nn.init.normal_(ours.beta, std=0.1)
            setattr(module, name, ours)
        else:
            _take_our_norm(child)

"""A small text-conditioned UNet with random weights, with this project's own copy of its gated activation."""

import torch
from diffusers import UNet2DConditionModel
from torch import nn

from dreamer.activations import GEGLU


def make_model(seed: int = 0) -> UNet2DConditionModel:
    """Return it in eval mode."""
    torch.manual_seed(seed)
    model = UNet2DConditionModel(
        sample_size=32,
        block_out_channels=(64, 128),
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        layers_per_block=1,
        cross_attention_dim=64,
        attention_head_dim=8,
        norm_num_groups=32,
    )
    _take_our_activation(model)
    return model.eval()


def _take_our_activation(module: nn.Module) -> None:
    for name, child in module.named_children():
        if type(child).__name__ == "GEGLU":
            ours = GEGLU(child.proj.in_features, child.proj.out_features // 2)
            ours.load_state_dict(child.state_dict())
            setattr(module, name, ours)
        else:
            _take_our_activation(child)

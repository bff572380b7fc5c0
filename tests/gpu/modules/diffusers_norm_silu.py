"""GroupNorm and SiLU before the first convolution of a diffusion model's residual block, in bf16.

The operations of ``ResnetBlock2D.forward`` in huggingface/diffusers (Apache-2.0) up to ``conv1``, with the shape of the
first stage of the SDXL UNet: 1024x1024 images, four of them with classifier-free guidance.
"""

import torch
from torch import nn


class Model(nn.Module):
    """``hidden_states`` (N, C, H, W) to the same shape."""

    def __init__(self, in_channels: int, groups: int, eps: float) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(
            num_groups=groups, num_channels=in_channels, eps=eps, affine=True, dtype=torch.bfloat16
        )
        self.nonlinearity = nn.SiLU()

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        hidden_states = self.norm1(hidden_states)
        return self.nonlinearity(hidden_states)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(8, 320, 128, 128, dtype=torch.bfloat16)]


def get_init_inputs() -> list[int | float]:
    return [320, 32, 1e-5]

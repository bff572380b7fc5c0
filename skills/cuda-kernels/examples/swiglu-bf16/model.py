"""The gate of a Llama MLP in bf16: SiLU of one half times the other (after transformers, Apache-2.0)."""

import torch
from torch import nn


class Model(nn.Module):
    """``gate`` and ``up`` (tokens, size), the outputs of two projections, to (tokens, size)."""

    def __init__(self) -> None:
        super().__init__()
        self.act_fn = nn.SiLU()

    def forward(self, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        return self.act_fn(gate) * up


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(1024, 2816, dtype=torch.bfloat16), torch.randn(1024, 2816, dtype=torch.bfloat16)]


def get_init_inputs() -> list[int]:
    return []

"""A small ConvNeXt with random weights, with this project's own copy of its norm."""

import timm
from torch import nn

from pictures.norm import LayerNorm2d


def make_model(name: str = "convnext_atto") -> nn.Module:
    """Return it in eval mode."""
    return timm.create_model(name, pretrained=False, norm_layer=LayerNorm2d).eval()

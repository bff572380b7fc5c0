"""A small ResNet of timm with random weights and without batch statistics, with this project's own copy of its norm."""

import timm
from torch import nn

from pictures.norm import FilterResponseNormTlu2d


def make_model(blocks: int = 1) -> nn.Module:
    """Return it in eval mode, with so many blocks a stage; norms have thresholds as training leaves them, and not only zeros."""
    model = timm.create_model("resnetv2_50d_frn", pretrained=False, layers=[blocks] * 4, norm_layer=_make_norm)
    for module in model.modules():
        if isinstance(module, FilterResponseNormTlu2d):
            nn.init.normal_(module.bias, std=0.1)
            nn.init.normal_(module.tau, std=0.1)
    return model.eval()


def _make_norm(channels: int, **options) -> FilterResponseNormTlu2d:
    """timm takes a class that it does not know by a function alone."""
    return FilterResponseNormTlu2d(channels, **options)

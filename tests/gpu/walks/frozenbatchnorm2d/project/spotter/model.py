"""The backbone of a detector: a ResNet whose BatchNorm is frozen, by this project's own copy of torchvision's class."""

from torch import nn
from torchvision.models import resnet18

from spotter.norm import FrozenBatchNorm2d


def make_backbone() -> nn.Module:
    """Return it in eval mode, with random weights and no head."""
    model = resnet18(weights=None, norm_layer=FrozenBatchNorm2d)
    model.fc = nn.Identity()
    return model.eval()

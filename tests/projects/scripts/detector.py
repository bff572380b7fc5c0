"""Networks of torchvision: a backbone with frozen statistics, and one with squeeze and excitation."""

import torch
from torchvision.models import mobilenet_v3_small, resnet18
from torchvision.ops import FrozenBatchNorm2d

frozen = resnet18(norm_layer=FrozenBatchNorm2d).eval()
mobile = mobilenet_v3_small().eval()
with torch.no_grad():
    for size in (96, 128):
        frozen(torch.randn(2, 3, size, size))
        mobile(torch.randn(2, 3, size, size))

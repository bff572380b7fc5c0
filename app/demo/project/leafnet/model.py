"""LeafNet: ResNet-18 with as many classes as there are trees in the park."""

import torch
from torch import nn

from .blocks import BasicBlock, StemPool


class LeafNet(nn.Module):
    """Convolutional network for photographs of leaves."""

    def __init__(self, kinds: int = 40) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, kernel_size=7, stride=2, padding=3, bias=False)
        self.stem = StemPool(64)
        self.layer1 = nn.Sequential(BasicBlock(64, 64), BasicBlock(64, 64))
        self.layer2 = nn.Sequential(BasicBlock(64, 128, stride=2), BasicBlock(128, 128))
        self.layer3 = nn.Sequential(BasicBlock(128, 256, stride=2), BasicBlock(256, 256))
        self.layer4 = nn.Sequential(BasicBlock(256, 512, stride=2), BasicBlock(512, 512))
        self.head = nn.Linear(512, kinds)

    def forward(self, photos: torch.Tensor) -> torch.Tensor:
        """Photographs (N, 3, H, W) to scores (N, kinds)."""
        x = self.stem(self.conv1(photos))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.head(x.mean(dim=(2, 3)))

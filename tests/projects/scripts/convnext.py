"""A ConvNeXt of timm classifies pictures, in the channels-last layout."""

import timm
import torch

model = timm.create_model("convnext_atto", pretrained=False).eval().to(memory_format=torch.channels_last)
with torch.inference_mode():
    for _ in range(3):
        model(torch.randn(2, 3, 64, 64).to(memory_format=torch.channels_last))

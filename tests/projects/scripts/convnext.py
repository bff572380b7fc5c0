"""A ConvNeXt of timm classifies pictures, in the channels-last layout."""

import timm
import torch

model = timm.create_model("convnext_atto", pretrained=False).eval().to(memory_format=torch.channels_last)
for name, parameter in model.named_parameters():
    if name.endswith("gamma"):  # as training leaves it: it begins at 1e-6, where a block is the identity
        parameter.data.uniform_(0.1, 1.0)
with torch.inference_mode():
    for _ in range(3):
        model(torch.randn(2, 3, 64, 64).to(memory_format=torch.channels_last))

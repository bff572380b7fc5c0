import copy
import os
import pickle
import sys
from pathlib import Path

import pytest
import torch
from torchvision.ops import FrozenBatchNorm2d as Theirs

sys.path.insert(0, str(Path(__file__).parents[1]))
from spotter.model import make_backbone
from spotter.norm import FrozenBatchNorm2d

DEVICE = os.environ.get("PROJECT_DEVICE", "cpu")


def filled(norm):
    torch.manual_seed(0)
    for name, buffer in norm.named_buffers():
        buffer.uniform_(0.5, 2.0) if name == "running_var" else buffer.normal_()
    return norm.to(DEVICE)


@pytest.mark.parametrize("shape", [(4, 64, 112, 112), (4, 64, 56, 56), (2, 64, 7, 5), (4, 128, 28, 28)])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_the_norm_is_that_of_torchvision(shape, layout):
    ours, theirs = filled(FrozenBatchNorm2d(shape[1])), filled(Theirs(shape[1]))
    x = torch.randn(shape, device=DEVICE).to(memory_format=layout)
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-4, atol=1e-4)
    assert ours(x).stride() == theirs(x).stride()


def test_gradients_pass_through_it():
    x = torch.randn(2, 64, 5, 5, device=DEVICE, requires_grad=True)
    filled(FrozenBatchNorm2d(64))(x).sum().backward()
    assert x.grad.abs().sum() > 0


def test_statistics_of_a_batch_norm_are_loaded():
    norm = FrozenBatchNorm2d(8)
    norm.load_state_dict(torch.nn.BatchNorm2d(8).state_dict())
    for other in (copy.deepcopy(norm), pickle.loads(pickle.dumps(norm))):
        assert repr(other) == "FrozenBatchNorm2d(8, eps=1e-05)"


def test_a_backbone_has_features():
    with torch.no_grad():
        assert make_backbone().to(DEVICE)(torch.randn(2, 3, 64, 64, device=DEVICE)).shape == (2, 512)

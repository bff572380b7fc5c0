import copy
import os
import pickle
import sys
from pathlib import Path

import pytest
import torch
from timm.layers import LayerNorm2d as Theirs

sys.path.insert(0, str(Path(__file__).parents[1]))
from pictures.model import make_model
from pictures.norm import LayerNorm2d

DEVICE = os.environ.get("PROJECT_DEVICE", "cpu")


def filled(norm):
    torch.manual_seed(0)
    torch.nn.init.normal_(norm.weight)
    torch.nn.init.normal_(norm.bias)
    return norm.eval().to(DEVICE)


@pytest.mark.parametrize("shape", [(4, 40, 56, 56), (1, 40, 7, 5), (4, 80, 28, 28), (4, 320, 7, 7)])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_the_norm_is_that_of_timm(shape, layout):
    ours, theirs = filled(LayerNorm2d(shape[1])), filled(Theirs(shape[1]))
    x = torch.randn(shape, device=DEVICE).to(memory_format=layout)
    with torch.no_grad():
        torch.testing.assert_close(ours(x), theirs(x))
        assert ours(x).stride() == theirs(x).stride()


def test_it_trains_is_copied_and_pickled():
    norm = filled(LayerNorm2d(16))
    x = torch.randn(2, 16, 5, 5, device=DEVICE, requires_grad=True)
    norm(x).square().sum().backward()
    assert norm.weight.grad.abs().sum() > 0
    for other in (copy.deepcopy(norm), pickle.loads(pickle.dumps(norm))):
        torch.testing.assert_close(other(x), norm(x))


def test_a_model_classifies():
    with torch.no_grad():
        assert make_model().to(DEVICE)(torch.randn(2, 3, 64, 64, device=DEVICE)).shape == (2, 1000)

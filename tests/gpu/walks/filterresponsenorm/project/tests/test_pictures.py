import copy
import os
import pickle
import sys
from pathlib import Path

import pytest
import torch
from timm.layers import FilterResponseNormTlu2d as Theirs

sys.path.insert(0, str(Path(__file__).parents[1]))
from pictures.model import make_model
from pictures.norm import FilterResponseNormTlu2d

DEVICE = os.environ.get("PROJECT_DEVICE", "cpu")


def filled(norm):
    torch.manual_seed(0)
    for each in norm.parameters():
        torch.nn.init.normal_(each)
    return norm.eval().to(DEVICE)


@pytest.mark.parametrize("shape", [(4, 32, 80, 80), (1, 40, 7, 5), (4, 64, 40, 40), (4, 512, 5, 5)])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("apply_act", [True, False])
def test_the_norm_is_that_of_timm(shape, layout, apply_act):
    ours, theirs = (filled(norm(shape[1], apply_act)) for norm in (FilterResponseNormTlu2d, Theirs))
    x = torch.randn(shape, device=DEVICE).to(memory_format=layout)
    with torch.no_grad():
        torch.testing.assert_close(ours(x), theirs(x))
        assert ours(x).stride() == theirs(x).stride()


def test_it_trains_is_copied_and_pickled():
    norm = filled(FilterResponseNormTlu2d(16))
    x = torch.randn(2, 16, 5, 5, device=DEVICE, requires_grad=True)
    norm(x).square().sum().backward()
    assert norm.tau.grad.abs().sum() > 0
    for other in (copy.deepcopy(norm), pickle.loads(pickle.dumps(norm))):
        torch.testing.assert_close(other(x), norm(x))


def test_a_model_classifies():
    with torch.no_grad():
        assert make_model().to(DEVICE)(torch.randn(2, 3, 64, 64, device=DEVICE)).shape == (2, 1000)

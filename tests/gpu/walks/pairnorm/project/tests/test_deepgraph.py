import copy
import os
import pickle
import sys
from pathlib import Path

import pytest
import torch
from torch_geometric.nn import PairNorm as Theirs

sys.path.insert(0, str(Path(__file__).parents[1]))
from deepgraph.model import DeepGCN
from deepgraph.norm import PairNorm

DEVICE = os.environ.get("PROJECT_DEVICE", "cpu")


@pytest.mark.parametrize("options", [{}, {"scale": 2.0}, {"scale_individually": True}, {"eps": 1e-3}])
@pytest.mark.parametrize("shape", [(100, 16), (10_000, 128), (3, 5)])
def test_the_norm_is_that_of_torch_geometric(options, shape):
    torch.manual_seed(0)
    ours, theirs = PairNorm(**options).eval().to(DEVICE), Theirs(**options).eval().to(DEVICE)
    x = torch.randn(shape, device=DEVICE) + 3
    batch = torch.arange(shape[0], device=DEVICE) // 50
    with torch.no_grad():
        torch.testing.assert_close(ours(x), theirs(x))
        torch.testing.assert_close(ours(x, batch), theirs(x, batch))
        torch.testing.assert_close(ours(x, batch, int(batch[-1]) + 1), theirs(x, batch))


def test_it_trains():
    x = torch.randn(20, 8, device=DEVICE, requires_grad=True)
    (PairNorm().to(DEVICE)(x) * x.detach()).sum().backward()
    assert x.grad.abs().sum() > 0


def test_it_is_copied_and_pickled():
    norm, x = PairNorm(scale=3.0).to(DEVICE), torch.randn(20, 8, device=DEVICE)
    for other in (copy.deepcopy(norm), pickle.loads(pickle.dumps(norm))):
        torch.testing.assert_close(other(x), norm(x))


def test_a_network_classifies():
    model = DeepGCN(8, 32, 4, 4).eval().to(DEVICE)
    edges = torch.randint(0, 50, (2, 200), device=DEVICE)
    with torch.no_grad():
        found = model(torch.randn(50, 8, device=DEVICE), edges)
    assert found.shape == (50, 4)
    assert found.isfinite().all()

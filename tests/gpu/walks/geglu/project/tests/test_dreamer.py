import copy
import os
import pickle
import sys
from pathlib import Path

import pytest
import torch
from diffusers.models.activations import GEGLU as Theirs

sys.path.insert(0, str(Path(__file__).parents[1]))
from dreamer.activations import GEGLU
from dreamer.model import make_model

DEVICE = os.environ.get("PROJECT_DEVICE", "cpu")


@pytest.mark.parametrize("shape", [(2, 1024, 64), (1, 7, 64), (2, 256, 128), (5, 64)])
def test_the_activation_is_that_of_diffusers(shape):
    torch.manual_seed(0)
    ours = GEGLU(shape[-1], 4 * shape[-1]).eval().to(DEVICE)
    theirs = Theirs(shape[-1], 4 * shape[-1]).eval().to(DEVICE)
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(shape, device=DEVICE)
    with torch.no_grad():
        torch.testing.assert_close(ours(x), theirs(x), rtol=1e-4, atol=1e-5)


def test_it_trains_is_copied_and_pickled():
    activation = GEGLU(8, 16).to(DEVICE)
    x = torch.randn(4, 8, device=DEVICE)
    activation(x).square().sum().backward()
    assert activation.proj.weight.grad.abs().sum() > 0
    for other in (copy.deepcopy(activation), pickle.loads(pickle.dumps(activation))):
        torch.testing.assert_close(other(x), activation(x))


def test_a_model_predicts_noise():
    model = make_model().to(DEVICE)
    with torch.no_grad():
        words = torch.randn(2, 4, 64, device=DEVICE)
        found = model(torch.randn(2, 4, 16, 16, device=DEVICE), 10, encoder_hidden_states=words).sample
    assert found.shape == (2, 4, 16, 16)

import copy
import os
import pickle
import sys
from pathlib import Path

import torch
from diffusers.models.normalization import GlobalResponseNorm as Theirs

sys.path.insert(0, str(Path(__file__).parents[1]))
from mosaic.model import make_model
from mosaic.norm import GlobalResponseNorm

DEVICE = os.environ.get("PROJECT_DEVICE", "cpu")


def make_norm(width):
    norm = GlobalResponseNorm(width).to(DEVICE)
    torch.nn.init.normal_(norm.gamma)
    torch.nn.init.normal_(norm.beta)
    return norm


def test_the_norm_is_that_of_diffusers():
    torch.manual_seed(0)
    for shape in ((4, 16, 16, 512), (2, 8, 8, 64), (1, 5, 3, 24)):
        ours, theirs = make_norm(shape[-1]), Theirs(shape[-1]).to(DEVICE)
        theirs.load_state_dict(ours.state_dict())
        x = torch.randn(shape, device=DEVICE)
        with torch.no_grad():
            torch.testing.assert_close(ours(x), theirs(x), rtol=1e-4, atol=1e-5)


def test_it_trains():
    norm = make_norm(24)
    x = torch.randn(2, 4, 4, 24, device=DEVICE, requires_grad=True)
    norm(x).square().sum().backward()
    assert norm.gamma.grad.abs().sum() > 0
    assert x.grad.shape == x.shape


def test_it_is_copied_pickled_and_saved(tmp_path):
    norm = make_norm(24)
    x = torch.randn(2, 4, 4, 24, device=DEVICE)
    torch.save(norm.state_dict(), tmp_path / "norm.pt")
    again = GlobalResponseNorm(24).to(DEVICE)
    again.load_state_dict(torch.load(tmp_path / "norm.pt"))
    with torch.no_grad():
        for other in (copy.deepcopy(norm), pickle.loads(pickle.dumps(norm)), again):
            torch.testing.assert_close(other(x), norm(x))


def test_a_model_tells_tokens():
    model = make_model().to(DEVICE)
    tokens = torch.zeros(2, 8, 8, dtype=torch.long, device=DEVICE)
    sizes = torch.tensor([[512.0, 512.0, 0.0, 0.0, 6.0]], device=DEVICE).repeat(2, 1)
    prompts, pooled = torch.randn(2, 12, 64, device=DEVICE), torch.randn(2, 64, device=DEVICE)
    with torch.no_grad():
        logits = model(tokens, encoder_hidden_states=prompts, micro_conds=sizes, pooled_text_emb=pooled)
    assert logits.shape == (2, 256, 8, 8)
    assert logits.isfinite().all()

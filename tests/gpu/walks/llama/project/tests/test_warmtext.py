import copy
import os
import pickle
import sys
from pathlib import Path

import torch
from transformers.models.llama.modeling_llama import LlamaRMSNorm as Theirs

sys.path.insert(0, str(Path(__file__).parents[1]))
from warmtext.model import make_model
from warmtext.norm import LlamaRMSNorm

DEVICE = os.environ.get("PROJECT_DEVICE", "cpu")


def close(found, wanted):
    torch.testing.assert_close(found, wanted, rtol=2e-2 if wanted.dtype is torch.bfloat16 else 1e-4, atol=1e-5)


def test_the_norm_is_that_of_transformers():
    torch.manual_seed(0)
    for dtype in (torch.float32, torch.bfloat16):
        for shape in ((2, 16, 512), (1, 1, 512), (3, 512)):
            ours, theirs = LlamaRMSNorm(512).to(DEVICE, dtype), Theirs(512).to(DEVICE, dtype)
            torch.nn.init.normal_(ours.weight)
            theirs.load_state_dict(ours.state_dict())
            x = torch.randn(shape, device=DEVICE, dtype=dtype)
            with torch.no_grad():
                close(ours(x), theirs(x))


def test_it_trains():
    norm = LlamaRMSNorm(64).to(DEVICE)
    x = torch.randn(4, 64, device=DEVICE, requires_grad=True)
    norm(x).square().sum().backward()
    assert norm.weight.grad.abs().sum() > 0
    assert x.grad.shape == x.shape


def test_it_is_copied_pickled_and_saved(tmp_path):
    norm = LlamaRMSNorm(64, eps=1e-5).to(DEVICE)
    torch.nn.init.normal_(norm.weight)
    x = torch.randn(4, 64, device=DEVICE)
    torch.save(norm.state_dict(), tmp_path / "norm.pt")
    again = LlamaRMSNorm(64, eps=1e-5).to(DEVICE)
    again.load_state_dict(torch.load(tmp_path / "norm.pt"))
    with torch.no_grad():
        for other in (copy.deepcopy(norm), pickle.loads(pickle.dumps(norm)), again):
            close(other(x), norm(x))
    assert "eps=1e-05" in repr(norm)


def test_a_model_scores_texts_and_generates():
    model = make_model(128, 2).to(DEVICE)
    ids = torch.randint(0, 2048, (2, 16), generator=torch.Generator().manual_seed(0)).to(DEVICE)
    with torch.no_grad():
        loss = model(input_ids=ids, labels=ids).loss
        assert 5 < loss.item() < 12
        assert model.generate(ids, max_new_tokens=4, do_sample=False).shape == (2, 20)

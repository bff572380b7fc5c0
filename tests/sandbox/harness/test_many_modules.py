"""Modules as developers have them: each is accepted, and is its own correct candidate in a process of its own state."""

from __future__ import annotations

import pytest
import torch
from warpsmith_harness import values
from warpsmith_harness.candidate import copy_state, load_candidate
from warpsmith_harness.compare import compare, oracle
from warpsmith_harness.original import accept

MODULES = {
    "convolution": ("nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))", "2, 3, 16, 16"),
    "transposed": ("nn.ConvTranspose3d(4, 2, 3, stride=2)", "1, 4, 4, 4, 4"),
    "depthwise": ("nn.Conv1d(8, 8, 5, groups=8, padding=2)", "2, 8, 32"),
    "group norm": ("nn.Sequential(nn.GroupNorm(4, 16), nn.SiLU())", "2, 16, 8, 8"),
    "instance norm": ("nn.InstanceNorm2d(4, affine=True)", "2, 4, 8, 8"),
    "channels last": ("nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last)", "2, 3, 16, 16"),
    "lstm": ("nn.LSTM(16, 8, num_layers=2, bidirectional=True, batch_first=True)", "2, 5, 16"),
    "gru": ("nn.GRU(16, 8)", "5, 2, 16"),
    "encoder layer": ("nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)", "2, 6, 32"),
    "weight norm": ("torch.nn.utils.parametrizations.weight_norm(nn.Linear(16, 8))", "4, 16"),
    "spectral norm": ("torch.nn.utils.parametrizations.spectral_norm(nn.Linear(16, 8))", "4, 16"),
    "mlp": (
        "nn.Sequential(nn.Linear(16, 64), nn.GELU(approximate='tanh'), nn.Dropout(0.1), nn.Linear(64, 16))",
        "4, 16",
    ),
    "softmax": ("nn.Sequential(nn.Linear(16, 64), nn.LogSoftmax(-1))", "4, 16"),
    "pixel shuffle": ("nn.Sequential(nn.PixelShuffle(2), nn.Upsample(scale_factor=2, mode='bilinear'))", "1, 8, 4, 4"),
    "pooling": ("nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Hardswish())", "2, 3, 9, 9"),
}
FORWARDS = {
    "attention": ("F.scaled_dot_product_attention(x, x * 0.5, x + 1, is_causal=True)", "torch.randn(2, 4, 8, 16)"),
    "rms norm": (
        "(x.float() * (x.float().pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt()).type_as(x)",
        "torch.randn(4, 64)",
    ),
    "cross entropy": ("F.cross_entropy(x, y)", "torch.randn(2, 10), torch.randint(0, 10, (2,))"),
    "grid sample": (
        "F.grid_sample(x, y, align_corners=False)",
        "torch.randn(1, 2, 6, 6), torch.rand(1, 4, 4, 2) * 2 - 1",
    ),
    "interpolate": ("F.interpolate(x, size=(7, 5), mode='bicubic')", "torch.randn(1, 2, 6, 6)"),
    "scan": ("x.cumsum(-1)", "torch.randn(4, 100)"),
    "scatter": ("torch.zeros_like(x).scatter_add(1, y, x)", "torch.randn(4, 8), torch.randint(0, 8, (4, 8))"),
    "einsum": ("torch.einsum('bij,bjk->bik', x, y)", "torch.randn(2, 3, 4), torch.randn(2, 4, 5)"),
    "autocast": ("torch.autocast('cpu', torch.bfloat16)(F.linear)(x, y)", "torch.randn(4, 16), torch.randn(8, 16)"),
    "topk": ("torch.topk(x, 3)", "torch.randn(4, 64)"),
    "views": ("x.view(4, 2, 32).transpose(1, 2)", "torch.randn(4, 64)"),
    "in place": ("x.clone().add_(1).mul_(y)", "torch.randn(4, 64), torch.randn(64)"),
}


def _source(body: str, made: str = "None") -> str:
    return f"""
F = nn.functional
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = {made}
    def forward(self, x, y=None):
        return {body}
"""


def _cases():
    for name, (made, shape) in MODULES.items():
        yield pytest.param(_source("self.inner(x)", made), f"torch.randn({shape})", id=name)
    for name, (body, inputs) in FORWARDS.items():
        yield pytest.param(_source(body), inputs, id=name)


@pytest.mark.parametrize(("source", "inputs"), _cases())
@pytest.mark.parametrize("dtype", ["", "bfloat16"])
def test_is_accepted_and_is_its_own_candidate(make_task, tmp_path, source, inputs, dtype) -> None:
    task = make_task(source, inputs=inputs, dtype=dtype)
    facts = accept(task)
    assert facts["depends_on"]
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "lone_block.py").write_text("import torch\nfrom torch import nn\n" + source)
    candidate = load_candidate(task, str(folder), None)
    reference = task.reference()
    values.randomise_state(reference, facts["state_strength"])
    copy_state(reference, candidate)
    args, kwargs = task.inputs()
    exact = oracle(task, reference, args, kwargs)
    expected, structure = values.flatten(task.forward(reference, args, kwargs))
    with torch.no_grad():
        got, got_structure = values.flatten(candidate(*args, **kwargs))
    assert values.same_structure(structure, got_structure) == ""
    assert compare(got, expected, exact.outputs, rows=exact.rows)["reason"] == ""
    for tensor in expected:
        assert torch.isfinite(tensor).all()

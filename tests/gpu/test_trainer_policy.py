"""On a GPU: segments of a row stay apart in both types, attention of long segments stays small, the head stays exact."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from trainer.data.episode import Segment
from trainer.policy.adapters import LoraSettings
from trainer.policy.critic import Bounds, critic_beside
from trainer.policy.logprobs import head_logprobs
from trainer.policy.model import load_policy
from trainer.policy.packing import pack
from trainer.policy.tiny import write_tiny_policy

pytestmark = pytest.mark.gpu

LENGTHS = (300, 77, 1024, 5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_policy(tmp_path_factory.mktemp("tiny"), width=256)


def segment(length: int, share: float = 0.5) -> Segment:
    rng = np.random.default_rng(length)
    action = rng.random(length) < share
    action[[0, 1]] = [False, True]
    ids = rng.integers(0, 2000, length, dtype=np.int32)
    return Segment(ids, action, np.full(length, np.nan, np.float32), action.astype(np.int32))


@pytest.mark.parametrize(("dtype", "near"), [(torch.float32, 1e-4), (torch.bfloat16, 0.05)])
@pytest.mark.parametrize("lora", [None, LoraSettings(rank=4)], ids=["all", "adapter"])
def test_packed_equals_unpacked(folder: Path, dtype: torch.dtype, near: float, lora: LoraSettings | None):
    policy = load_policy(folder, dtype=dtype, device="cuda", lora=lora)  # it looks for leaks itself, bit by bit
    segments = [segment(length) for length in LENGTHS]
    with torch.no_grad():
        [row] = pack(segments, 10_000)
        together = policy(row.to("cuda")).logp
        alone = torch.cat([policy(pack([one], 10_000)[0].to("cuda")).logp for one in segments])
    error = float((together - alone).abs().max())
    print(f"\n{dtype}: packed and alone differ by {error:.2e} at most")
    assert error < near


def test_policy_and_critic_beside_have_gradients(folder: Path):
    policy = load_policy(folder, dtype=torch.bfloat16, device="cuda", lora=LoraSettings(rank=4))
    critic = critic_beside(policy, Bounds())
    row = pack([segment(length) for length in LENGTHS], 10_000)[0].to("cuda")
    (policy(row).logp.sum() + critic(row).sum()).backward()
    assert all(
        value.grad is not None and value.grad.isfinite().all() for _, value in policy.trained() + critic.trained()
    )


def test_the_memory_of_attention_grows_with_the_length_and_not_with_its_square(folder: Path):
    policy = load_policy(folder, dtype=torch.bfloat16, device="cuda")
    peaks = []
    for length in (32_768, 65_536):
        row = pack([segment(length, share=0.01)], length)[0].to("cuda")
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        policy(row).logp.sum().backward()
        policy.zero_grad(set_to_none=True)
        peaks.append(torch.cuda.max_memory_allocated() - before)
    print(f"\n{peaks[0] / 2**20:.0f} MiB for half, {peaks[1] / 2**20:.0f} MiB for the whole")
    assert peaks[1] < 2.5 * peaks[0]


def test_a_head_on_tensor_cores_is_far_more_exact_than_bfloat16_is():
    torch.manual_seed(0)
    hidden, weight = torch.randn(512, 1536, device="cuda"), torch.randn(50_000, 1536, device="cuda") / 1536**0.5 * 2
    targets, heat = torch.randint(50_000, (512,), device="cuda"), torch.ones(512, device="cuda")
    exact = (hidden.double() @ weight.double().T).log_softmax(-1).gather(-1, targets[:, None]).squeeze(-1)
    errors = {}
    before = torch.get_float32_matmul_precision()
    try:
        for precision in ("highest", "high"):
            torch.set_float32_matmul_precision(precision)
            errors[precision] = head_logprobs(hidden, weight, None, targets, heat).logp.sub(exact).abs().max().item()
    finally:
        torch.set_float32_matmul_precision(before)
    rounded = (hidden.bfloat16() @ weight.bfloat16().T).float().log_softmax(-1).gather(-1, targets[:, None]).squeeze(-1)
    errors["bfloat16"] = rounded.sub(exact).abs().max().item()
    print("\n" + ", ".join(f"{name}: {error:.1e}" for name, error in errors.items()))
    assert errors["highest"] < 1e-4
    assert errors["high"] < 0.2 * errors["bfloat16"]

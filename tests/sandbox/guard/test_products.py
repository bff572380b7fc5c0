"""Products of torch's matrix library are told of by the library itself, whoever calls it; nothing else is."""

from __future__ import annotations

import pytest
import torch
from warpsmith_harness.products import can_tell, telling_products

from sandbox.guard.products import borrowed_products


@pytest.fixture
def told(capfd: pytest.CaptureFixture[str]) -> pytest.CaptureFixture[str]:
    if not can_tell():
        pytest.skip("this torch has no matrix library that tells of its calls")
    return capfd


def test_a_product_that_no_operator_was_seen_to_ask_for_is_told(told: pytest.CaptureFixture[str]) -> None:
    with telling_products(), torch._C._DisableTorchDispatch():
        torch.mm(torch.ones(64, 64), torch.ones(64, 64))
    [found] = borrowed_products(told.readouterr().out)
    assert (found.rule, found.severity) == ("delegation", "reject")
    assert "GEMM" in found.evidence


def test_what_an_own_kernels_module_may_do_is_no_product(told: pytest.CaptureFixture[str]) -> None:
    with telling_products():
        torch.zeros(64, 64).t().contiguous().copy_(torch.ones(64)).to(torch.float64).fill_(2.0)
    torch.mm(torch.ones(64, 64), torch.ones(64, 64))  # nobody listens any more
    assert borrowed_products(told.readouterr().out) == []

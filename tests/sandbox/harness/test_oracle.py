"""The float64 oracle on modules that name dtypes, refuse float64, are too large or hold odd things."""

from __future__ import annotations

import pytest
import torch
from warpsmith_harness import oracle as oracle_module
from warpsmith_harness.compare import compare
from warpsmith_harness.oracle import oracle


def ask(task):
    reference = task.reference()
    args, kwargs = task.inputs()
    return oracle(task, reference, args, kwargs), task.forward(reference, args, kwargs), (reference, args, kwargs)


@pytest.mark.parametrize(
    ("forward", "expected"),
    [
        (
            "(x.float().pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt().type_as(x) * x",
            lambda x: x * (x.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt(),
        ),
        ("torch.softmax(x, dim=-1, dtype=torch.float32).to(x.dtype)", lambda x: torch.softmax(x, dim=-1)),
        ("x / 3 + torch.zeros(64, dtype=torch.float32)", lambda x: x / 3),
        ("(x.to(torch.float16) / 3).to(torch.float32)", lambda x: x / 3),
        ("x * torch.tensor(0.1) + torch.full((64,), 0.3)", lambda x: x * 0.1 + 0.3),
        ("x.to(device=torch.device('cpu'), dtype=torch.float).half().exp().float()", torch.exp),
        ("torch.polar(x.abs(), x).to(torch.complex64).real", lambda x: x.abs() * x.cos()),
    ],
)
def test_every_dtype_the_code_names_is_raised(make_task, forward, expected) -> None:
    """In float64 from end to end, the answer carries float64's precision, which one cast on the way would lose."""
    found, output, (_, (x,), _) = ask(
        make_task(f"class Block(nn.Module):\n    def forward(self, x):\n        return {forward}\n")
    )
    assert found.notes == ()
    assert torch.allclose(found.outputs[0], expected(x.double()), rtol=1e-14, atol=1e-14)
    assert not torch.allclose(output.double(), expected(x.double()), rtol=1e-14, atol=1e-14)


def test_plain_tensors_of_the_module_are_raised(make_task) -> None:
    source = """
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Identity()
            self.inner.table = torch.linspace(0, 1, 64)
            self.weight = nn.Parameter(torch.randn(64, 64))
        def forward(self, x):
            return (x * self.inner.table) @ self.weight
    """
    found, _, (reference, _, _) = ask(make_task(source))
    assert found.outputs[0].dtype == torch.float64
    assert reference.inner.table.dtype == torch.float32
    assert reference.weight.dtype == torch.float32


def test_integers_complex_and_nested_outputs(make_task) -> None:
    source = """
    class Block(nn.Module):
        def forward(self, x):
            return {"spectrum": torch.fft.rfft(x), "best": (x.argmax(-1), x > 0)}
    """
    found, _, _ = ask(make_task(source))
    assert [tensor.dtype for tensor in found.outputs] == [torch.complex128, torch.int64, torch.bool]


def test_neither_state_nor_inputs_change(make_task) -> None:
    source = """
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(64)
        def forward(self, x):
            return self.norm(x.mul_(2))
    """
    task = make_task(source, training=True)
    reference = task.reference()
    args, kwargs = task.inputs()
    before = args[0].clone()
    oracle(task, reference, args, kwargs)
    assert torch.equal(args[0], before)
    assert reference.norm.num_batches_tracked == 0
    assert torch.get_default_dtype() == torch.float32


class TestFallbacks:
    REFUSES = """
    class Block(nn.Module):
        def forward(self, x):
            if x.dtype == torch.float64:
                raise NotImplementedError("this operator has no float64")
            return torch.nn.functional.gelu(x) @ x.transpose(0, 1)
    """

    def test_float32_is_said_and_shows_the_reference_s_own_error(self, make_task) -> None:
        found, output, _ = ask(make_task(self.REFUSES))
        assert found.outputs[0].dtype == torch.float32
        assert "does not run in float64 (NotImplementedError: this operator has no float64)" in found.notes[0]
        own = (found.outputs[0] - output).abs().max()
        assert 0 < own < 1e-4
        assert compare([output], [output], found.outputs)["ok"]

    def test_half_precision_is_raised_to_float32(self, make_task) -> None:
        found, output, _ = ask(make_task(self.REFUSES, dtype="bfloat16"))
        assert found.outputs[0].dtype == torch.float32
        assert "one unit" not in found.notes[0]
        assert (found.outputs[0] - output.float()).abs().max() > 1e-3

    def test_one_dtype_only(self, make_task) -> None:
        source = """
        class Block(nn.Module):
            def forward(self, x):
                if x.dtype != torch.bfloat16:
                    raise NotImplementedError("bfloat16 only")
                return x * 2
        """
        found, output, _ = ask(make_task(source, dtype="bfloat16"))
        assert torch.equal(found.outputs[0], output)
        assert "It is the reference at its own dtype." in found.notes[0]

    def test_modules_that_cannot_be_copied_are_built_again(self, make_task) -> None:
        source = """
        import threading
        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.lock = threading.Lock()
                self.lin = nn.Linear(64, 64)
            def forward(self, x):
                return self.lin(x)
        """
        task = make_task(source)
        reference = task.reference()
        with torch.no_grad():
            reference.lin.weight.mul_(3)
        args, kwargs = task.inputs()
        found = oracle(task, reference, args, kwargs)
        expected = torch.nn.functional.linear(
            args[0].double(), reference.lin.weight.double(), reference.lin.bias.double()
        )
        assert torch.allclose(found.outputs[0], expected)


class TestSampledRows:
    @pytest.fixture(autouse=True)
    def _small_machine(self, monkeypatch) -> None:
        """A device whose memory the test's tensors fill over 30 %: the real rule on numbers that a test can afford."""
        monkeypatch.setattr(oracle_module, "memory", lambda device: 1 << 16)

    def test_rows_that_are_independent(self, make_task) -> None:
        source = "class Block(nn.Module):\n    def forward(self, x, w):\n        return torch.relu(x @ w)\n"
        task = make_task(source, inputs="torch.randn(64, 32), torch.randn(32, 32)")
        found, output, _ = ask(task)
        assert found.rows is not None
        assert found.outputs[0].shape == (16, 32)
        assert "16 of 64 rows" in found.notes[0]
        assert compare([output], [output], found.outputs, rows=found.rows)["ok"]

    def test_an_error_outside_the_sample_is_found(self, make_task) -> None:
        source = "class Block(nn.Module):\n    def forward(self, x, w):\n        return torch.relu(x @ w)\n"
        task = make_task(source, inputs="torch.randn(64, 32), torch.randn(32, 32)")
        found, output, _ = ask(task)
        outside = next(row for row in range(64) if row not in found.rows.tolist())
        wrong = output.clone()
        wrong[outside, 3] += 0.1
        result = compare([wrong], [output], found.outputs, rows=found.rows)
        assert f"the first at [{outside}, 3]" in result["reason"]

    @pytest.mark.parametrize(
        ("forward", "inputs"),
        [
            ("x - x.mean(0)", "torch.randn(64, 64)"),
            ("x.sum(0)", "torch.randn(64, 64)"),
            ("x * 2", "torch.randn(8, 4096)"),
        ],
    )
    def test_rows_that_are_not(self, make_task, forward, inputs) -> None:
        task = make_task(
            f"class Block(nn.Module):\n    def forward(self, x):\n        return {forward}\n", inputs=inputs
        )
        found, output, _ = ask(task)
        assert found.rows is None
        assert found.outputs[0].shape == output.shape


def test_memory_of_this_machine() -> None:
    assert oracle_module.memory(torch.device("cpu")) > 1 << 28

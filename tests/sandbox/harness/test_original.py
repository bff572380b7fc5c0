"""Which references can be judged against, and what is found out about them."""

from __future__ import annotations

import json

import pytest
import torch
from warpsmith_harness.original import accept, profile
from warpsmith_harness.problems import TaskProblem

FUSED = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(64)
        self.lin = nn.Linear(64, 64)
    def forward(self, x, residual=None):
        out = torch.nn.functional.gelu(self.lin(self.norm(x)))
        return out if residual is None else out + residual
"""


def forward(body: str, before: str = "pass") -> str:
    """Return a module whose forward is one expression of x and y, in line 7."""
    return f"""
class Block(nn.Module):
    def __init__(self):
        super().__init__(); {before}
    def forward(self, x, y=None):
        return {body}
"""


class TestAccepted:
    def test_facts(self, make_task) -> None:
        facts = accept(make_task(FUSED, inputs="torch.randn(8, 64), residual=torch.randn(8, 64)"))
        assert facts["depends_on"] == ["x", "residual", "norm.weight", "norm.bias", "lin.weight", "lin.bias"]
        assert facts["ignores"] == []
        assert facts["notes"] == []
        assert facts["mutates"] == []
        assert facts["precision"] == "fp32"
        assert facts["state_strength"] == 1.0
        assert facts["bytes_moved"] == 4 * (3 * 8 * 64 + 64 * 64 + 3 * 64)
        assert facts["least_bytes"] == facts["bytes_moved"]
        assert facts["signature"][:2] == ["x: float32 [8, 64] contiguous", "residual: float32 [8, 64] contiguous"]
        assert facts["signature"][-1] == "output: float32 [8, 64] contiguous"
        json.dumps(facts)

    def test_names_of_nested_inputs_and_outputs(self, make_task) -> None:
        source = """
        class Block(nn.Module):
            def forward(self, pair, *rest, **options):
                return {"sum": pair[0] + pair[1] + rest[0], "none": None, "n": 3, "more": [options["bias"] * 2]}
        """
        inputs = "(torch.randn(4), torch.randn(4)), torch.randn(4), bias=torch.randn(4)"
        facts = accept(make_task(source, inputs=inputs))
        assert facts["depends_on"] == ["pair[0]", "pair[1]", "args[1]", "bias"]
        assert [line.split(":")[0] for line in facts["signature"][-2:]] == ["output 0", "output 1"]

    @pytest.mark.parametrize(
        ("body", "inputs"),
        [
            ("x.argmax(-1)", "torch.randn(50, 64)"),
            ("x > 0", "torch.randn(50, 64)"),
            ("torch.fft.rfft(x)", "torch.randn(8, 64)"),
            ("(x.exp(), x.topk(3).indices)", "torch.randn(8, 64)"),
            ("x.sort(dim=-1)", "torch.randn(8, 64)"),
            ("x[:, ::2].transpose(0, 1) * 2", "torch.randn(8, 64)"),
            ("x * 2", "torch.randn(8, 64, dtype=torch.complex64)"),
            ("torch.relu(x)", "torch.randn(1, 64).expand(8, 64)"),
            ("x.sum()", "torch.rand(8, 64)"),
            ("x.sum().expand(5)", "torch.rand(8, 64)"),
        ],
    )
    def test_outputs_of_every_kind(self, make_task, body, inputs) -> None:
        assert accept(make_task(forward(body), inputs=inputs))["depends_on"] == ["x"]

    def test_tied_weights_and_buffers(self, make_task) -> None:
        source = """
        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.emb = nn.Embedding(50, 16)
                self.head = nn.Linear(16, 50, bias=False)
                self.head.weight = self.emb.weight
                self.norm = nn.BatchNorm1d(16)
                self.register_buffer("scale", torch.full((16,), 2.0), persistent=False)
            def forward(self, ids):
                return self.head(self.norm(self.emb(ids)) * self.scale)
        """
        facts = accept(make_task(source, inputs="torch.randint(0, 50, (32,))"))
        assert facts["depends_on"] == [
            "ids", "emb.weight", "norm.weight", "norm.bias", "scale", "norm.running_mean", "norm.running_var",
        ]  # fmt: skip
        assert facts["ignores"] == ["norm.num_batches_tracked"]

    def test_embedding_counts_the_rows_it_looks_up(self, make_task) -> None:
        source = forward("self.emb(x)", "self.emb = nn.Embedding(100000, 16)")
        facts = accept(make_task(source, inputs="torch.randint(0, 100000, (32,))"))
        assert facts["bytes_moved"] == 32 * 8 + 2 * 32 * 16 * 4

    def test_a_part_of_the_input_bounds_the_bytes(self, make_task) -> None:
        facts = accept(make_task(forward("x[:, 0] * 2"), inputs="torch.randn(8, 64)"))
        assert facts["bytes_moved"] == 4 * (8 * 64 + 8)
        assert facts["least_bytes"] == 4 * (8 + 8)

    def test_ignored_inputs_and_parameters_are_named(self, make_task) -> None:
        """A bias in front of a normalisation over the batch has no effect but rounding."""
        source = """
        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.lin = nn.Linear(64, 64)
                self.unused = nn.Parameter(torch.ones(3))
                self.norm = nn.BatchNorm1d(64, track_running_stats=False)
            def forward(self, x, y):
                return self.norm(self.lin(x))
        """
        facts = accept(make_task(source, inputs="torch.randn(32, 64), torch.randn(3)"))
        assert facts["ignores"] == ["y", "unused", "lin.bias"]

    def test_zero_initialised_gates_are_seen_through(self, make_task) -> None:
        """K33: at its initial values the output would not depend on x's branch at all."""
        source = forward("self.gate * torch.tanh(x)", "self.gate = nn.Parameter(torch.zeros(64))")
        assert accept(make_task(source))["depends_on"] == ["x", "gate"]

    def test_masks_and_offsets(self, make_task) -> None:
        source = """
        class Block(nn.Module):
            def forward(self, x, mask, at):
                return x.masked_fill(mask, 0.0).index_select(0, at)
        """
        facts = accept(make_task(source, inputs="torch.randn(8, 8), torch.ones(8, 8).triu(1).bool(), torch.arange(4)"))
        assert facts["depends_on"] == ["x", "mask", "at"]
        assert facts["notes"] == ["Whether the output depends on at was not tested; it is taken to."]

    def test_one_constant_output_is_a_note(self, make_task) -> None:
        facts = accept(make_task(forward("(x * 2, torch.softmax(x, -1).sum(-1))")))
        assert "Outputs that do not depend on the inputs: 1." in facts["notes"]

    @pytest.mark.parametrize(("dtype", "expected"), [("bfloat16", "bf16"), ("float16", "fp16"), ("float64", "fp64")])
    def test_precision_follows_the_dtype(self, make_task, dtype, expected) -> None:
        assert accept(make_task(FUSED, dtype=dtype))["precision"] == expected


class TestItsOwnState:
    def test_train_mode_changes_buffers_and_is_accepted(self, make_task) -> None:
        source = forward("self.norm(x)", "self.norm = nn.BatchNorm1d(64)")
        facts = accept(make_task(source, training=True))
        assert facts["mutates"] == ["norm.running_mean", "norm.running_var", "norm.num_batches_tracked"]
        assert "Its forward changes its buffers: norm.running_mean" in facts["notes"][0]
        assert {"norm.running_mean", "norm.running_var"} <= set(facts["ignores"])

    def test_changing_an_input_is_noted(self, make_task) -> None:
        facts = accept(make_task(forward("x.mul_(2).cumsum(-1)")))
        assert facts["mutates"] == ["x"]
        assert facts["notes"] == ["Its forward changes its own inputs: x."]

    def test_state_that_may_not_be_moved_far(self, make_task) -> None:
        """A parameter whose randomised values make the output infinite is moved less, or not at all."""
        source = forward("x * self.big.exp()", "self.big = nn.Parameter(torch.full((64,), 70.0))")
        facts = accept(make_task(source))
        assert facts["state_strength"] < 1.0

    def test_state_that_may_not_be_moved(self, make_task) -> None:
        source = forward("x.tanh() * (1 - (self.one - 1).abs() * 1e30) ** 9", "self.one = nn.Parameter(torch.ones(64))")
        facts = accept(make_task(source, inputs="torch.randn(8, 64)"))
        assert facts["state_strength"] == 0.0
        assert "Its parameters stay as constructed: with randomised ones its output is not finite." in facts["notes"]


class TestNotDeterministic:
    @pytest.mark.parametrize(
        ("source", "training", "told", "advice"),
        [
            (forward("self.drop(x)", "self.drop = nn.Dropout(0.5)"), True, "drop in train mode", "eval mode"),
            (forward("x + torch.rand_like(x)"), False, "It draws random numbers.", "pass what it draws as an input"),
            (forward("nn.functional.dropout(x)"), False, "It draws random numbers.", "eval mode"),
            (forward("x[: 1 + int(torch.randint(0, 2, ()))]"), False, "It draws random numbers.", "eval mode"),
            (
                forward("x + next(self.steps)", "self.steps = iter(range(10**9))"),
                False,
                "differs between runs",
                "equal",
            ),
        ],
    )
    def test_is_refused_with_its_cause(self, make_task, source, training, told, advice) -> None:
        with pytest.raises(TaskProblem, match="Block is not deterministic") as caught:
            accept(make_task(source, training=training))
        assert told in caught.value.what
        assert advice in caught.value.next_step
        assert "lone_block.py:" in caught.value.where

    def test_dropout_in_eval_mode_is_fine(self, make_task) -> None:
        accept(make_task(forward("self.drop(x) * 2", "self.drop = nn.Dropout(0.5)")))

    def test_rounding_from_run_to_run_is_a_note(self, make_task) -> None:
        """What atomics do: the last bits differ, here by an order that a counter changes."""
        source = forward(
            "x.sum(-1) if next(self.n) % 2 else x.flip(-1).double().sum(-1).float()",
            "self.n = iter(range(10**9))",
        )
        facts = accept(make_task(source, inputs="torch.randn(64, 1001)"))
        assert "units in the last place from run to run" in facts["notes"][0]


class TestTrivial:
    @pytest.mark.parametrize(
        "body",
        [
            "torch.softmax(x, -1).sum(-1)",
            "x - x",
            "x.clamp(max=-99)",
            "torch.ones(3)",
        ],
    )
    def test_output_that_depends_on_nothing(self, make_task, body) -> None:
        with pytest.raises(TaskProblem, match="does not depend on its inputs") as caught:
            accept(make_task(forward(body)))
        assert caught.value.where.endswith(":7")

    def test_output_that_is_rounding_noise(self, make_task) -> None:
        """Zero but for rounding: either no input matters, or zeros are as good."""
        with pytest.raises(TaskProblem, match=r"does not depend on its inputs|A trivial answer passes as Block: zeros"):
            accept(make_task(forward("(x - x.mean(-1, keepdim=True)).mean(-1)")))

    def test_no_input_tensors(self, make_task) -> None:
        with pytest.raises(TaskProblem, match="takes no input tensors"):
            accept(make_task(forward("torch.ones(3) * x"), inputs="2.0"))

    @pytest.mark.parametrize(
        ("body", "answer"),
        [("x + 0", "its input x"), ("y.clone()", "its input y"), ("(x, x + 1e-30)", "its input x")],
    )
    def test_output_that_is_an_input(self, make_task, body, answer) -> None:
        with pytest.raises(TaskProblem, match=f"A trivial answer passes as Block: {answer}"):
            accept(make_task(forward(body), inputs="torch.randn(8, 64), torch.randn(8, 64)"))

    def test_tiny_outputs_under_the_published_tolerance(self, make_task) -> None:
        task = make_task(forward("x * 1e-4"), tolerance="1e-2")
        with pytest.raises(TaskProblem, match=r"does not depend|trivial answer passes as Block: zeros"):
            accept(task)
        assert accept(make_task(forward("x * 1e-4")))["depends_on"] == ["x"]

    def test_steps_that_rounding_flips(self, make_task) -> None:
        """In bfloat16 some values round to the other step, and an error budget of two steps holds the input itself."""
        source = forward("(x / 0.1).round() * 0.1")
        accept(make_task(source, inputs="torch.randn(4, 64)"))
        with pytest.raises(TaskProblem, match="its input x"):
            accept(make_task(source, inputs="torch.randn(64, 64)", dtype="bfloat16"))

    def test_all_nan(self, make_task) -> None:
        with pytest.raises(TaskProblem, match=r"does not depend on its inputs|NaN"):
            accept(make_task(forward("(x - 1e9).sqrt()")))

    def test_zeros_pass_where_almost_everything_is_cut(self, make_task) -> None:
        task = make_task(forward("torch.relu(x - 1.0) * 1e-3"), inputs="torch.rand(64) * 1.0", tolerance="1e-2")
        with pytest.raises(TaskProblem):
            accept(task)


class TestUnusable:
    @pytest.mark.parametrize(
        ("body", "told"),
        [
            ("3.0", "returns no tensor"),
            ("None", "returns no tensor"),
            ("object()", "returns builtins.object"),
            ("x.to_sparse()", "returns a sparse tensor"),
            ("x @ x", "raises RuntimeError"),
        ],
    )
    def test_output(self, make_task, body, told) -> None:
        with pytest.raises(TaskProblem, match=told) as caught:
            accept(make_task(forward(body)))
        assert caught.value.where.endswith((":7", ":8"))
        assert caught.value.next_step

    def test_input_that_cannot_travel(self, make_task) -> None:
        with pytest.raises(TaskProblem, match="cannot be passed on"):
            accept(make_task(forward("x * 2"), inputs="torch.randn(8), object()"))


class TestProfile:
    def test_operators_by_time(self, make_task) -> None:
        task = make_task(FUSED, inputs="torch.randn(256, 64)")
        found = profile(task)
        names = [operator["name"] for operator in found["operators"]]
        assert {"aten::addmm", "aten::native_layer_norm", "aten::gelu"} <= set(names)
        times = [operator["us"] for operator in found["operators"]]
        assert times == sorted(times, reverse=True)
        assert sum(operator["share"] for operator in found["operators"]) == pytest.approx(1.0)
        addmm = next(operator for operator in found["operators"] if operator["name"] == "aten::addmm")
        assert addmm["calls"] == 1
        json.dumps(found)

    def test_calls_of_one_forward(self, make_task) -> None:
        found = profile(make_task(forward("x.exp().exp().exp().tanh()"), inputs="torch.rand(4, 4) - 3"))
        calls = {operator["name"]: operator["calls"] for operator in found["operators"]}
        assert (calls["aten::exp"], calls["aten::tanh"]) == (3, 1)

    def test_what_was_accepted_is_not_examined_again(self, make_task) -> None:
        found = profile(make_task(FUSED), {"bytes_moved": 12, "signature": ["x: ..."]})
        assert (found["bytes_moved"], found["signature"]) == (12, ["x: ..."])


def test_grad_mode_is_as_before(make_task) -> None:
    accept(make_task(FUSED))
    assert torch.is_grad_enabled()

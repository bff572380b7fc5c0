"""Questions beyond fresh inputs: what is asked, what is left out and why, and that honest kernels pass while faults show."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional
from warpsmith_harness import contents, values
from warpsmith_harness.contents import MISALIGNED, PADDED, TRANSPOSED, harder, laid_out, nudge
from warpsmith_harness.problems import TaskProblem
from warpsmith_harness.questions import Examiner, judge_answer
from warpsmith_harness.variants import Skipped, Variant, Variants

LAYER_NORM = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(64)
    def forward(self, x):
        return self.norm(x)
"""


DROPOUT = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout()
    def forward(self, x):
        return self.drop(x) * 2
"""

BATCH_NORM = LAYER_NORM.replace("nn.LayerNorm", "nn.BatchNorm1d")


def block(forward, arguments="x"):
    return f"class Block(nn.Module):\n    def forward(self, {arguments}):\n        return {forward}\n"


def variants_of(task):
    reference = task.reference()
    return Variants(task, reference, Examiner(task, reference, 1.0))


def answer(question, call, touched=()):
    args, _ = values.rebuild(question.structure, [values.clone_like(tensor) for tensor in question.tensors])
    outputs, structure = values.flatten(call(*args))
    return judge_answer(question, outputs, structure, list(touched), [], "budget")


def drawn(variants, kind):
    """Draw a question, or None where the original's answer hangs on the last bits: chance decides that."""
    try:
        return variants.draw(Variant(contents=kind))
    except Skipped as skipped:
        if "last bits" not in skipped.reason:
            raise
        return None


def lanes(x, width=8):
    """Sum along the last dimension as a vectorised loop does, one running sum a lane."""
    pieces = functional.pad(x, (0, -x.shape[-1] % width)).unflatten(-1, (-1, width)).movedim(-2, 0)
    total = torch.zeros_like(pieces[0])
    for piece in pieces:
        total = total + piece
    return total.sum(-1)


def by_lanes(x):
    """RMSNorm as a kernel of one's own computes it."""
    return x * torch.rsqrt(lanes(x * x).unsqueeze(-1) / x.shape[-1] + 1e-6)


class TestHonestKernels:
    """Another order of summation is no fault, whatever the inputs."""

    CASES = (
        (
            "x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)",
            "x",
            "torch.randn(32, 257)",
            by_lanes,
        ),
        ("x.sum(-1)", "x", "torch.randn(32, 1024)", lanes),
        (
            "(x - y).pow(2).mean()",
            "x, y",
            "torch.randn(16, 64), torch.randn(16, 64)",
            lambda x, y: lanes((x - y).flatten() ** 2) / 1024,
        ),
        (
            "torch.log_softmax(x, -1)",
            "x",
            "torch.randn(32, 500)",
            lambda x: (x - x.amax(-1, True)) - lanes(torch.exp(x - x.amax(-1, True))).log().unsqueeze(-1),
        ),
        (
            "nn.functional.softplus(x) * x.tanh()",
            "x",
            "torch.randn(16, 64)",
            lambda x: (torch.log1p(torch.exp(-x.abs())) + x.clamp_min(0)) * x.tanh(),
        ),
    )

    @pytest.mark.parametrize("kind", sorted(contents._KINDS))
    @pytest.mark.parametrize(
        ("forward", "arguments", "inputs", "kernel"), CASES, ids=["norm", "sum", "loss", "softmax", "pointwise"]
    )
    def test_pass(self, make_task, forward, arguments, inputs, kernel, kind) -> None:
        variants = variants_of(make_task(block(forward, arguments), inputs=inputs))
        for _ in range(3):
            question = drawn(variants, kind)
            if question is not None:
                assert answer(question, kernel)["reason"] == ""

    def test_a_nudge_is_what_rounding_does(self) -> None:
        x = torch.randn(1000, 3)
        x[5] = 0
        x[6, 0] = torch.inf
        nudged = x.clone()
        nudge(nudged)
        finite = torch.isfinite(x)
        assert torch.equal(nudged[5], x[5])
        assert torch.equal(torch.isfinite(nudged), finite)
        assert 1e-6 < ((nudged - x) / x)[finite & (x != 0)].abs().max() < 1e-5


BIASED_SUM = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(576, 64)
    def forward(self, x):
        return self.linear(x)
"""


def test_a_sum_that_begins_with_the_bias_may_round_at_every_term(make_task) -> None:
    """The original adds the bias last and rounds once, where the terms are tiny."""
    task = make_task(BIASED_SUM, inputs="torch.randn(2048, 576)")
    question = variants_of(task).draw(Variant(contents="tiny inputs", same_state=True))
    weight, bias = question.state["linear.weight"], question.state["linear.bias"]

    def from_the_bias(x, dtype=torch.float32, terms=576):
        total = bias.expand(len(x), -1).to(dtype)
        for k in range(terms):
            total = total + (x[:, k, None] * weight[:, k]).to(dtype)
        return total.float()

    assert answer(question, from_the_bias)["ok"]
    assert not answer(question, lambda x: from_the_bias(x, terms=575))["ok"]
    assert not answer(question, lambda x: (x.bfloat16() @ weight.bfloat16().T).float() + bias)["ok"]


def unguarded_norm(x):
    """LayerNorm that lost its epsilon."""
    return (x - x.mean(-1, True)) / x.std(-1, False, keepdim=True)


class TestFaultsThatFreshInputsHide:
    @pytest.mark.parametrize(
        ("forward", "inputs", "kernel", "kind"),
        [
            ("torch.softmax(x, -1)", "torch.randn(99, 64)", lambda x: torch.exp(x) / torch.exp(x).sum(-1, True), "large inputs"),
            ("x / (x.norm(dim=-1)[:, None] + 1e-6)", "torch.randn(9, 8)", lambda x: x / x.norm(dim=-1)[:, None], "rows of zeros"),
            ("torch.relu(x)", "torch.rand(16, 64)", torch.abs, "inputs with flipped signs"),
            ("torch.relu(x) + x.sum()", "torch.rand(16, 64)", lambda x: x.abs() + x.sum(), "inputs of mixed signs"),
            ("x.clamp(-100, 100)", "torch.randn(16, 64)", lambda x: x, "one huge element"),
            ("nn.functional.layer_norm(x, (64,))", "torch.randn(16, 64)", unguarded_norm, "tiny inputs"),
            ("x.tanh()", "torch.randn(64, 64)", lambda x: torch.where(x.abs() < 6, x.tanh(), 0), "inputs with heavy tails"),
            ("nn.functional.layer_norm(x, (64,))", "torch.randn(16, 64)", unguarded_norm, "constant rows"),
        ],
    )  # fmt: skip
    def test_are_found(self, make_task, forward, inputs, kernel, kind) -> None:
        variants = variants_of(make_task(block(forward), inputs=inputs))
        question = variants.draw(Variant(contents=kind))
        assert "the first at [" in answer(question, kernel)["reason"]

    def test_a_wrong_tail_beside_one_huge_element(self, make_task) -> None:
        """The huge element's row has a wide budget, and no other row has."""
        variants = variants_of(make_task(block("x * 3"), inputs="torch.randn(64, 64)"))
        question = variants.draw(Variant(contents="one huge element"))
        right = question.expected[0]
        row = next(row for row in range(63, 0, -1) if right[row].abs().max() < 100)
        wrong = right.clone()
        wrong[row, 60:] += 1e-3
        reason = judge_answer(question, [wrong], question.expected_structure, [], [], "budget")["reason"]
        assert f"the first at [{row}, 60]" in reason

    def test_many_equal_values(self) -> None:
        (x,) = harder("inputs with many ties", [torch.randn(16, 256)])
        assert all(len(row.unique()) <= 32 for row in x)


class TestLeftOut:
    @pytest.mark.parametrize(
        ("forward", "inputs", "kind", "words"),
        [
            ("torch.log(x)", "torch.rand(8, 64) + 0.5", "inputs with flipped signs", "not finite there"),
            ("x if x.min() > 0 else 1 / 0", "torch.rand(8, 64) + 0.5", "inputs of mixed signs", "raises there"),
            ("(x * 1e6).sin()", "torch.randn(8, 64)", "large inputs", "last bits"),
            ("x.topk(3).values", "torch.randn(8, 64)", "inputs with many ties", "which is not defined"),
            ("x.argmax(-1)", "torch.randn(8, 64)", "rows of zeros", "which is not defined"),
        ],
    )
    def test_what_the_original_cannot_answer_is_said(self, make_task, forward, inputs, kind, words) -> None:
        variants = variants_of(make_task(block(forward), inputs=inputs))
        with pytest.raises(Skipped, match=words):
            variants.draw(Variant(contents=kind))

    def test_random_modes_are_said_and_equal_ones_are_asked_for(self, make_task) -> None:
        with pytest.raises(Skipped, match="random in train mode"):
            variants_of(make_task(DROPOUT)).draw(Variant(other_mode=True))
        assert variants_of(make_task(LAYER_NORM)).draw(Variant(other_mode=True)).training

    def test_integers_and_narrow_floats_stay(self) -> None:
        tensors = [torch.arange(8), torch.ones(8) > 0, torch.zeros(8).to(torch.float8_e4m3fn), torch.zeros(1).expand(8)]
        assert all(new is old for new, old in zip(harder("large inputs", tensors), tensors, strict=True))


class TestLayouts:
    @pytest.mark.parametrize("kind", sorted(contents._KINDS))
    def test_other_contents_keep_them(self, kind) -> None:
        """A kernel may be written for a transposed view, and is then asked for nothing else."""
        for tensor in (torch.randn(16, 8).t(), torch.randn(8, 20)[:, 2:18], torch.randn(2, 3, 4, 5).movedim(1, 3)):
            (made,) = harder(kind, [tensor])
            assert (made.shape, made.stride(), made.dtype) == (tensor.shape, tensor.stride(), tensor.dtype)
            assert not torch.equal(made, tensor)

    def test_contents_stay(self) -> None:
        x = torch.randn(3, 8, 16)
        for kind in (TRANSPOSED, PADDED, MISALIGNED):
            other = laid_out(kind, x)
            assert torch.equal(other, x)
            assert other.is_contiguous() is (kind == MISALIGNED)
        assert laid_out(MISALIGNED, x).data_ptr() % 16 == 4
        assert laid_out(TRANSPOSED, torch.randn(8)) is None
        assert laid_out(PADDED, torch.randn(1, 8)) is None

    def test_what_the_original_refuses_is_left_out(self, make_task) -> None:
        variants = variants_of(make_task(block("x.view(-1)")))
        with pytest.raises(Skipped, match="raises there"):
            variants.draw(Variant(layout=TRANSPOSED))
        assert variants.draw(Variant(layout=MISALIGNED)).misaligned == [0]


class TestSizes:
    def dynamic(self, dims, low, high):
        return ({"dims": dims, "low": low, "high": high},)

    def test_dimensions_that_change_together(self, make_task) -> None:
        source = block("torch.softmax(x @ x.transpose(-1, -2) + m, -1) @ x", "x, m")
        task = make_task(source, inputs="torch.randn(2, 16, 8), torch.full((16, 16), -torch.inf).triu(1)")
        task.spec["dynamic"] = self.dynamic(["x.1", "m.0", "m.1"], 1, 40)
        variants = variants_of(task)
        for size in (1, 7, 40):
            question = variants.draw(Variant(sizes=[size]))
            x, mask = question.tensors
            assert (x.shape, mask.shape) == ((2, size, 8), (size, size))
            assert torch.isfinite(mask.diagonal()).all()
            assert torch.isinf(mask).equal(mask.isinf().triu(1))
            assert question.expected[0].isfinite().all()

    def test_offsets_still_reach_the_end(self, make_task) -> None:
        inputs = "torch.arange(0, 65, 8), torch.randn(64, 4)"
        task = make_task(block("torch.segment_reduce(v, 'sum', offsets=o)", "o, v"), inputs=inputs)
        task.spec["dynamic"] = self.dynamic(["o.0"], 2, 30)
        for size in (3, 20):
            offsets = variants_of(task).draw(Variant(sizes=[size])).tensors[0]
            assert (len(offsets), int(offsets[0]), int(offsets[-1])) == (size, 0, 64)
            assert (offsets.diff() >= 0).all()

    def test_rows_of_a_grown_tensor_differ(self, make_task) -> None:
        task = make_task(block("x * 2"), inputs="torch.randn(4, 64)")
        task.spec["dynamic"] = self.dynamic(["x.0"], 1, 100)
        (x,) = variants_of(task).draw(Variant(sizes=[100])).tensors
        assert len(x.unique(dim=0)) == 100

    def test_a_size_at_which_the_original_raises(self, make_task) -> None:
        task = make_task(block("x[:, : x.shape[0]].reshape(8 * (x.shape[0] // 8), -1)"), inputs="torch.randn(8, 64)")
        task.spec["dynamic"] = self.dynamic(["x.0"], 1, 16)
        variants = variants_of(task)
        assert variants.draw(Variant(sizes=[16])).expected[0].shape[0] == 16
        with pytest.raises(Skipped, match="raises there"):
            variants.draw(Variant(sizes=[7]))

    @pytest.mark.parametrize(
        ("dims", "low", "high", "words"),
        [
            (["z.0"], 1, 64, "There is no input 'z'; the inputs are x, y"),
            (["x.2"], 1, 64, r"x has the shape \[8, 16\], and no dimension 2"),
            (["x.0", "y.1"], 1, 64, "x.0 is 8, y.1 is 16"),
            (["x.0", "x.0"], 1, 64, "declared twice"),
            (["x.0", "y.0"], 16, 64, "with the size 8, which does not lie in 16:64"),
            (["x.0"], 2, 64, "runs at no other size than the drawn one: with x.0 = .* the forward of Block raises"),
        ],
    )
    def test_that_cannot_be(self, make_task, dims, low, high, words) -> None:
        task = make_task(block("x + y", "x, y"), inputs="torch.randn(8, 16), torch.randn(8, 16)")
        task.spec["dynamic"] = self.dynamic(dims, low, high)
        with pytest.raises(TaskProblem, match=words):
            variants_of(task)


class TestGradients:
    def test_are_those_of_float64(self, make_task) -> None:
        task = make_task(LAYER_NORM, gradients=True)
        question = variants_of(task).draw(Variant(gradients=True))
        assert question.labels == [f"The gradient of {name}" for name in ("x", "norm.weight", "norm.bias")]
        x, (weight, bias) = (
            question.tensors[0].double().requires_grad_(),
            (question.state[name].double().requires_grad_() for name in ("norm.weight", "norm.bias")),
        )
        out = functional.layer_norm(x, (64,), weight, bias)
        expected = torch.autograd.grad(out, (x, weight, bias), question.directions[0].double())
        for exact, found in zip(question.exact.outputs[1:], expected, strict=True):
            assert torch.allclose(exact, found, rtol=1e-10)

    @pytest.mark.parametrize(("layout", "strides"), [("expanded", (0, 0)), ("transposed", (1, 8)), ("", (64, 1))])
    def test_arrive_in_the_layouts_that_a_loss_hands_back(
        self, make_task, layout: str, strides: tuple[int, int]
    ) -> None:
        task = make_task(LAYER_NORM, gradients=True)
        question = variants_of(task).draw(Variant(gradients=True, gradient_layout=layout))
        (direction,) = question.directions
        assert (direction.shape, direction.stride()) == ((8, 64), strides)
        answers = zip(question.expected, question.exact.outputs, strict=True)
        assert all(torch.allclose(ours.double(), exact, atol=1e-4) for ours, exact in answers)

    def test_state_is_as_before(self, make_task) -> None:
        task = make_task(BATCH_NORM, gradients=True, training=True)
        reference = task.reference()
        Variants(task, reference, Examiner(task, reference, 0.0)).draw(Variant(gradients=True))
        assert reference.norm.num_batches_tracked == 0
        assert reference.norm.weight.grad is None

    def test_inputs_that_the_original_changes(self, make_task) -> None:
        task = make_task(block("x.mul_(2).sin()"), gradients=True)
        with pytest.raises(TaskProblem, match="has no gradient"):
            variants_of(task)

    def test_a_backward_that_raises(self, make_task) -> None:
        task = make_task(block("torch.special.zeta(x.abs() + 2, x.abs() + 1)"), gradients=True)
        with pytest.raises(TaskProblem, match="The backward of Block raises"):
            variants_of(task)

"""What a full verdict asks beyond fresh inputs: each fault is found by the case that is meant to find it, and by no other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.errors import TaskError
from sandbox.isolation import best_isolation
from sandbox.judge import Judge
from sandbox.task import DynamicSize
from sandbox.verdict import Verdict
from tests.sandbox.judge.conftest import BRIEF
from tests.scale_task import MODEL_NEW, REFERENCE, TRAINED, Write, kernel, write_task

pytestmark = pytest.mark.xdist_group("verifying")

ROWS = DynamicSize(("x.0", "y.0"), 1, 99)

BACKWARD = """
extern "C" int scale_add_backward(const float* x, const float* w, const float* out, const float* g, float* gx, float* gw,
                                  float* gy, int64_t n, int64_t d) {
  for (int64_t j = 0; j < d; ++j) gw[j] = 0;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < d; ++j) {
      int64_t k = i * d + j;
      float value = out[k] > 0 ? g[k] : 0;
      gy[k] = value;
      gx[k] = value * w[j];
      gw[j] += value * x[k];
    }
  return 0;
}
"""

UNJOINED = """
  std::thread([=] {
    usleep(2000000);
    for (int64_t k = n * d / 2; k < n * d; ++k) out[k] = std::fmax(x[k] * w[k % d] + y[k], 0.0f);
  }).detach();
  n /= 2;
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Iterator[Judge]:
    """The shared task with rows of any number, and trained."""
    folder = tmp_path_factory.mktemp("trained")
    spec = write_task(folder, dynamic=(ROWS,), gradients=True)
    with Judge(spec, isolation=best_isolation(), cache=cache, scratch=folder / "scratch", limits=BRIEF) as opened:
        yield opened


ANY_VIEW = MODEL_NEW.replace("x.shape[1])", "x.shape[1], x.stride(0), x.stride(1))")


def any_view(source: str) -> str:
    """Let the kernel take ``x`` with its strides."""
    source = source.replace("int64_t d)", "int64_t d, int64_t x_stride0, int64_t x_stride1)")
    return source.replace("x[i * d + j]", "x[i * x_stride0 + j * x_stride1]")


def failed_case(verdict: Verdict) -> tuple[str, str]:
    """The only case that failed, the last one that was asked."""
    assert verdict.reward == -1
    assert verdict.verify is not None, verdict.reason
    assert [case.ok for case in verdict.verify.cases[:-1]] == [True] * (len(verdict.verify.cases) - 1)
    last = verdict.verify.cases[-1]
    assert not last.ok, verdict.reason
    return last.name, last.reason


def test_a_right_kernel_passes_every_case_and_the_verdict_says_for_which_sizes(
    trained: Judge, candidate: Write
) -> None:
    verdict = trained.check(candidate(kernel() + BACKWARD, TRAINED), "full")
    assert verdict.verify is not None
    assert verdict.verify.ok, verdict.reason
    names = {case.name for case in verdict.verify.cases}
    assert {"calls in a row", "gradients 1", "gradients that arrive transposed", "one huge element"} <= names
    (rows,) = verdict.verify.ranges
    assert (rows.dims, rows.low, rows.high) == (("x.0", "y.0"), 1, 99)
    assert {1, 32, 99} < set(rows.sizes)
    (note,) = [note for note in verdict.verify.notes if "refuses" in note]
    layouts = ("misaligned by one element", "transposed", "with padded rows")
    assert note.startswith(
        f"it refuses {', '.join(f'{name} {layout}' for layout in layouts for name in 'xy')}; what lands"
    )
    assert Verdict.from_json(verdict.to_json()) == verdict


def test_a_wrong_gradient(trained: Judge, candidate: Write) -> None:
    wrong = BACKWARD.replace("gw[j] += value * x[k]", "gw[j] += g[k] * x[k]")
    name, reason = failed_case(trained.check(candidate(kernel() + wrong, TRAINED), "full"))
    assert name == "gradients 1"
    assert reason.startswith("The gradient of weight has")
    assert "the first at [" in reason


def test_a_gradient_that_is_never_written(trained: Judge, candidate: Write) -> None:
    wrong = BACKWARD.replace("gy[k] = value;", "")
    name, reason = failed_case(trained.check(candidate(kernel() + wrong, TRAINED), "full"))
    assert (name, reason.split(" has ")[0]) == ("gradients 1", "The gradient of y")


def test_a_backward_that_takes_gradients_in_one_layout_only(trained: Judge, candidate: Write) -> None:
    picky = TRAINED.replace("x, weight, out =", "assert grad.is_contiguous(), 'not this one'\n        x, weight, out =")
    name, reason = failed_case(trained.check(candidate(kernel() + BACKWARD, picky), "full"))
    assert name == "gradients of a sum"
    assert "not this one" in reason


def test_an_output_without_a_gradient(trained: Judge, candidate: Write) -> None:
    name, reason = failed_case(trained.check(candidate(), "full"))
    assert name == "gradients 1"
    assert reason == "it gives no gradient for x, y, weight: its output is detached from there."


@pytest.mark.parametrize(
    ("before", "case", "words"),
    [
        ("n -= n % 4;", "size x.0 = y.0 = 1", "never written"),
        ("if (n > 50) n = 50;", "size x.0 = y.0 = 99", "tail from flat index"),
        ("if (n % 2 && n > 1) d -= 1;", "size x.0 = y.0 = 99", "off by more"),
    ],
    ids=["a tail of rows", "large sizes", "odd sizes"],
)
def test_a_wrong_size(trained: Judge, candidate: Write, before: str, case: str, words: str) -> None:
    name, reason = failed_case(trained.check(candidate(kernel(before=before) + BACKWARD, TRAINED), "full"))
    assert name.startswith(case)
    assert words in reason


@pytest.mark.parametrize(
    ("before", "after", "case", "words"),
    [
        (
            "int64_t whole = n * d / 8 * 8 - 8;",
            "for (int64_t i = whole; i < n * d; ++i) out[i] = -1;",
            "fresh inputs 1",
            "tail",
        ),
        ("n -= 1;", "", "fresh inputs 1", "never written"),
        ("static int calls; ++calls;", "if (calls == 7) out[3] += 1;", "the same inputs three times", "number 2"),
        ("static int calls; ++calls;", "if (calls == 10) out[3] += 1;", "calls in a row", "number 2"),
        ("", "for (int64_t i = 0; i < n * d; ++i) if (x[i] > 30) out[i] *= 0.9f;", "large inputs", "off by more"),
    ],
    ids=["tail", "unwritten", "differs between runs", "in a row", "large"],
)
def test_a_fault_and_its_case(judge: Judge, candidate: Write, before: str, after: str, case: str, words: str) -> None:
    name, reason = failed_case(judge.check(candidate(kernel(before, after)), "full"))
    assert name.startswith(case)
    assert words in reason


@pytest.mark.parametrize(
    ("before", "words"),
    [
        ("if ((uintptr_t)x % 16) return 0;", "never written"),
        ("if ((uintptr_t)x % 16) *(volatile int*)nullptr = 1;", "SIGSEGV"),
    ],
    ids=["wrong", "crash"],
)
def test_a_misaligned_input_of_a_kernel_that_takes_any_view(
    judge: Judge, candidate: Write, before: str, words: str
) -> None:
    name, reason = failed_case(judge.check(candidate(any_view(kernel(before)), ANY_VIEW), "full"))
    assert name == "x misaligned by one element"
    assert words in reason


@pytest.mark.parametrize("by", ["the binding", "the launcher"])
def test_a_misaligned_input_may_be_refused(judge: Judge, candidate: Write, by: str) -> None:
    """That anything was wrong afterwards shows that it went on."""
    after = "static int calls; if (++calls > 15) out[0] += 1;"
    source = kernel(after=after)
    if by == "the launcher":
        source = any_view(kernel("if ((uintptr_t)x % 16) return 716;", after))
    verdict = judge.check(candidate(source, ANY_VIEW if by == "the launcher" else MODEL_NEW), "full")
    assert any("x misaligned by one element" in note for note in verdict.verify.notes if "refuses" in note)
    assert failed_case(verdict)[0] != "x misaligned by one element"


def test_strides_that_a_kernel_takes_and_does_not_heed(judge: Judge, candidate: Write) -> None:
    source = kernel().replace("int64_t d)", "int64_t d, int64_t x_stride0)")
    python = MODEL_NEW.replace("x.shape[1])", "x.shape[1], x.stride(0))")
    name, _ = failed_case(judge.check(candidate(source, python), "full"))
    assert name == "x with padded rows"


def test_a_race(unguarded: None, judge: Judge, candidate: Write) -> None:
    """A thread that nobody waits for writes half of the output after the call."""
    verdict = judge.check(candidate(kernel(UNJOINED, includes="cmath thread unistd.h")), "full")
    name, reason = failed_case(verdict)
    assert name == "fresh inputs 1"
    assert "never written" in reason


BATCH_NORM = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.BatchNorm1d(dim)

    def forward(self, x):
        return self.norm(x)

def get_inputs():
    return [torch.randn(32, 64)]

def get_init_inputs():
    return [64]
"""


class TestOtherMode:
    @pytest.fixture
    def normed(self, tmp_path: Path) -> Path:
        (tmp_path / "candidate" / "kernels").mkdir(parents=True)
        kernels = tmp_path / "candidate" / "kernels"
        (kernels / "norm.cpp").write_text(
            "#include <cmath>\n#include <cstdint>\n"
            'extern "C" int norm(const float* x, const float* mean, const float* var, const float* w, const float* b,\n'
            "                    float* out, int64_t n, int64_t d, float eps) {\n"
            "  for (int64_t i = 0; i < n * d; ++i) {\n"
            "    int64_t j = i % d;\n"
            "    out[i] = (x[i] - mean[j]) / std::sqrt(var[j] + eps) * w[j] + b[j];\n"
            "  }\n  return 0;\n}\n"
        )
        (tmp_path / "candidate" / "model_new.py").write_text(
            "import torch\nfrom torch import nn\nfrom kernels import norm\n\nclass ModelNew(nn.Module):\n"
            "    def __init__(self, dim):\n        super().__init__()\n        self.norm = nn.BatchNorm1d(dim)\n\n"
            "    def forward(self, x):\n        bn = self.norm\n        out = torch.empty_like(x)\n"
            "        norm(x, bn.running_mean, bn.running_var, bn.weight, bn.bias, out, x.shape[0], x.shape[1], bn.eps)\n"
            "        return out\n"
        )
        return tmp_path / "candidate"

    def test_a_kernel_for_eval_mode_alone(self, tmp_path: Path, cache: Path, normed: Path) -> None:
        spec = write_task(tmp_path, BATCH_NORM)
        scratch = tmp_path / "scratch"
        with Judge(spec, isolation=best_isolation(), cache=cache, scratch=scratch, limits=BRIEF) as judge:
            verdict = judge.check(normed, "full")
        assert verdict.verify.ok, verdict.reason
        assert any(note.startswith("in train mode it does not answer as the original") for note in verdict.verify.notes)


def test_sizes_that_cannot_be(tmp_path: Path, cache: Path) -> None:
    spec = write_task(tmp_path, REFERENCE, dynamic=(DynamicSize(("x.0",), 2, 64),))
    judge = Judge(spec, isolation=best_isolation(), cache=cache, scratch=tmp_path / "scratch", limits=BRIEF)
    with pytest.raises(TaskError, match="runs at no other size than the drawn one"):
        judge.open()

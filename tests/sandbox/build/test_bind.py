"""The binding on real libraries: built by the real compiler, loaded into this process."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType

import pytest
import torch
from warpsmith_harness import kernels

from sandbox.build import Built, build_kernels
from sandbox.build.toolchain import Nvcc
from sandbox.isolation import Isolation

from .conftest import SCALE_CU

SOURCE = """\
#include <cstdint>
extern "C" int add(const float* x, const float* y, float* out, int64_t n, float alpha) {
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] + (y ? alpha * y[i] : 0);
  return 0;
}
extern "C" int columns(const double* in, double* out, int64_t in_stride0, int64_t in_stride1, int rows, int cols) {
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < cols; ++c) out[r * cols + c] = in[r * in_stride0 + c * in_stride1];
  return 0;
}
extern "C" int echo(int64_t* out, int64_t big, int small, double real, bool flag) {
  out[0] = big; out[1] = small; out[2] = (int64_t)(real * 4); out[3] = flag;
  return 0;
}
extern "C" int broken(int code) { return code; }
extern "C" int type(const int* lambda, int* lambda_, int _private) { *lambda_ = *lambda + _private; return 0; }
"""


@pytest.fixture(scope="module", params=["packed", "one by one"])
def bound(tmp_path_factory: pytest.TempPathFactory, isolation: Isolation, request: pytest.FixtureRequest) -> ModuleType:
    """The launchers as the build makes them, and as they are where nothing takes their arguments packed."""
    folder = tmp_path_factory.mktemp("bound")
    (folder / "kernels").mkdir()
    (folder / "kernels/all.cpp").write_text(SOURCE)
    built = build_kernels(folder / "kernels", arch="cpu", cache=folder / "cache", isolation=isolation)
    assert built.manifest is not None
    manifest = built.manifest.to_json()
    if request.param == "one by one":
        manifest["library"] = str(folder / "plain.so")
        command = ["g++", "-shared", "-fPIC", folder / "kernels/all.cpp", "-o", manifest["library"]]
        subprocess.run(command, check=True)
    return kernels.bind(manifest, "project.kernels")


def test_a_call_computes(bound: ModuleType) -> None:
    x, y, out = torch.tensor([1.0, 2.0]), torch.nn.Parameter(torch.tensor([10.0, 20.0])), torch.empty(2)
    assert bound.add(x, y, out, x.numel(), 0.5) is None
    assert out.tolist() == [6.0, 12.0]
    bound.add(x, None, out, n=2, alpha=1)
    assert out.tolist() == [1.0, 2.0]


def test_outputs_count_as_changed_and_inputs_do_not(bound: ModuleType) -> None:
    x, out = torch.ones(2), torch.empty(2)
    before = (x._version, out._version)
    bound.add(x, None, out, 2, 1.0)
    assert x._version == before[0]
    assert out._version > before[1]


def test_numbers_arrive_whole(bound: ModuleType) -> None:
    out = torch.empty(4, dtype=torch.int64)
    bound.echo(out, -(2**63), 2**31 - 1, 0.75, True)
    assert out.tolist() == [-(2**63), 2**31 - 1, 3, 1]


def test_a_strided_tensor_needs_a_launcher_that_takes_its_strides(bound: ModuleType) -> None:
    x = torch.arange(6.0, dtype=torch.float64).view(2, 3).t()
    out = torch.empty(3, 2, dtype=torch.float64)
    bound.columns(x, out, *x.stride(), *x.shape)
    assert torch.equal(out, x)
    with pytest.raises(RuntimeError, match="out must be contiguous"):
        bound.columns(x, out.t(), *x.stride(), *x.shape)
    with pytest.raises(RuntimeError, match="x_stride0"):
        bound.add(torch.ones(2, 2).t(), None, torch.empty(4), 4, 1.0)


def test_a_view_that_begins_anywhere_needs_a_launcher_that_takes_its_strides(bound: ModuleType) -> None:
    whole = torch.arange(9.0, dtype=torch.float64)
    x, out = whole[1:].view(4, 2), torch.empty(4, 2, dtype=torch.float64)
    bound.columns(x, out, *x.stride(), *x.shape)
    assert torch.equal(out, x)
    with pytest.raises(RuntimeError, match="x must begin at a multiple of 16 bytes"):
        bound.add(torch.ones(3)[1:], None, torch.empty(2), 2, 1.0)
    bound.add(torch.ones(5)[4:], None, torch.empty(1), 1, 1.0)


class Wrapped(torch.Tensor):
    pass


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            (torch.ones(2).double(), None, torch.empty(2), 2, 1.0),
            RuntimeError,
            "x must be torch.float32, not torch.float64",
        ),
        (([1.0], None, torch.empty(2), 2, 1.0), RuntimeError, "x must be a tensor or None, not list"),
        ((torch.ones(2).as_subclass(Wrapped), None, torch.empty(2), 2, 1.0), RuntimeError, "not a Wrapped"),
        ((torch.ones(2), None, torch.empty(2, device="meta"), 2, 1.0), RuntimeError, "out must be on cpu, not on meta"),
        ((torch.ones(2), None, torch.empty(2), 2**63, 1.0), OverflowError, "n = 9223372036854775808 does not fit"),
        ((torch.ones(2), None, torch.empty(2), 2.0, 1.0), TypeError, "n must be an int, not float"),
        ((torch.ones(2), None, torch.empty(2), torch.tensor(2), 1.0), TypeError, "n must be an int, not Tensor"),
        ((torch.ones(2), None, torch.empty(2), True, 1.0), TypeError, "n must be an int, not bool"),
        ((torch.ones(2), None, torch.empty(2), 2, "1"), TypeError, "alpha must be a float, not str"),
        ((torch.ones(2), None, torch.empty(2), 2), TypeError, "missing 1 required positional argument: 'alpha'"),
    ],
)
def test_what_does_not_fit_is_refused(
    bound: ModuleType, arguments: tuple[object, ...], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        bound.add(*arguments)


def test_calls_of_several_threads_do_not_mix_their_arguments(bound: ModuleType) -> None:
    def call(number: int) -> bool:
        out = torch.empty(4, dtype=torch.int64)
        for _ in range(2000):
            bound.echo(out, number, -number, number / 4, True)
            if out.tolist() != [number, -number, number, 1]:
                return False
        return True

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(call, range(4)))


def test_a_small_integer_is_checked_too(bound: ModuleType) -> None:
    with pytest.raises(OverflowError, match="small = 2147483648 does not fit in int32"):
        bound.echo(torch.empty(4, dtype=torch.int64), 0, 2**31, 0.0, False)
    with pytest.raises(TypeError, match="flag must be a bool"):
        bound.echo(torch.empty(4, dtype=torch.int64), 0, 0, 0.0, 1)


def test_a_return_code_is_an_error(bound: ModuleType) -> None:
    bound.broken(0)
    with pytest.raises(RuntimeError, match="broken returned error 7"):
        bound.broken(7)


def test_names_that_are_bad_in_python(bound: ModuleType) -> None:
    x, out = torch.tensor([3], dtype=torch.int32), torch.empty(1, dtype=torch.int32)
    bound.type(x, out, 4)
    assert out.item() == 7
    assert list(inspect.signature(bound.type).parameters) == ["lambda_", "lambda__", "private"]


def test_the_module_looks_like_one(bound: ModuleType) -> None:
    assert bound.__name__ == "project.kernels"
    assert bound.__all__ == ["add", "columns", "echo", "broken", "type"]
    assert (
        bound.add.__doc__
        == "add(x: float32 input, y: float32 input, out: float32 output, n: int64 scalar, alpha: float32 scalar)"
    )
    with pytest.raises(ImportError, match="has no launcher missing; it has: add, columns"):
        getattr(bound, "missing")  # noqa: B009
    assert not hasattr(bound, "__path__")


def test_a_cuda_launcher_refuses_tensors_of_the_cpu(build: Callable[..., Built], nvcc: Nvcc) -> None:
    built = build({"scale.cu": SCALE_CU}, arch="sm_90")
    assert built.manifest is not None
    module = kernels.bind(built.manifest.to_json(), "kernels")
    with pytest.raises(RuntimeError, match="x must be on cuda, not on cpu"):
        module.scale(torch.ones(2), torch.empty(2), 2)


def test_the_file_stands_alone(build: Callable[..., Built]) -> None:
    """A copy of the file works in an interpreter that knows nothing else of this project."""
    built = build({"all.cpp": SOURCE})
    assert built.manifest is not None
    program = (
        "import json, sys, types; source = open(sys.argv[1]).read(); copy = types.ModuleType('copy')\n"
        "exec(compile(source, 'copy.py', 'exec'), vars(copy)); import torch\n"
        "bound = copy.bind(json.loads(sys.argv[2]), 'k'); out = torch.empty(2)\n"
        "bound.add(torch.ones(2), None, out, 2, 1.0); assert out.tolist() == [1, 1]\n"
        "assert not any(name.startswith(('sandbox', 'warpsmith')) for name in sys.modules)"
    )
    manifest = json.dumps(built.manifest.to_json())
    command = [sys.executable, "-W", "ignore", "-c", program, kernels.__file__, manifest]
    subprocess.run(command, check=True, cwd=built.manifest.library.parent)

"""What a call of a bound kernel costs in Python, beside a bare ctypes call and an operator made with custom_op."""

from __future__ import annotations

import sys
import tempfile
import timeit
from collections.abc import Callable, Iterator
from pathlib import Path

from sandbox.build import build_kernels
from sandbox.isolation import best_isolation
from tests.bench.row import Row

sys.path.insert(0, str(Path(__file__).parents[2] / "sandbox" / "harness"))

SOURCE = """#include <cstdint>
extern "C" int nothing(const float* x, const float* w, float* out, int64_t n, float eps) { return 0; }
"""


def rows(device: str) -> Iterator[Row]:
    """Time calls that do nothing, on the CPU, so that only the way in is measured."""
    import torch
    from warpsmith_harness import kernels

    with tempfile.TemporaryDirectory(prefix="warpsmith-bench-") as scratch:
        folder = Path(scratch) / "kernels"
        folder.mkdir()
        (folder / "nothing.cpp").write_text(SOURCE)
        built = build_kernels(folder, arch="cpu", cache=Path(scratch) / "cache", isolation=best_isolation())
        assert built.manifest
        bound = kernels.bind(built.manifest.to_json(), "bench_kernels").nothing

        schema = "(Tensor x, Tensor w, Tensor(a!) out, int n, float eps) -> ()"
        operator = torch.library.custom_op("warpsmith_bench::nothing", bound, mutates_args=("out",), schema=schema)

        tensors = [torch.zeros(8) for _ in range(3)]
        ours = _microseconds(lambda: bound(*tensors, 8, 0.5))
        usual = _microseconds(lambda: operator(*tensors, 8, 0.5))
        yield Row("call of a bound kernel", ours, "µs", 3.0, usual, "usual: torch.library.custom_op around it")


def _microseconds(call: Callable[[], object]) -> float:
    return min(timeit.repeat(call, number=20_000, repeat=7)) / 20_000 * 1e6

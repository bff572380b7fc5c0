"""Nsight Compute on a GPU: kernels that are limited by something known, and what the digest says of them.

Where the counters are closed to this user, the tests skip with the explanation that a user would read.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.isolation import best_isolation
from sandbox.judge import Judge
from sandbox.looking.nsight import KernelProfile, profile_kernels
from tests.scale_task import Write, cuda_kernel, reference, write_task

pytestmark = pytest.mark.gpu

ONE_BLOCK = (
    cuda_kernel()
    .replace("<<<(vectors + 255) / 256, 256, 0, stream>>>", "<<<1, 256, 0, stream>>>")
    .replace("if (i >= n) return;", "for (; i < n; i += 256) {")
    .replace("fmaxf(a.w * b.w + c.w, 0.f));\n}", "fmaxf(a.w * b.w + c.w, 0.f)); }\n}")
)


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    folder = tmp_path_factory.mktemp("nsight")
    spec = write_task(folder, reference(8192, 8192), device="cuda:0")
    with Judge(spec, isolation=best_isolation(), cache=folder / "cache", scratch=folder / "scratch") as shared:
        yield shared


def profiled(judge: Judge, folder: Path, keep: Path) -> KernelProfile:
    profile = judge.study(folder, lambda study: profile_kernels(study, keep))
    print("\n".join(profile.digest))
    if profile.problem and not profile.at_fault:
        pytest.skip(profile.problem)
    return profile


def test_a_streaming_kernel_is_bound_by_memory(judge: Judge, candidate: Write, tmp_path: Path) -> None:
    profile = profiled(judge, candidate(), tmp_path / "reports" / "streaming")
    (view,) = profile.kernels
    assert view.name == "scale_add_kernel"
    assert view.launches == 1
    megabyte = 1e6
    assert 500 * megabyte < (view.read_bytes or 0) < 640 * megabyte  # two inputs of 268 MB
    assert view.load_bytes == pytest.approx(32, abs=1)
    assert view.registers
    assert view.stalls
    assert len(profile.digest) <= 25
    assert "LIKELIEST LIMITER: memory bandwidth" in "\n".join(profile.digest)
    assert profile.report == tmp_path / "reports" / "streaming.ncu-rep"
    assert profile.report.stat().st_size > 10_000


def test_one_block_leaves_the_gpu_empty(judge: Judge, candidate: Write, tmp_path: Path) -> None:
    profile = profiled(judge, candidate(ONE_BLOCK), tmp_path / "one")
    assert "LIKELIEST LIMITER: too few blocks: 1 on" in "\n".join(profile.digest)


def test_a_candidate_that_fails_is_at_fault(judge: Judge, candidate: Write, tmp_path: Path) -> None:
    profile = profiled(judge, candidate(cuda_kernel(launch="return 1;")), tmp_path / "fails")
    assert profile.at_fault
    assert "scale_add" in profile.problem


def test_the_judge_is_as_it_was_afterwards(judge: Judge, candidate: Write, tmp_path: Path) -> None:
    profiled(judge, candidate(), tmp_path / "before")
    assert judge.check(candidate()).correct

"""The guard on a GPU: guards proven alive there, late writes, foreign and idle kernels, symbols of CUDA objects."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.errors import EnvironmentFault
from sandbox.guard import alive
from sandbox.isolation import best_isolation
from sandbox.judge import Judge
from sandbox.judge_limits import JudgeLimits
from sandbox.verdict import Verdict
from sandbox.wire import HARNESS
from tests.scale_task import Write, cuda_kernel, reference, write_task

pytestmark = pytest.mark.gpu
LIMITS = JudgeLimits(compile_seconds=0.0)


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    folder = tmp_path_factory.mktemp("task")
    spec = write_task(folder, reference(2048, 4096), device="cuda:0")
    with Judge(
        spec, isolation=best_isolation(), cache=folder / "cache", scratch=folder / "scratch", limits=LIMITS
    ) as it:
        yield it


def rules(verdict: Verdict, severity: str = "reject") -> set[str]:
    assert verdict.guard is not None
    return {each.rule for each in verdict.guard.findings if each.severity == severity}


def test_every_guard_is_alive(judge: Judge) -> None:
    watching = [rule for rule in (*alive._WATCHED.values(), *alive._WATCHED_ON_GPU.values()) if rule]
    assert judge.environment["guards"] == alive.prove_static() + len([*watching, "poisoned-memory", "seal"])


def test_an_honest_kernel_has_no_finding(judge: Judge, candidate: Write) -> None:
    verdict = judge.check(candidate())
    assert verdict.correct, verdict.reason
    assert rules(verdict) == rules(verdict, "label") == set()


def test_a_device_function_of_its_own_asks_for_nothing(judge: Judge, candidate: Write) -> None:
    source = "__device__ float twice(float v) { return v + v; }\n" + cuda_kernel(body="a.x = twice(a.x) / 2;")
    assert judge.check(candidate(source)).correct


def test_a_joined_name_is_found_in_a_cuda_file(judge: Judge, candidate: Write) -> None:
    head = '#define JOIN(a, b) a##b\nextern "C" int JOIN(sys, tem)(const char*);\n'
    verdict = judge.check(candidate(head + cuda_kernel(launch='if (n < 0) JOIN(sys, tem)("id");')))
    assert rules(verdict) == {"process"}


def test_work_on_a_stream_that_nobody_waits_for_is_late(judge: Judge, candidate: Write) -> None:
    launch = "cudaStream_t side; cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking); stream = side;"
    slow = "for (int k = 0; k < 2000; ++k) __nanosleep(1000);"
    verdict = judge.check(candidate(cuda_kernel(body=slow, launch=launch)))
    assert verdict.reward == -1
    assert "late-write" in rules(verdict) or (verdict.verify is not None and not verdict.verify.ok)


def test_a_profiler_that_sees_nothing_is_a_dead_guard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "harness"
    shutil.copytree(HARNESS, copy, ignore=shutil.ignore_patterns("__pycache__"))
    with (copy / "warpsmith_harness/trace.py").open("a") as file:
        file.write("\n\ndef _trace(call, device):\n    call()\n    return []\n")
    monkeypatch.setattr("sandbox.processes.MAIN", copy / "main.py")
    monkeypatch.setattr("sandbox.crew.HARNESS", copy)
    monkeypatch.setattr(alive, "_PROVEN", {})
    spec = write_task(tmp_path, reference(2048, 4096), device="cuda:0")
    judge = Judge(
        spec, isolation=best_isolation(), cache=tmp_path / "cache", scratch=tmp_path / "scratch", limits=LIMITS
    )
    with pytest.raises(EnvironmentFault, match=r"The guard delegation is dead: .* it found no-trace"):
        judge.open()

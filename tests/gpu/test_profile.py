"""The whole profile on a GPU: every mode, CUDA graphs, kernels with their occupancy, latency, and what cannot be captured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sandbox.isolation import best_isolation
from sandbox.judge import Judge
from sandbox.judge_limits import JudgeLimits
from sandbox.verdict import Verdict
from tests.scale_task import MODEL_NEW, reference, write_candidate, write_task

pytestmark = pytest.mark.gpu

MODES = {
    "eager",
    "eager-cudagraph",
    "compile",
    "reduce-overhead",
    "max-autotune-no-cudagraphs",
    "max-autotune",
}
SYNCHRONISING = reference(2048, 4096).replace(
    "return torch.relu(x * self.weight + y)",
    "return torch.relu(x * self.weight + y) * (1.0 if x.sum().item() else 0.5)",
)


def open_judge(folder: Path, source: str = reference(2048, 4096), **changes: object) -> Judge:
    spec = write_task(folder, source, device="cuda:0", **changes)
    limits = JudgeLimits()
    limits = replace(limits, full=replace(limits.full, cases=1))
    return Judge(spec, isolation=best_isolation(), cache=folder / "cache", scratch=folder / "scratch", limits=limits)


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    with open_judge(tmp_path_factory.mktemp("gpu")) as shared:
        yield shared


def tell(verdict: Verdict) -> None:
    """Print what a person would want to know of a run on a machine they cannot see."""
    print(f"\n{verdict.tier}: reward {verdict.reward}: {verdict.reason} {vars(verdict.seconds)}")
    if verdict.profile is not None:
        profile = replace(verdict.profile, samples={})
        print("\n".join(f"  {key}: {value}" for key, value in vars(profile).items()))
        print({side: [len(one) for one in lists] for side, lists in verdict.profile.samples.items()})


def test_the_original_in_every_mode(judge: Judge) -> None:
    profile = judge.original()
    print(profile)
    assert set(profile.baselines) - {"best", "best-no-graphs"} == MODES
    assert all(profile.baselines[mode].device_us for mode in MODES), profile.baselines
    assert all(profile.baselines[mode].prepare_seconds for mode in MODES - {"eager", "eager-cudagraph"})
    assert profile.environment["multiprocessor"]["threads"] >= 1024


def test_a_full_profile(judge: Judge, tmp_path: Path) -> None:
    verdict = judge.check(write_candidate(tmp_path, suffix=".cu"), "full")
    tell(verdict)
    assert verdict.correct, verdict.reason
    profile = verdict.profile
    assert profile is not None
    assert profile.placements >= 5
    assert profile.graph_error == ""
    assert profile.event_us > 0
    assert profile.graph_us is not None
    assert profile.graph_us > 0
    assert profile.warm_us is not None
    assert profile.warm_us > 0
    assert all(profile.baselines[mode].warm_us for mode in MODES)
    (kernel,) = profile.kernels
    assert (kernel.name, kernel.calls, kernel.threads) == ("scale_add_kernel", 1, 256)
    assert kernel.registers is not None
    assert kernel.spill_bytes == 0
    assert kernel.occupancy is not None
    assert 0.25 <= kernel.occupancy <= 1.0


def test_what_cannot_be_captured_is_named_and_harms_nothing(tmp_path: Path) -> None:
    """A reference and a candidate that wait for the device: the verdicts after it come from a new bench."""
    python = MODEL_NEW.replace("return out", "return out * (1.0 if x.sum().item() else 0.5)")
    with open_judge(tmp_path, SYNCHRONISING, policy="library-ok") as judge:
        original = judge.original()
        print(original)
        assert "cannot be captured" in original.baselines["eager-cudagraph"].error
        assert original.baselines["eager"].device_us
        candidate = write_candidate(tmp_path / "candidate", python=python, suffix=".cu")
        for _ in range(2):
            verdict = judge.check(candidate, "full")
            tell(verdict)
            assert verdict.correct, verdict.reason
            assert verdict.profile is not None
            assert "cannot be captured" in verdict.profile.graph_error
            assert verdict.profile.graph_us is None
            assert verdict.profile.baselines["compile"].device_us


def test_a_task_judged_by_latency(tmp_path: Path) -> None:
    with open_judge(tmp_path, judged_by="latency") as judge:
        verdict = judge.check(write_candidate(tmp_path / "candidate", suffix=".cu"))
    tell(verdict)
    assert verdict.correct, verdict.reason
    profile = verdict.profile
    assert profile is not None
    assert profile.us == profile.latency_us > profile.device_us
    assert min(len(one) for one in profile.samples["candidate"]) >= 6

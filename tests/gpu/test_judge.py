"""The judge on a GPU: right, wrong, crashing, hanging and dishonest kernels, through real processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.isolation import best_isolation
from sandbox.judge import Judge
from sandbox.judge_limits import JudgeLimits
from sandbox.verdict import GuardReport, Verdict
from tests.scale_task import MODEL_NEW, Write, cuda_kernel, reference, write_task

pytestmark = pytest.mark.gpu

SIDE_STREAM = """
  static cudaStream_t aside = nullptr;
  if (!aside) cudaStreamCreateWithFlags(&aside, cudaStreamNonBlocking);
  stream = aside;
"""


def open_judge(folder: Path, policy: str = "own-kernels") -> Judge:
    spec = write_task(folder, reference(2048, 4096), device="cuda:0", policy=policy)
    limits = JudgeLimits(call_seconds=10.0)
    return Judge(
        spec,
        isolation=best_isolation(),
        cache=folder / "cache",
        scratch=folder / "scratch",
        limits=limits,
    )


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    with open_judge(tmp_path_factory.mktemp("gpu")) as shared:
        print(shared.environment)
        yield shared


def tell(verdict: Verdict) -> None:
    """Print what a person would want to know of a run on a machine they cannot see."""
    print(f"\n{verdict.tier}: reward {verdict.reward}: {verdict.reason}")
    print({name: round(value, 2) for name, value in vars(verdict.seconds).items()}, verdict.environment)
    for finding in verdict.guard.findings if verdict.guard else ():
        print(f"  {finding.severity} {finding.rule}: {finding.evidence}")
    if verdict.profile is not None:
        profile = verdict.profile
        print(
            f"  device {profile.device_us:.2f} us, latency {profile.latency_us:.1f} us, copy {profile.copy_us:.2f} us"
        )
        for name, baseline in profile.baselines.items():
            print(f"  {name}: {baseline}; {profile.speedup.get(name)}")
        print(f"  {profile.notes} {profile.disturbed}")
        print({side: [len(one) for one in lists] for side, lists in profile.samples.items()})


@pytest.mark.parametrize("tier", ["quick", "full"])
def test_a_right_kernel(judge: Judge, candidate: Write, tier: str) -> None:
    tell(judge.check(candidate(), tier))
    verdict = judge.check(candidate(), tier)  # with baselines and questions ready
    tell(verdict)
    assert verdict.correct, verdict.reason
    assert verdict.reward is not None
    assert verdict.environment["transport"] == "cuda"
    assert verdict.environment["workers"] == "forked"
    assert verdict.profile is not None
    assert verdict.profile.latency_us > verdict.profile.device_us > verdict.profile.copy_us / 4
    assert verdict.profile.baselines["compile"].device_us is not None


def test_the_original(judge: Judge) -> None:
    profile = judge.original()
    print(profile)
    assert profile.copy_us > 0
    assert profile.baselines["best"].device_us > 0


def test_a_wrong_kernel(judge: Judge, candidate: Write) -> None:
    verdict = judge.check(candidate(cuda_kernel(body="c.y *= 1.001f;")))
    tell(verdict)
    assert verdict.reward == -1
    assert verdict.profile is None


def test_an_illegal_access_is_named_and_touches_nothing_else(judge: Judge, candidate: Write) -> None:
    verdict = judge.check(candidate(cuda_kernel(body="out[i + (int64_t(1) << 40)] = a;")))
    tell(verdict)
    assert verdict.reward == -1
    assert "illegal memory access" in verdict.reason
    assert "scale_add" in verdict.reason
    assert judge.check(candidate()).correct


def test_a_kernel_that_never_returns_is_killed(judge: Judge, candidate: Write) -> None:
    verdict = judge.check(candidate(cuda_kernel(body="while (*(volatile float*)x > -1e30f) {}")))
    tell(verdict)
    assert verdict.reward == -1
    assert "did not finish" in verdict.reason
    assert judge.check(candidate()).correct


def test_a_late_write_on_another_stream(judge: Judge, candidate: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandbox.trial.check_source", lambda *_: GuardReport(ok=True))
    verdict = judge.check(candidate(cuda_kernel(launch=SIDE_STREAM)))
    tell(verdict)
    assert verdict.reward == -1
    assert {"late-write", "side-stream"} & {finding.rule for finding in verdict.guard.findings}


def test_torch_in_the_place_of_a_kernel(judge: Judge, candidate: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandbox.trial.check_source", lambda *_: GuardReport(ok=True))
    python = MODEL_NEW.replace("return out", "return torch.relu(x * self.weight + y)")
    verdict = judge.check(candidate(python=python))
    tell(verdict)
    assert verdict.reward == -1
    assert "delegation" in {finding.rule for finding in verdict.guard.findings}


def test_the_reference_against_itself_does_not_win(
    candidate: Write, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A/A: the reference as its own candidate, under a policy that lets torch compute."""
    monkeypatch.setattr("sandbox.trial.check_source", lambda *_: GuardReport(ok=True))
    with open_judge(tmp_path_factory.mktemp("same"), "library-ok") as judge:
        verdict = judge.check(candidate(python="from model import Model as ModelNew\n"), "full")
    tell(verdict)
    assert verdict.correct, verdict.reason
    assert verdict.reward == 1

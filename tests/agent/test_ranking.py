"""Which attempt is the best, and what a disturbed measurement may not do."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from agent.ranking import best_of
from sandbox.verdict import (
    BuildReport,
    GuardReport,
    ProfileReport,
    Reward,
    Speedup,
    TaskIdentity,
    Tier,
    Verdict,
    VerifyReport,
)


@dataclass(frozen=True)
class Attempt:
    files: dict[str, str]
    verdict: Verdict


def attempt(
    file: str, tier: Tier, reward: Reward | None, ratio: float, *, correct: bool = True, code: str = ""
) -> Attempt:
    profile = ProfileReport(1.0, 1.0, {}, {"eager": Speedup(ratio, ratio, ratio)}, 1.0, {})
    return Attempt(
        {"kernels/k.cu": file},
        Verdict(
            tier=tier,
            task=TaskIdentity("t", "", "fp32", "own-kernels"),
            candidate_sha256=file,
            environment={},
            build=BuildReport(ok=True, seconds=0.0),
            guard=GuardReport(ok=True),
            verify=VerifyReport(ok=correct),
            profile=profile,
            reward=reward,
            reason="",
            source_sha256=code,
        ),
    )


@pytest.mark.parametrize(
    ("attempts", "best"),
    [
        ([], None),
        ([attempt("a", "quick", -1, 9.0, correct=False)], None),
        ([attempt("a", "quick", 2, 9.0), attempt("b", "quick", 3, 1.2)], 1),
        ([attempt("a", "quick", 3, 1.2), attempt("b", "quick", 3, 1.4)], 1),
        ([attempt("a", "quick", 3, 1.2), attempt("b", "quick", 3, 1.2)], 0),
        ([attempt("a", "full", 2, 1.2), attempt("a", "quick", 3, 1.9)], 0),
        ([attempt("a", "quick", 3, 1.9), attempt("a", "full", 2, 1.2)], 1),
        ([attempt("a", "quick", 3, 1.9), attempt("a", "full", None, 0.0)], 0),
        ([attempt("a", "full", None, 0.0), attempt("a", "quick", 3, 1.9)], 1),
        ([attempt("a", "quick", None, 0.0), attempt("b", "quick", None, 0.0)], 1),
        ([attempt("a", "quick", 1, 0.8), attempt("b", "quick", None, 0.0)], 0),
        ([attempt("a", "quick", 3, 1.9, code="1"), attempt("b", "quick", 1, 1.0, code="1")], 1),
        ([attempt("a", "quick", 3, 1.9, code="1"), attempt("b", "quick", 1, 1.0, code="2")], 0),
    ],
)
def test_the_best(attempts: list[Attempt], best: int | None) -> None:
    assert best_of(attempts) is (None if best is None else attempts[best])

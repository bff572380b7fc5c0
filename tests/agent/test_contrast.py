"""Which earlier variants are put side by side, and what is said of them."""

from dataclasses import replace

import pytest

from agent.contrast import contrast_of
from agent.state import Judged
from tests.agent.support import make_verdict

FILES = {
    "slow": {"kernels/a.cpp": b"int passes = 3;\nint tile = 8;\n"},
    "fast": {"kernels/a.cpp": b"int passes = 1;\nint tile = 8;\n"},
}


def judged(number: int, ratio: float, name: str = "slow", **changes: object) -> Judged:
    verdict = replace(make_verdict(ratio=ratio), source_sha256=f"source {number}")
    return Judged(number, {"name": name}, replace(verdict, **changes))


def contrast(*attempts: Judged, shown: tuple[tuple[int, int], ...] = ()):
    return contrast_of(attempts, shown, lambda files: FILES[files["name"]])


def test_the_best_is_compared_with_the_fastest_of_another_bucket() -> None:
    found = contrast(judged(1, 1.2), judged(2, 2.0), judged(3, 3.0, "fast"), judged(4, 3.01))
    assert found is not None
    assert found.attempts == (2, 4)


def test_the_text_has_scores_and_what_changes() -> None:
    found = contrast(judged(1, 1.5), judged(2, 3.0, "fast"))
    assert found is not None
    assert "attempt 1: reward 3, 10.0 us, 1.50 times eager (1.40 to 1.60)" in found.text
    assert "-int passes = 3;\n+int passes = 1;\n int tile = 8;" in found.text


@pytest.mark.parametrize(
    "attempts",
    [
        [],
        [judged(1, 2.0)],
        [judged(1, 2.0), judged(2, 2.01)],
        [judged(1, 2.0), judged(2, 4.0, reward=None)],
        [judged(1, 2.0, source_sha256="same"), judged(2, 4.0, source_sha256="same")],
    ],
    ids=["none", "one", "equally fast", "one that was not timed", "the same source again"],
)
def test_where_there_is_nothing_to_compare_nothing_is_said(attempts: list[Judged]) -> None:
    assert contrast(*attempts) is None


def test_a_pair_is_shown_once_and_then_the_next() -> None:
    attempts = judged(1, 1.2), judged(2, 2.0), judged(3, 3.0, "fast")
    found = contrast(*attempts, shown=((2, 3),))
    assert found is not None
    assert found.attempts == (1, 3)
    assert contrast(*attempts, shown=((2, 3), (1, 3))) is None


def test_code_that_is_long_is_cut_at_a_line() -> None:
    FILES["long"] = {f"kernels/{n}.cpp": b"int a = 1234567890;\n" * 200 for n in range(9)}
    found = contrast(judged(1, 1.2), judged(2, 2.0, "long"))
    assert found is not None
    assert len(found.text) < 7_000
    assert "\n[... the rest is left out ...]" in found.text

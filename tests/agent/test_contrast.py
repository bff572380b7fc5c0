"""Which earlier variants are put side by side, and what is said of them."""

from collections import Counter
from dataclasses import replace

import pytest

from agent.contrast import contrast_of, gained_after
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


def test_a_new_best_is_compared_with_one_of_a_slower_bucket_the_likelier_the_faster() -> None:
    drawn: Counter[int] = Counter()
    for number in range(100):
        attempts = judged(1, 1.2), judged(2, 2.0), judged(3, 2.9), judged(4, 3.0, "fast", source_sha256=f"{number}")
        found, again = contrast(*attempts), contrast(*attempts)
        assert found == again
        assert found is not None
        slower, faster = found.attempts
        assert faster == 4
        drawn[slower] += 1
    assert drawn.keys() == {1, 2}
    assert drawn[2] > 80


def test_within_a_bucket_each_is_as_likely() -> None:
    drawn: Counter[int] = Counter()
    for number in range(100):
        attempts = judged(1, 2.0), judged(2, 2.1), judged(3, 3.0, source_sha256=f"{number}")
        found = contrast(*attempts)
        assert found is not None
        drawn[found.attempts[0]] += 1
    assert min(drawn[1], drawn[2]) > 30


def test_a_new_one_that_is_slower_is_compared_with_a_faster_one() -> None:
    found = contrast(judged(1, 3.0, "fast"), judged(2, 1.1), judged(3, 1.5))
    assert found is not None
    assert found.attempts == (3, 1)
    assert contrast(judged(1, 3.0, "fast"), judged(2, 1.2), judged(3, 2.9)) is None


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
        [judged(1, 1.94), judged(2, 1.95)],
        [judged(1, 2.0, source_sha256="same"), judged(2, 4.0, source_sha256="same")],
    ],
    ids=["none", "one", "equally fast", "one that was not timed", "hardly faster", "the same source again"],
)
def test_where_there_is_nothing_to_compare_nothing_is_said(attempts: list[Judged]) -> None:
    assert contrast(*attempts) is None


def test_each_verdict_is_compared_once_and_the_same_buckets_never_again() -> None:
    attempts = judged(1, 1.2), judged(2, 2.0), judged(3, 3.0, "fast")
    assert contrast(*attempts, shown=((1, 3), (2, 3))) is None
    again = judged(4, 1.9, source_sha256="source 2")
    assert contrast(*attempts, again, shown=((2, 3),)) is None
    assert contrast(*attempts, again) is not None
    hardly_faster = judged(4, 3.1, source_sha256="source 4")
    assert contrast(*attempts, hardly_faster, shown=((2, 3), (1, 3))) is None
    assert contrast(*attempts, hardly_faster, shown=((2, 3),)) is not None


def test_what_came_of_a_comparison_is_whether_the_next_code_was_the_best_so_far() -> None:
    again = judged(4, 2.2, source_sha256="source 2")
    attempts = [judged(1, 1.2), judged(2, 2.0), judged(3, 3.0), again, judged(5, 2.5)]
    assert gained_after(attempts, [(1, 2), (2, 3)]) == [True, False]
    assert gained_after(attempts[:4], [(2, 3)]) == []


def test_code_that_is_long_is_cut_at_a_line() -> None:
    FILES["long"] = {f"kernels/{n}.cpp": b"int a = 1234567890;\n" * 200 for n in range(9)}
    found = contrast(judged(1, 1.2), judged(2, 2.0, "long"))
    assert found is not None
    assert len(found.text) < 7_000
    assert "\n[... the rest is left out ...]" in found.text

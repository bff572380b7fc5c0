"""Merging keeps both sides or refuses."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent.landing.merge import merge

BASE = b"import a\n\nONE = 1\n\nclass M:\n    x = 1\n\nTWO = 2\n\nTHREE = 3\n"
LANDED = BASE.replace(b"    x = 1\n", b"    x = fast()\n").replace(b"import a\n", b"import a\nimport k\n")
CLASS = range(4, 6)

text = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"\r\n", b"d\n"]), max_size=10).map(b"".join)


def test_edits_elsewhere_are_kept() -> None:
    ours = BASE.replace(b"THREE = 3\n", b"THREE = 4\nFOUR = 4\n")
    assert merge(BASE, ours, LANDED, CLASS) == LANDED.replace(b"THREE = 3\n", b"THREE = 4\nFOUR = 4\n")


def test_edits_of_the_judged_class_or_of_landed_lines_are_refused() -> None:
    assert merge(BASE, BASE.replace(b"x = 1", b"x = 2"), LANDED, CLASS) is None
    assert merge(BASE, BASE.replace(b"import a\n", b"import b\n"), LANDED, CLASS) is None
    assert merge(BASE, BASE.replace(b"    x = 1\n", b"    x = 1\n    y = 2\n"), LANDED, CLASS) is None


@given(text, text)
def test_an_unedited_file_takes_the_landing_as_it_is(base: bytes, theirs: bytes) -> None:
    assert merge(base, base, theirs, range(0)) == theirs


@given(text, text, text)
def test_a_merge_does_not_depend_on_whose_side_is_whose(base: bytes, ours: bytes, theirs: bytes) -> None:
    assert merge(base, ours, theirs, range(-9, -9)) == merge(base, theirs, ours, range(-9, -9))

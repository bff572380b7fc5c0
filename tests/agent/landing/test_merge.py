"""Merging keeps both sides or refuses."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent.landing.merge import merge

BASE = b"import a\n\nclass M:\n    x = 1\n\nTWO = 2\n\nTHREE = 3\n"
LANDED = BASE.replace(b"    x = 1\n", b"    x = fast()\n").replace(b"import a\n", b"import a\nimport k\n")

text = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"\r\n", b"d\n"]), max_size=10).map(b"".join)


def test_edits_elsewhere_are_kept() -> None:
    ours = BASE.replace(b"THREE = 3\n", b"THREE = 4\nFOUR = 4\n")
    assert merge(BASE, ours, LANDED) == LANDED.replace(b"THREE = 3\n", b"THREE = 4\nFOUR = 4\n")


def test_edits_beside_a_change_are_kept() -> None:
    ours = BASE.replace(b"    x = 1\n", b"    x = 1\n    y = 2\n")
    assert merge(BASE, ours, LANDED) == LANDED.replace(b"    x = fast()\n", b"    x = fast()\n    y = 2\n")


def test_edits_of_changed_lines_and_at_the_same_place_are_refused() -> None:
    assert merge(BASE, BASE.replace(b"x = 1", b"x = 2"), LANDED) is None
    assert merge(BASE, BASE.replace(b"import a\n", b"import a\nimport b\n"), LANDED) is None
    assert merge(BASE, BASE.replace(b"    x = 1\n\nTWO", b"TWO"), LANDED) is None


@given(text, text)
def test_an_unedited_file_takes_the_landing_as_it_is(base: bytes, theirs: bytes) -> None:
    assert merge(base, base, theirs) == theirs


@given(text, text, text)
def test_a_merge_does_not_depend_on_whose_side_is_whose(base: bytes, ours: bytes, theirs: bytes) -> None:
    assert merge(base, ours, theirs) == merge(base, theirs, ours)

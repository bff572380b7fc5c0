"""Selecting hunks is exact: any subset, in any order, over any bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent.landing.hunks import Hunk, hunks, join_lines, select, split_lines

line = st.sampled_from(
    [b"a", b"b", b"", b"\tx = 1", b"  x = 1", b"caf\xe9", b"\xff\xfe", "é".encode(), b"a\rb", b"\x0c", b"\xe2\x82"]
)
ending = st.sampled_from([b"\n", b"\r\n"])
content = st.builds(
    lambda pairs, last, bom: (b"\xef\xbb\xbf" if bom else b"") + b"".join(a + b for a, b in pairs) + last,
    st.lists(st.tuples(line, ending), max_size=14),
    st.sampled_from([b"", b"", b"end", b"a"]),
    st.booleans(),
)
state = st.dictionaries(st.sampled_from(["m.py", "kernels/a.cu", "kernels/b.cpp", "other.py"]), content, max_size=4)


def names(found: list[Hunk]) -> set[tuple[str, str]]:
    return {(hunk.file, hunk.id) for hunk in found}


@given(content)
def test_splitting_keeps_every_byte(text: bytes) -> None:
    assert join_lines(split_lines(text)) == text


@given(state, state)
def test_nothing_rejected_is_the_new_state_and_all_rejected_the_old(
    old: dict[str, bytes], new: dict[str, bytes]
) -> None:
    assert select(old, new, set()) == new
    assert select(old, new, names(hunks(old, new))) == old


@given(state, state, st.data())
def test_any_subset_applies_exactly(old: dict[str, bytes], new: dict[str, bytes], data: st.DataObject) -> None:
    found = hunks(old, new)
    rejected = {hunk for hunk in found if data.draw(st.booleans())}
    result = select(old, new, names(list(rejected)))
    for file in {*old, *new}:
        by_hand = apply_by_hand(old.get(file, b""), [h for h in found if h.file == file and h not in rejected])
        assert result.get(file, b"") == by_hand


@given(content, content)
def test_no_two_hunks_share_an_id(old: bytes, new: bytes) -> None:
    found = hunks({"m.py": old}, {"m.py": new})
    assert len(names(found)) == len(found)


def apply_by_hand(old: bytes, accepted: list[Hunk]) -> bytes:
    """Apply hunks from the last to the first, at the positions they state."""
    lines = split_lines(old)
    for hunk in sorted(accepted, key=lambda h: -h.old_start):
        start = hunk.old_start - 1
        assert tuple(lines[start : start + len(hunk.old_lines)]) == hunk.old_lines
        lines[start : start + len(hunk.old_lines)] = hunk.new_lines
    return join_lines(lines)


def test_neighbouring_changes_are_separate_hunks() -> None:
    old = {"m.py": b"a\nb\nc\n"}
    found = hunks(old, {"m.py": b"A\nb\nC\n"})
    assert [(h.old_start, h.old_lines, h.new_start, h.new_lines) for h in found] == [
        (1, ("a\n",), 1, ("A\n",)),
        (3, ("c\n",), 3, ("C\n",)),
    ]
    assert select(old, {"m.py": b"A\nb\nC\n"}, {("m.py", found[0].id)}) == {"m.py": b"a\nb\nC\n"}


def test_a_later_attempt_keeps_the_ids_of_the_hunks_it_kept() -> None:
    old = {"m.py": b"a\nb\nc\nd\ne\n"}
    first = hunks(old, {"m.py": b"a\nB\nc\nD\ne\n"})
    later = hunks(old, {"m.py": b"import x\na\nB\nc\nDD\ne\n"})
    assert first[0].id in {h.id for h in later}
    assert first[1].id not in {h.id for h in later}


def test_equal_blocks_have_different_ids() -> None:
    found = hunks({"m.py": b"x\na\nx\na\n"}, {"m.py": b"x\nb\nx\nb\n"})
    assert len({h.id for h in found}) == 2


def test_kernel_files_are_taken_or_refused_whole() -> None:
    old: dict[str, bytes] = {"m.py": b"a\n"}
    new = {"m.py": b"b\n", "kernels/k.cu": b"1\n2\n"}
    kernel = next(h for h in hunks(old, new) if h.file == "kernels/k.cu")
    assert (kernel.id, kernel.new_lines) == ("file", ("1\n", "2\n"))
    assert select(old, new, {("kernels/k.cu", "file")}) == {"m.py": b"b\n"}
    changed = {**new, "kernels/k.cu": b"1\n3\n"}
    assert [h.id for h in hunks(new, changed)] == ["file"]
    assert select(new, changed, {("kernels/k.cu", "file")}) == new


def test_line_ends_and_a_missing_newline_are_changes_of_their_lines() -> None:
    old, new = {"m.py": b"a\r\nb\r\nc"}, {"m.py": b"a\nb\r\nc\n"}
    found = hunks(old, new)
    assert [h.old_lines for h in found] == [("a\r\n",), ("c",)]
    assert select(old, new, {("m.py", found[1].id)}) == {"m.py": b"a\nb\r\nc"}


def test_decisions_on_hunks_that_are_gone_are_ignored() -> None:
    assert select({"m.py": b"a"}, {"m.py": b"b"}, {("m.py", "0123"), ("gone.py", "file")}) == {"m.py": b"b"}

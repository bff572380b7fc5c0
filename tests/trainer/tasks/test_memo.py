"""What was judged is kept by the hash of all that it depends on."""

from __future__ import annotations

from pathlib import Path

from trainer.tasks.memo import Memo, Outcome, key_of
from trainer.tasks.rows import practice

RIGHT = Outcome(3, "Correct and faster.", 12.5, 8.0, 3.0, "quick", 3)
TASK, OTHER = practice("cpu")[:2]
FILES = TASK.candidate("first = 0, last = 24")


def test_an_outcome_is_found_again_by_another_reader(tmp_path: Path) -> None:
    memo = Memo(tmp_path / "kept" / "judged.jsonl")
    memo.keep("a", TASK, RIGHT)
    memo.keep("b", TASK, Outcome(-1, "It does not build."))
    assert Memo(memo.path).get("a") == RIGHT
    assert Memo(memo.path).get("b") == Outcome(-1, "It does not build.")
    assert Memo(memo.path).get("c") is None


def test_what_could_not_be_judged_is_not_kept(tmp_path: Path) -> None:
    memo = Memo(tmp_path / "judged.jsonl")
    memo.keep("a", TASK, Outcome(None, "The machine was busy."))
    assert memo.get("a") is None
    assert not memo.path.exists()


def test_what_another_process_kept_is_seen_after_a_refresh(tmp_path: Path) -> None:
    mine, theirs = Memo(tmp_path / "judged.jsonl"), Memo(tmp_path / "judged.jsonl")
    theirs.keep("a", TASK, RIGHT)
    assert mine.get("a") is None
    mine.refresh()
    assert mine.get("a") == RIGHT
    theirs.keep("b", TASK, RIGHT)
    mine.refresh()
    assert len(mine) == 2


def test_a_line_that_was_cut_off_is_passed_over(tmp_path: Path) -> None:
    memo = Memo(tmp_path / "judged.jsonl")
    memo.keep("a", TASK, RIGHT)
    with memo.path.open("ab") as file:
        file.write(b'not a line\n{"key": "b", "rew')
    assert len(Memo(memo.path)) == 1


def test_the_key_depends_on_task_candidate_and_how_it_is_judged_and_on_nothing_else() -> None:
    key = key_of(TASK, FILES, "cpu", {"placements": 3})
    remarked = {path: content + b"// remark\n" if path.endswith("cpp") else content for path, content in FILES.items()}
    assert key_of(TASK, remarked, "cpu", {"placements": 3}) == key
    others = [
        key_of(OTHER, FILES, "cpu", {"placements": 3}),
        key_of(TASK, TASK.candidate("first = 0, last = 25"), "cpu", {"placements": 3}),
        key_of(TASK, FILES, "cpu", {"placements": 5}),
    ]
    assert len({key, *others}) == 4

"""The index of landings: what a clone reads, what git merges, and what an undo leaves of it."""

from __future__ import annotations

import random
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.landing.change import FileChange
from agent.landing.index import find, lines_for, lines_of, noted, project_root, read_index
from agent.landing.kept import Kept, kept_of
from agent.landing.taking_back import take_back
from agent.landing.write import land
from sandbox.errors import LandingRefused, UsageError
from sandbox.task import DynamicSize
from tests.agent.landing.example import make_project, planned, verdict
from tests.agent.landing.repositories import git, picture

INDEX = ".warpsmith/landed.toml"


def kept(name: str = "pkg/blocks.py:Block", **changes: object) -> Kept:
    path, _, class_name = name.rpartition(":")
    values: dict[str, Any] = {
        "name": name,
        "kind": "module",
        "file": path,
        "folder": f"{path[:-3]}_kernels",
        "class_name": class_name,
        "device": "cpu",
        "landed": "2026-11-30T01:00:00Z",
        "reward": 2,
        "speedup": {"eager": (1.5, 1.4, 1.6)},
        "environment": {"torch": "2.13.0"},
        "task": {"init": "8"},
        **dict.fromkeys(("file_sha256", "class_sha256", "original_sha256", "record_sha256"), "0"),
        **changes,
    }
    return Kept(**values)


def note(project: Path, *entries: Kept) -> list[FileChange]:
    changes: list[FileChange] = []
    for each in entries:
        changes = noted(project, each.name, lines_for(each))
        land(changes)
    return changes


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@settings(max_examples=50)
@given(
    st.dictionaries(TEXT, TEXT, max_size=3),
    st.dictionaries(TEXT, st.one_of(TEXT, st.booleans(), st.integers(), st.lists(st.integers())), max_size=3),
    TEXT,
)
def test_what_is_noted_is_read_again(environment: dict[str, str], task: dict[str, object], name: str) -> None:
    entry = kept(f"{name}.py:Block", environment=environment, task=task)
    text = "\n".join(lines_for(entry))
    assert lines_of(text.encode(), entry.name) == text.split("\n")
    data = tomllib.loads(text)
    assert Kept.from_json(entry.name, data[entry.name]) == entry


def test_a_landing_is_noted_with_what_makes_its_task_and_no_absolute_path(tmp_path: Path) -> None:
    spec = make_project(tmp_path / "project").with_changes(
        dtype="bfloat16",
        gradients=True,
        dynamic=(DynamicSize(("x.0",), 1, 64),),
    )
    changes = planned(spec)
    spec = spec.with_changes(capture=str(tmp_path / "project/.warpsmith/captures/Block"))
    entry = kept_of(spec, changes, verdict(), spec.root, "session")
    land([*changes, *noted(spec.root, entry.name, lines_for(entry))])
    assert read_index(spec.root) == {"shop/blocks.py:Block": entry}
    assert entry.task == {
        "init": "8",
        "inputs": "torch.randn(4, 8), shift=None",
        "dtype": "bfloat16",
        "gradients": True,
        "dynamic": entry.task["dynamic"],
        "capture": ".warpsmith/captures/Block",
    }
    assert str(tmp_path) not in (spec.root / INDEX).read_text()


def test_undone_in_any_order_the_project_is_as_it_was(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    before = picture(tmp_path)
    names = ["b.py:B", "a.py:A", "c.py:C"]
    landings = {name: note(tmp_path, kept(name)) for name in names}
    assert list(read_index(tmp_path)) == ["a.py:A", "b.py:B", "c.py:C"]
    random.Random(1).shuffle(names)
    for name in names:
        land([step.change for step in take_back(landings[name], tmp_path, name) if step.change])
        assert name not in read_index(tmp_path)
    assert picture(tmp_path) == before


def test_an_undo_brings_the_landing_before_it_back(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    note(tmp_path, kept())
    again = note(tmp_path, kept(reward=3))
    note(tmp_path, kept("z.py:Z"))
    land([step.change for step in take_back(again, tmp_path, "pkg/blocks.py:Block") if step.change])
    assert {name: entry.reward for name, entry in read_index(tmp_path).items()} == {
        "pkg/blocks.py:Block": 2,
        "z.py:Z": 2,
    }


def test_lines_of_somebody_elses_stay(tmp_path: Path) -> None:
    (tmp_path / ".warpsmith").mkdir()
    (tmp_path / INDEX).write_text("# why\n\n# ours\nx.y = 1\n")
    changes = note(tmp_path, kept())
    note(tmp_path, kept("z.py:Z"))
    assert "# ours\nx.y = 1\n" in (tmp_path / INDEX).read_text()
    land([step.change for step in take_back(changes, tmp_path, "pkg/blocks.py:Block") if step.change])
    assert "# ours\nx.y = 1\n" in (tmp_path / INDEX).read_text()


def test_git_merges_what_two_branches_landed(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    note(tmp_path, kept("m.py:M"))
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    for branch, entry in (("left", kept("a.py:A")), ("right", kept("b.py:B")), ("far", kept("z.py:Z", task={}))):
        git(tmp_path, "checkout", "-q", "-b", branch, "main")
        note(tmp_path, entry)
        git(tmp_path, "commit", "-q", "-a", "-m", branch)
    git(tmp_path, "merge", "-q", "-m", "one", "left")
    git(tmp_path, "merge", "-q", "-m", "two", "right")
    assert list(read_index(tmp_path)) == ["a.py:A", "b.py:B", "m.py:M", "z.py:Z"]
    assert git(tmp_path, "status", "--porcelain") == ""


def test_an_index_that_cannot_be_read_says_where_and_what_next(tmp_path: Path) -> None:
    note(tmp_path, kept())
    whole, key = (tmp_path / INDEX).read_text(), '"pkg/blocks.py:Block"'
    whole = "\n".join(line for line in whole.split("\n") if ".session" not in line)
    for spoiled, said in (
        (f"{whole}<<<<<<< ours\n", "does not parse"),
        (whole.replace(".kind", ".kindred"), "kind"),
        ("a = 1\n", "nothing usable of a"),
        (f"{whole}{key}.session = 5\n", r"pkg/blocks.py:Block \(session is 5, not text"),
        (whole.replace('.file = "pkg/blocks.py"', ".file = 3"), "file is 3, not text"),
        (whole.replace(".reward = 2", ".reward = true"), "reward is True, not a whole number"),
        (whole.replace('"module"', '"modul"'), "kind is 'modul'"),
        (whole.replace("[1.5, 1.4, 1.6]", "4"), "speedup.eager is 4, not three numbers"),
        (whole.replace('.environment.torch = "2.13.0"', ".environment.torch = 2.13"), "environment.torch is 2.13"),
        (whole.replace('.task.init = "8"', ".task.init = 8"), "task.init is 8, not text"),
        (whole.replace('.task.init = "8"', ".task.dynamic = [1]"), "nothing usable"),
    ):
        (tmp_path / INDEX).write_text(spoiled)
        with pytest.raises(UsageError, match=said) as caught:
            read_index(tmp_path)
        assert str(tmp_path / INDEX) in caught.value.where
        assert caught.value.next_step


def test_a_name_may_be_a_class_or_the_end_of_a_path(tmp_path: Path) -> None:
    entries = {name: kept(name) for name in ("a/x.py:Block", "b/x.py:Block", "b/y.py:Other")}
    assert find(entries, "Other", tmp_path).name == "b/y.py:Other"
    assert find(entries, "b/x.py:Block", tmp_path).name == "b/x.py:Block"
    assert find({"b/x.py:Block": kept("b/x.py:Block")}, "x.py:Block", tmp_path).name == "b/x.py:Block"
    for name in ("Block", "x.py:Block", "None"):
        with pytest.raises(UsageError) as caught:
            find(entries, name, tmp_path)
        assert caught.value.next_step


def test_a_link_in_the_place_of_the_index_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".warpsmith").symlink_to("elsewhere")
    with pytest.raises(LandingRefused, match="not a folder of the project"):
        noted(tmp_path, "a.py:A", ["x"])


def test_the_project_is_the_nearest_folder_with_an_index_or_a_repository(tmp_path: Path) -> None:
    inner = tmp_path / "outer/inner/pkg"
    inner.mkdir(parents=True)
    (tmp_path / "outer/pyproject.toml").touch()
    assert project_root(inner / "m.py") == tmp_path / "outer"
    subprocess.run(["git", "init", "-q", str(tmp_path / "outer/inner")], check=True)
    assert project_root(inner / "m.py") == tmp_path / "outer/inner"
    assert project_root(tmp_path / "outer/inner") == tmp_path / "outer/inner"

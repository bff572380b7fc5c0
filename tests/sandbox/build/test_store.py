"""The content-addressed store on a disk that loses, cuts and refuses."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sandbox.build import Built
from sandbox.build.store import Store

from .conftest import ADD_CPP


def test_the_first_writer_of_a_key_wins(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    first = store.put("key", {"data": b"one"})
    assert store.put("key", {"data": b"two"}) == first
    assert (first / "data").read_bytes() == b"one"
    assert [entry.name for entry in store.folder.iterdir()] == ["key"]


@pytest.mark.parametrize("damage", ["cut", "changed", "lost", "unnamed"])
def test_an_entry_that_is_not_what_was_written_is_none(tmp_path: Path, damage: str) -> None:
    store = Store(tmp_path / "store")
    entry = store.put("key", {"data": b"one", "more": b""})
    assert store.find("key") == entry
    if damage == "cut":
        os.truncate(entry / "data", 1)
    elif damage == "changed":
        (entry / "data").write_bytes(b"two")
    else:
        (entry / ("more" if damage == "lost" else "sums.json")).unlink()
    assert store.find("key") is None
    assert not entry.exists()


@pytest.mark.parametrize("name", ["kernels.so", "manifest.json", "report.json", "inspection.json"])
def test_a_library_cut_short_on_disk_is_built_again(build: Callable[..., Built], name: str) -> None:
    built = build({"add.cpp": ADD_CPP})
    assert built.manifest is not None
    file = built.manifest.library.with_name(name)
    whole = file.read_bytes()
    os.truncate(file, len(whole) // 2)
    again = build({"add.cpp": ADD_CPP})
    assert again == replace(built, report=replace(built.report, seconds=again.report.seconds))
    assert file.read_bytes() == whole


def test_an_object_that_is_gone_is_compiled_again(build: Callable[..., Built], tmp_path: Path) -> None:
    built = build({"add.cpp": ADD_CPP})
    [entry] = [
        each for each in (tmp_path / "cache/objects").iterdir() if "kernels/add.cpp" in (each / "own").read_text()
    ]
    (entry / "object.o").unlink()
    both = build({"add.cpp": ADD_CPP, "other.cpp": 'extern "C" int other(int n) { return n; }\n'})
    assert built.report.ok
    assert both.report.ok
    assert (entry / "object.o").is_file()


def test_an_entry_that_can_only_be_read_is_used(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    entry = store.put("key", {"data": b"one"})
    entry.chmod(0o555)
    store.folder.chmod(0o555)
    try:
        assert store.find("key") == entry
    finally:
        store.folder.chmod(0o755)
        entry.chmod(0o755)

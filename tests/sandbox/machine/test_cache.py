"""Making room among what is kept: the longest unused goes first, and bounds hold."""

from __future__ import annotations

import os
import time
from pathlib import Path

from sandbox.build.store import Store
from sandbox.machine.cache import Part, make_room, parts, prune, tidy, usage

DAY = 86400.0


def aged(folder: Path, days: float, size: int = 1 << 16) -> Path:
    """A folder with a file that was used some days ago."""
    folder.mkdir(parents=True)
    (folder / "file").write_bytes(b"x" * size)
    then = time.time() - days * DAY
    for path in (folder / "file", folder):
        os.utime(path, (then, then))
    return folder


def test_the_longest_unused_goes_first_and_the_bound_holds_on_a_busy_day(tmp_path: Path) -> None:
    part = Part("any", tmp_path, 3 * (1 << 16))
    kept = [aged(tmp_path / name, days) for name, days in (("b", 0.2), ("c", 0.1), ("d", 0.0))]
    gone = [aged(tmp_path / name, days) for name, days in (("a", 0.3), ("old", 90))]
    assert make_room(part) == 2 * (1 << 16)
    assert [folder.exists() for folder in (*kept, *gone)] == [True] * 3 + [False] * 2
    assert make_room(part) == 0


def test_an_entry_counts_as_used_when_it_is_found(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    for key in ("first", "second"):
        store.put(key, {"data": b"x" * (1 << 16)})
        aged_entry = store.folder / key
        for path in (*aged_entry.iterdir(), aged_entry):
            os.utime(path, (time.time() - DAY,) * 2)
    assert store.find("first")
    make_room(Part("any", store.folder, (1 << 16) + (1 << 15)))
    assert [entry.name for entry in store.folder.iterdir()] == ["first"]


def test_nested_folders_of_what_torch_compiled_go_one_by_one(tmp_path: Path) -> None:
    inductor = tmp_path / "compiled/inductor"
    old, new = aged(inductor / "fxgraph/ab", 40), aged(inductor / "fxgraph/cd", 0)
    recent = aged(tmp_path / "kernels/objects/key", 0.5)
    assert prune(tmp_path, everything=False) == 1 << 16
    assert (old.exists(), new.exists(), recent.exists()) == (False, True, True)
    assert prune(tmp_path, everything=True) == 1 << 16
    assert (new.exists(), recent.exists()) == (True, False)


def test_usage_names_every_part(tmp_path: Path) -> None:
    aged(tmp_path / "kernels/libraries/key", 1)
    found = {each.part.name: (each.units, each.bytes) for each in usage(tmp_path)}
    assert found == {part.name: (0, 0) for part in parts(tmp_path)} | {"libraries": (1, 1 << 16)}


def test_room_is_made_at_most_once_a_minute(tmp_path: Path) -> None:
    part = Part("any", tmp_path / "kept", 0)
    first = aged(part.folder / "first", 1)
    tidy(tmp_path, [part])
    second = aged(part.folder / "second", 1)
    tidy(tmp_path, [part])
    assert (first.exists(), second.exists()) == (False, True)
    os.utime(tmp_path / "tidied", (time.time() - 3600,) * 2)
    tidy(tmp_path, [part])
    assert not second.exists()

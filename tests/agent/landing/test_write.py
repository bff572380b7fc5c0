"""A landing changes its files and nothing else, whole or not at all, and undo brings back every byte."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agent.landing.change import FileChange
from agent.landing.exchange import exchange
from agent.landing.undo import steps_back, undo
from agent.landing.write import land
from sandbox.errors import LandingRefused
from tests.agent.landing import repositories
from tests.agent.landing.repositories import MODULE, picture

EDITED = "edited since; left as it is"


def changes_for(module: Path) -> list[FileChange]:
    """What a landing of a small module writes: its file, and a folder with a folder in it."""
    before = module.read_bytes()
    folder = module.parent / "blocks_kernels"
    return [
        FileChange(module, before, before.replace(b"x * 2 + 1", b"fused(x)")),
        FileChange(folder / "__init__.py", None, b"def fused(x): ...\n"),
        FileChange(folder / "fused.cpp", None, b"int fused() { return 0; }\n"),
        FileChange(folder / "common/types/half.h", None, b"\xff\x00binary"),
    ]


def landed(changes: list[FileChange]) -> bool:
    return all((change.path.read_bytes() if change.path.exists() else None) == change.after for change in changes)


@pytest.mark.parametrize("make", repositories.KINDS)
def test_a_landing_touches_its_files_only_and_undo_restores_everything(tmp_path: Path, make) -> None:
    module = make(tmp_path)
    before = picture(tmp_path)
    changes = changes_for(module)
    land(changes)
    after = picture(tmp_path)
    assert landed(changes)
    touched = {path for path in {*before, *after} if before.get(path) != after.get(path)}
    folder = str((module.parent / "blocks_kernels").relative_to(tmp_path))
    assert {path for path in touched if not path.startswith(folder)} == {str(module.relative_to(tmp_path))}
    assert after[str(module.relative_to(tmp_path))][0] == before[str(module.relative_to(tmp_path))][0]
    outcomes = undo(changes)
    assert [outcome for _, outcome in outcomes] == ["restored", "removed", "removed", "removed"]
    assert picture(tmp_path) == before


def test_an_undo_can_be_undone(tmp_path: Path) -> None:
    changes = changes_for(repositories.project(tmp_path))
    land(changes)
    picture_landed = picture(tmp_path)
    undo(changes)
    inverse = [change.inverse() for change in changes]
    assert [outcome for _, outcome in undo(inverse)] == ["restored", "created", "created", "created"]
    assert picture(tmp_path) == picture_landed


def test_undo_removes_what_python_cached_of_the_landing_and_nothing_else(tmp_path: Path) -> None:
    module = repositories.project(tmp_path)
    changes = changes_for(module)
    before = picture(tmp_path)
    land(changes)
    env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run([sys.executable, "-c", "import pkg.blocks_kernels"], cwd=tmp_path, env=env, check=True)
    shutil.rmtree(module.parent / "__pycache__")
    assert (module.parent / "blocks_kernels/__pycache__").exists()
    undo(changes)
    assert picture(tmp_path) == before


def test_an_edited_kernel_is_left_alone_and_the_rest_is_restored(tmp_path: Path) -> None:
    module = repositories.project(tmp_path)
    changes = changes_for(module)
    land(changes)
    kernel = changes[2].path
    kernel.write_bytes(b"mine")
    outcomes = dict(undo(changes))
    assert outcomes[kernel] == EDITED
    assert outcomes[module] == "restored"
    assert (module.read_bytes(), kernel.read_bytes()) == (MODULE, b"mine")
    assert not changes[1].path.exists()


def test_a_module_edited_where_it_was_landed_keeps_the_kernels_it_may_use(tmp_path: Path) -> None:
    module = repositories.project(tmp_path)
    changes = changes_for(module)
    land(changes)
    module.write_bytes(module.read_bytes().replace(b"fused(x)", b"fused(x) + 1"))
    before = picture(tmp_path)
    outcomes = dict(undo(changes))
    assert outcomes[module] == EDITED
    assert outcomes[changes[1].path] == "kept, because blocks.py was edited since and may use it"
    assert picture(tmp_path) == before


def test_a_landing_is_taken_out_of_a_module_that_was_edited_elsewhere_since(tmp_path: Path) -> None:
    module = repositories.project(tmp_path)
    changes = changes_for(module)
    land(changes)
    module.write_bytes(module.read_bytes() + b"# mine\n")
    steps = steps_back(changes)
    assert [step.exact for step in steps] == [False, True, True, True]
    edited = picture(tmp_path)
    undo(changes)
    assert module.read_bytes() == MODULE + b"# mine\n"
    assert not changes[1].path.exists()
    land([step.change.inverse() for step in steps if step.change])
    assert picture(tmp_path) == edited


def test_a_module_edited_elsewhere_that_names_the_kernels_keeps_them(tmp_path: Path) -> None:
    module = repositories.project(tmp_path)
    changes = changes_for(module)
    land(changes)
    module.write_bytes(module.read_bytes() + b"import pkg.blocks_kernels\n")
    assert dict(undo(changes))[changes[1].path].startswith("kept, because")
    assert module.read_bytes() == MODULE + b"import pkg.blocks_kernels\n"
    assert changes[1].path.exists()


def test_undo_of_nothing_says_so(tmp_path: Path) -> None:
    module = repositories.project(tmp_path)
    before = picture(tmp_path)
    assert {outcome for _, outcome in undo(changes_for(module))} == {"already as it was"}
    assert picture(tmp_path) == before


def test_a_removed_file_comes_back_with_its_permissions(tmp_path: Path) -> None:
    script = tmp_path / "old.sh"
    script.write_bytes(b"#!/bin/sh\n")
    script.chmod(0o750)
    changes = [FileChange(script, b"#!/bin/sh\n", None, 0o750)]
    before = picture(tmp_path)
    land(changes)
    assert not script.exists()
    undo(changes)
    assert picture(tmp_path) == before


def refused(changes: list[FileChange], root: Path) -> LandingRefused:
    """Land, which must be refused and leave no trace."""
    before = picture(root)
    with pytest.raises(LandingRefused) as caught:
        land(changes)
    assert picture(root) == before
    assert caught.value.where
    assert caught.value.next_step
    return caught.value


def test_a_file_that_changed_meanwhile_is_refused(tmp_path: Path) -> None:
    changes = changes_for(repositories.project(tmp_path))
    changes[0].path.write_bytes(b"else\n")
    assert "has changed" in refused(changes, tmp_path).what


def test_a_file_that_appeared_meanwhile_is_refused(tmp_path: Path) -> None:
    changes = changes_for(repositories.project(tmp_path))
    changes[2].path.parent.mkdir()
    changes[2].path.write_bytes(b"mine\n")
    assert "fused.cpp has changed" in refused(changes, tmp_path).what


def test_an_edit_at_the_moment_of_writing_is_found_and_kept(tmp_path: Path, monkeypatch) -> None:
    """Another process writes between the last look at a file and its replacement."""
    changes = changes_for(repositories.project(tmp_path))
    module = changes[0].path

    def edited_first(one: Path, other: Path) -> bool:
        if other == module and module.read_bytes() == MODULE:
            module.write_bytes(b"mine\n")
        return exchange(one, other)

    monkeypatch.setattr("agent.landing.write.exchange", edited_first)
    with pytest.raises(LandingRefused, match="has changed"):
        land(changes)
    assert module.read_bytes() == b"mine\n"
    assert sorted(path.name for path in module.parent.iterdir()) == ["__init__.py", "blocks.py", "other.py"]


WRITER = """
import sys
from pathlib import Path
module = Path(sys.argv[1])
for number in range(300):
    new = module.with_name(".new")
    new.write_bytes(b"token %06d\\n" % number)
    new.replace(module)
"""


def test_what_another_process_saves_meanwhile_is_never_written_over(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_bytes(b"start\n")
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(module)])
    while writer.poll() is None:
        before = module.read_bytes()
        change = FileChange(module, before, before + b"landed\n")
        with contextlib.suppress(LandingRefused):
            land([change])
            undo([change])
    assert module.read_bytes().startswith(b"token 000299\n")
    assert [path.name for path in tmp_path.iterdir()] == ["module.py"]


def test_a_symbolic_link_is_refused_and_its_target_named(tmp_path: Path) -> None:
    module = repositories.project(tmp_path)
    real = module.rename(tmp_path / "real.py")
    module.symlink_to(real)
    error = refused(changes_for(module), tmp_path)
    assert str(real) in error.what


def test_a_write_protected_file_is_refused(tmp_path: Path) -> None:
    module = repositories.project(tmp_path)
    module.chmod(0o444)
    assert "chmod u+w" in refused(changes_for(module), tmp_path).next_step


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    module = repositories.project(tmp_path)
    (module.parent / "blocks_kernels").write_bytes(b"a file in its place\n")
    refused(changes_for(module), tmp_path)


def test_a_folder_in_the_place_of_a_file_is_refused(tmp_path: Path) -> None:
    module = repositories.project(tmp_path)
    (module.parent / "blocks_kernels/fused.cpp").mkdir(parents=True)
    assert "not a file" in refused(changes_for(module), tmp_path).what


def test_a_name_that_is_too_long_puts_everything_back(tmp_path: Path) -> None:
    changes = changes_for(repositories.project(tmp_path))
    changes.append(FileChange(tmp_path / ("x" * 250), None, b""))
    assert "Everything is as it was" in refused(changes, tmp_path).what


def test_a_read_only_folder_is_refused(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root writes into read-only folders")
    module = repositories.project(tmp_path)
    module.parent.chmod(0o555)
    try:
        assert "writable" in refused(changes_for(module), tmp_path).next_step
    finally:
        module.parent.chmod(0o755)


@pytest.fixture
def small_disk(tmp_path: Path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("mounting a small disk needs root")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_is_refused_and_nothing_is_lost(small_disk: Path) -> None:
    changes = changes_for(repositories.project(small_disk))
    changes.append(FileChange(changes[1].path.with_name("large.cpp"), None, b"x" * 100_000))
    assert "space" in refused(changes, small_disk).next_step


STEPS = ("open", "os.link", "os.mkdir", "os.rename", "os.remove", "os.rmdir")

CHILD = """
import json, os, signal, sys, traceback
from pathlib import Path
from agent.landing.change import FileChange
from agent.landing.undo import steps_back, undo
from agent.landing.write import land
from tests.agent.landing.test_write import STEPS, changes_for

module, record = Path(sys.argv[1]), Path(sys.argv[2])

def do(deed, fatal):
    steps = 0
    changes = changes_for(module) if deed == "land" else [
        FileChange(Path(path), *(None if side is None else side.encode("latin-1") for side in sides))
        for path, *sides in json.loads(record.read_text())
    ]

    def die_at(event, arguments):
        nonlocal steps
        inside = arguments and str(module.parent) in str(arguments[0])
        if event in STEPS and inside:
            steps += 1
            if steps == fatal:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(die_at)
    land(changes) if deed == "land" else undo(changes)

for line in sys.stdin:
    deed, fatal = line.split()
    child = os.fork()
    if child == 0:
        try:
            do(deed, int(fatal))
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Mortals:
    """Makes processes that land or undo and die on the way, from one that has imported what they need."""

    def __init__(self, module: Path, record: Path) -> None:
        command = [sys.executable, "-c", CHILD, str(module), str(record)]
        pipe = subprocess.PIPE
        self._parent = subprocess.Popen(command, cwd=Path(__file__).parents[3], stdin=pipe, stdout=pipe, text=True)

    def run(self, deed: str, step: int) -> int:
        """Land or undo in a process that dies just before its nth step on the disk; returns its exit status."""
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.write(f"{deed} {step}\n")
        self._parent.stdin.flush()
        status = int(self._parent.stdout.readline())
        assert status in (0, -signal.SIGKILL)
        return status

    def close(self) -> None:
        self._parent.communicate()


def whole(changes: list[FileChange]) -> bool:
    """Whether every file is one side or the other, and the module calls no kernel that is not there."""
    for change in changes:
        content = change.path.read_bytes() if change.path.exists() else None
        if content not in (change.before, change.after):
            return False
    calls = changes[0].path.read_bytes() == changes[0].after
    return not calls or landed(changes)


@pytest.mark.slow
def test_killed_at_any_step_undo_leads_back_and_the_module_always_works(tmp_path: Path) -> None:
    record = tmp_path / "record.json"
    root = tmp_path / "project"
    module = repositories.project(root)
    before = picture(root)
    changes = changes_for(module)
    sides = [(str(c.path), *(None if s is None else s.decode("latin-1") for s in (c.before, c.after))) for c in changes]
    record.write_text(json.dumps(sides))
    mortals = Mortals(module, record)
    for deed in ("land", "undo"):
        step = 0
        finished = False
        while not finished:
            step += 1
            if deed == "undo":
                land(changes)
            finished = mortals.run(deed, step) == 0
            assert whole(changes), f"{deed} killed before step {step}"
            undo(changes)
            assert picture(root) == before, f"{deed} killed before step {step}"
        assert step > 8, "the steps were counted"
    mortals.close()

"""What a landing would write, and what it refuses to."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.landing import VerifiedInputs, land, plan, undo
from agent.landing.folder import RECORD, read_original, read_record, write_original
from sandbox.errors import LandingRefused
from sandbox.task import TaskSpec
from tests.agent.landing.example import (
    CANDIDATE,
    KERNEL,
    ORIGINAL,
    SIGNATURE,
    accepted,
    make_project,
    planned,
    run,
    verdict,
)
from tests.agent.landing.repositories import picture


def refused(spec: TaskSpec, state: dict[str, bytes] | None = None, original: str = ORIGINAL) -> LandingRefused:
    before = picture(spec.root)
    with pytest.raises(LandingRefused) as caught:
        planned(spec, state, original)
    assert picture(spec.root) == before
    assert caught.value.next_step
    return caught.value


def test_planning_writes_nothing_and_names_the_file_and_one_folder(tmp_path: Path) -> None:
    spec = make_project(tmp_path)
    before = picture(tmp_path)
    changes = planned(spec)
    assert picture(tmp_path) == before
    assert changes[0].path == spec.path
    assert {c.path.parent for c in changes[1:]} == {spec.path.parent / "blocks_kernels"}
    names = {c.path.name for c in changes[1:]}
    assert names >= {
        "__init__.py",
        "_kernels.py",
        "_runtime.py",
        "_original.py",
        "fused_block.cpp",
        "constants.h",
        RECORD,
    }
    assert "notes.txt" not in names
    contents = {c.path.name: c.after for c in changes}
    assert read_original(contents["_original.py"]) == ORIGINAL.encode()


def test_the_judged_bytes_land_with_one_decorator_and_its_import(tmp_path: Path) -> None:
    (change, *_) = planned(make_project(tmp_path))
    added = [line for line in (change.after or b"").decode().splitlines() if line not in CANDIDATE.splitlines()]
    assert added == ["from .blocks_kernels import fused_block, landed", "@landed"]


def test_the_landed_files_parse_on_the_oldest_python(tmp_path: Path) -> None:
    for change in planned(make_project(tmp_path)):
        if change.path.suffix == ".py" and change.after:
            ast.parse(change.after, feature_version=(3, 9))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_ends_are_kept(tmp_path: Path, end: str) -> None:
    original, candidate = (text.replace("\n", end) for text in (ORIGINAL, CANDIDATE))
    spec = make_project(tmp_path)
    spec.path.write_bytes(original.encode())
    (change, *_) = planned(spec, accepted(candidate), original)
    assert (change.after or b"").count(b"\n") == (change.after or b"").count(end.encode())


@given(st.binary(), st.lists(st.sampled_from([b"a = 1\n", b"\r\n", b"\tb\r", b"'\"", b"\xe9\x0c\x00\\"])).map(b"".join))
def test_the_original_is_kept_byte_for_byte(one: bytes, other: bytes) -> None:
    spec = TaskSpec("module", Path("/m.py"), "M", "m", Path("/"), Path("/python"))
    for source in (one, other, b""):
        assert read_original(write_original(spec, source)) == source


def test_a_kernel_with_a_name_of_the_folders_own_is_refused(tmp_path: Path) -> None:
    state = accepted(CANDIDATE.replace("fused_block", "counts"), KERNEL.replace("fused_block", "counts"))
    assert "another name" in refused(make_project(tmp_path), state).next_step


def test_an_incorrect_state_is_refused(tmp_path: Path) -> None:
    spec = make_project(tmp_path)
    verified = VerifiedInputs.of(spec, SIGNATURE, ORIGINAL.encode())
    with pytest.raises(LandingRefused, match="Its output is wrong"):
        plan(spec, {"blocks.py": ORIGINAL.encode()}, accepted(), verdict(ok=False), verified)


def test_a_state_that_leaves_the_module_as_it_was_is_refused(tmp_path: Path) -> None:
    assert "nothing to land" in refused(make_project(tmp_path), accepted(ORIGINAL)).what


def test_a_candidate_that_drops_what_the_original_needs_is_refused(tmp_path: Path) -> None:
    without = CANDIDATE.replace("        self.act = nn.Tanh()\n", "").replace("        self.squash = squash\n", "")
    error = refused(make_project(tmp_path), accepted(without))
    assert "self.act, self.squash" in error.what
    assert "keep self.act, self.squash" in error.next_step


def test_a_session_on_a_landed_file_is_refused(tmp_path: Path) -> None:
    spec = make_project(tmp_path, CANDIDATE)
    faster = accepted(CANDIDATE.replace("self.eps)", "self.eps * 1)"))
    assert "held a landing already" in refused(spec, faster, CANDIDATE).what


def test_a_file_that_is_gone_is_refused(tmp_path: Path) -> None:
    spec = make_project(tmp_path)
    spec.path.unlink()
    assert "not there any more" in refused(spec).what


def test_edits_elsewhere_in_the_file_are_kept(tmp_path: Path) -> None:
    root = tmp_path / "project"
    spec = make_project(root)
    edited = ORIGINAL.replace('"""Blocks of the shop."""', '"""Blocks, of the shop."""') + "\n\nMORE = Block\n"
    spec.path.write_text(edited)
    before = picture(root)
    changes = planned(spec)
    text = (changes[0].after or b"").decode()
    assert text.startswith('"""Blocks, of the shop."""')
    assert text.endswith("MORE = Block\n")
    assert "@landed" in text
    assert read_original(next(c.after for c in changes if c.path.name == "_original.py")) == edited.encode()
    land(changes)
    undo(changes)
    assert picture(root) == before


@pytest.mark.parametrize(
    "edited",
    [
        ORIGINAL.replace("self.eps = eps", "self.eps = 2 * eps"),
        ORIGINAL + "\n    def more(self):\n        pass\n",
        ORIGINAL.replace("class Block", "class Blocks"),
        ORIGINAL.replace("return x * 2", "return x *"),
        ORIGINAL.replace("from .parts import REGISTRY, Scale, register", "from .parts import *"),
    ],
)
def test_edits_of_the_class_and_of_changed_lines_are_refused(tmp_path: Path, edited: str) -> None:
    spec = make_project(tmp_path)
    spec.path.write_text(edited)
    state = accepted(CANDIDATE.replace("REGISTRY, Scale, register", "Scale, register"))
    assert "edited since the session began" in refused(spec, state).what


def test_a_symbolic_link_is_refused(tmp_path: Path) -> None:
    spec = make_project(tmp_path)
    spec.path.rename(tmp_path / "real.py")
    spec.path.symlink_to(tmp_path / "real.py")
    assert "symbolic link" in refused(spec).what


@pytest.mark.parametrize("kind", ["folder", "file", "link"])
def test_a_folder_that_is_not_a_landing_is_refused(tmp_path: Path, kind: str) -> None:
    spec = make_project(tmp_path)
    place = spec.path.parent / "blocks_kernels"
    if kind == "folder":
        place.mkdir()
        (place / "mine.py").write_text("MINE = 1\n")
    elif kind == "file":
        place.write_text("mine")
    else:
        (tmp_path / "elsewhere").mkdir()
        place.symlink_to(tmp_path / "elsewhere")
    assert "Move" in refused(spec).next_step


def test_a_later_attempt_lands_over_an_earlier_one_and_each_is_undone(tmp_path: Path) -> None:
    spec = make_project(tmp_path)
    start = picture(tmp_path)
    first = planned(spec)
    land(first)
    middle = picture(tmp_path)
    renamed = CANDIDATE.replace("fused_block", "quick_block")
    later = {"blocks.py": renamed.encode(), "kernels/quick.cpp": KERNEL.replace("fused_block", "quick_block").encode()}
    later["kernels/constants.h"] = b"#define FACTOR (2.0f)\n"
    second = planned(spec, later)
    land(second)
    folder = spec.path.parent / "blocks_kernels"
    assert not (folder / "fused_block.cpp").exists()
    assert b"quick_block" in spec.path.read_bytes()
    assert read_original((folder / "_original.py").read_bytes()) == ORIGINAL.encode()
    undo(second)
    assert picture(tmp_path) == middle
    undo(first)
    assert picture(tmp_path) == start


def test_an_earlier_landing_that_was_edited_is_refused(tmp_path: Path) -> None:
    spec = make_project(tmp_path)
    land(planned(spec))
    kernel = spec.path.parent / "blocks_kernels/fused_block.cpp"
    kernel.write_text(KERNEL + "// tuned by hand\n")
    changed = accepted(CANDIDATE.replace("self.eps)", "self.eps * 1)"))
    assert "fused_block.cpp is not, or not as, an earlier landing left it" in refused(spec, changed).what


def test_folders_that_an_undone_landing_left_do_not_stand_in_the_way(tmp_path: Path) -> None:
    spec = make_project(tmp_path)
    changes = planned(spec)
    land(changes)
    spec.path.write_text(ORIGINAL)  # as a checkout would
    again = planned(spec)
    land(again)
    assert b"@landed" in spec.path.read_bytes()
    assert [c.path for c in again] == [spec.path]


BENCHMARK = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return torch.tanh(x * self.factor)


def get_inputs():
    return [torch.randn(4, 8)]


def get_init_inputs():
    return [2.0]
"""

MODEL_NEW = """\
import torch
from torch import nn

from kernels import scaled_tanh
from model import Model


class ModelNew(Model):
    def forward(self, x):
        out = torch.empty_like(x)
        scaled_tanh(x, out, x.numel(), self.factor)
        return out
"""

SCALED_TANH = """\
// fast-math
#include <cmath>
#include <cstdint>
extern "C" int scaled_tanh(const float* in, float* out, int64_t n, float lambda) {
    for (int64_t i = 0; i < n; ++i) out[i] = std::tanh(in[i] * lambda);
    return 0;
}
"""


def test_a_benchmark_lands_as_a_folder_of_its_own_that_runs(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    path = root / "12_tanh.py"
    path.write_text(BENCHMARK)
    spec = make_project(root).with_changes(
        kind="kernelbench", path=path, class_name="Model", module_name="12_tanh", init="", inputs=""
    )
    before = picture(root)
    state = {"model_new.py": MODEL_NEW.encode(), "kernels/scaled_tanh.cpp": SCALED_TANH.encode()}
    verified = VerifiedInputs.of(
        spec, ["x: float32 [4, 8] contiguous", "output: float32 [4, 8] contiguous"], BENCHMARK.encode()
    )
    changes = plan(spec, {"model_new.py": b""}, state, verdict(), verified)
    land(changes)
    assert path.read_text() == BENCHMARK
    assert (root / "12_tanh_new/model_new.py").read_text() == MODEL_NEW
    recipe = read_record((root / "12_tanh_new/kernels" / RECORD).read_bytes())["recipe"]
    assert "-ffast-math" in recipe["files"]["scaled_tanh.cpp"]["flags"]
    code = """
import kernels
from model_new import ModelNew
x = torch.randn(5, 8)
torch.testing.assert_close(ModelNew(2.0)(x), torch.tanh(x * 2))
assert kernels.counts()["launches"] == 1
"""
    run(root / "12_tanh_new", code, XDG_CACHE_HOME=str(tmp_path / "cache"))
    undo(changes)
    assert picture(root) == before


def test_the_landed_folder_passes_through_a_real_repository(tmp_path: Path) -> None:
    """A landing is found by git as what it is: one changed file and one new folder."""
    spec = make_project(tmp_path)
    for command in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    land(planned(spec))
    status = subprocess.run(
        ["git", "status", "--porcelain"], cwd=tmp_path, check=True, capture_output=True, text=True
    ).stdout
    assert status.split("\n")[:-1] == [" M shop/blocks.py", "?? shop/blocks_kernels/"]


def test_the_developers_checkers_have_nothing_to_say_of_what_landed(tmp_path: Path) -> None:
    """ruff and mypy stand for what a project checks itself with."""
    spec = make_project(tmp_path)
    land(planned(spec))
    folder = str(spec.path.parent / "blocks_kernels")
    for command in (
        ["ruff", "check", "--isolated", "--no-cache", "--select", "A,ANN,B,D,E,F,I,N,RUF,S,T20,UP,W", folder],
        ["ruff", "format", "--isolated", "--no-cache", "--check", "--line-length", "79", folder],
        [
            "mypy",
            "--config-file",
            "/dev/null",
            "--cache-dir",
            "/dev/null",
            "--strict",
            "--follow-imports=skip",
            folder,
        ],
    ):
        done = subprocess.run([sys.executable, "-m", *command], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

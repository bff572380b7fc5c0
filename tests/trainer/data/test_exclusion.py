"""Tasks that policies are measured by are kept out, however they are called and laid out."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from agent.exports.trajectory import read_trajectory
from agent.replay import RECORDINGS
from agent.session import SESSION_FILE
from agent.store import read_blob
from sandbox.errors import ExitCode, UsageError
from tests.agent.exports.stories import Story
from tests.scale_task import REFERENCE
from trainer.__main__ import main
from trainer.data.exclusion import excluded

KERNELBENCH = RECORDINGS / "resnet-stem-pool"
MODULE = RECORDINGS / "demo-cpu"
NAMED = "Its task is one that --exclude names."


def reference(recording: Path) -> bytes:
    """Return the reference of a recording, as its workspace held it at the start."""
    (sha256,) = read_trajectory(recording, print).state.original_files.values()
    return read_blob(recording, sha256)


def why(recording: Path, *paths: Path) -> str:
    return excluded(paths).why(read_trajectory(recording, print))


@pytest.mark.parametrize(
    "laid_out",
    [lambda text: text, lambda text: f"# Another comment.\n{text}\n\n", lambda text: text.replace("    ", "\t")],
)
def test_a_benchmarks_file_is_known_without_comments_and_layout(tmp_path: Path, laid_out: object) -> None:
    original = reference(KERNELBENCH).decode()
    assert "class ModelNew" in original
    folder = tmp_path / "level1"
    folder.mkdir()
    (folder / "4_pool.py").write_text(laid_out(original.replace("ModelNew", "Model")))
    assert why(KERNELBENCH, tmp_path) == NAMED
    assert why(KERNELBENCH, folder / "4_pool.py") == NAMED
    assert why(MODULE, tmp_path) == ""


def test_a_task_is_known_by_the_hash_of_its_source(tmp_path: Path) -> None:
    listing = tmp_path / "hashes.txt"
    listing.write_text(f"# kept out\n{'0' * 64}  other\n{hashlib.sha256(reference(MODULE)).hexdigest()}  blocks.py\n")
    assert why(MODULE, listing) == NAMED
    assert why(KERNELBENCH, listing) == ""
    assert len(excluded([listing]).hashes) == 2


@pytest.mark.parametrize(
    ("path", "known"),
    [
        ("/data/KernelBench/level2/5_Fused.py", True),
        ("/data/bench/level3/12_VGG19.py", True),
        ("/data/kernel_bench/mine.py", True),
        ("/data/project/level1/blocks.py", False),
        ("/data/project/layers/12_norm.py", False),
    ],
)
def test_a_task_that_lies_where_kernelbench_keeps_its_own_is_known(tmp_path: Path, path: str, known: bool) -> None:
    story = Story()
    story.answer("Done.")
    folder = story.write(tmp_path)
    data = json.loads((folder / SESSION_FILE).read_text())
    data["task"]["path"] = path
    (folder / SESSION_FILE).write_text(json.dumps(data))
    assert why(folder) == ("Its task is one of KernelBench's." if known else "")


def test_tasks_to_learn_from_are_told_from_those_that_policies_are_measured_by(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [tmp_path / name for name in ("mine.py", "measured.py", "KernelBench/level1/1_scale.py")]
    for number, file in enumerate(files):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(REFERENCE.replace("class Model", f"# {number}\nclass Model") + f"\nNUMBER = {number}\n")
    out = excluded([files[1]])
    assert out.left_of(files) == files[:1]
    assert f"1 × {NAMED} 1 × Its task is one of KernelBench's." in capsys.readouterr().err
    with pytest.raises(UsageError, match="No task is left to learn from: 2 × "):
        excluded([files[0], files[1]]).left_of(files[:2])


@pytest.mark.parametrize("stage", ["warmup", "contrast", "cycle"])
def test_no_stage_learns_from_a_benchmark(
    tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str], stage: str
) -> None:
    """What makes its own rollouts is asked before it makes any."""
    folder = tmp_path / "KernelBench" / "level1"
    folder.mkdir(parents=True)
    (folder / "1_scale.py").write_text(REFERENCE)
    told = main([stage, str(folder), "--model", str(model), "--out", str(tmp_path / "run"), "--device", "cpu"])
    assert told == ExitCode.USAGE
    assert "No task is left to learn from: 1 × Its task is one of KernelBench's." in capsys.readouterr().err


@pytest.mark.parametrize("name", ["nowhere", "empty", "text.txt"])
def test_what_names_no_task_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.txt").write_text("level1\n")
    with pytest.raises(UsageError) as told:
        excluded([tmp_path / name])
    assert str(tmp_path / name) in told.value.where

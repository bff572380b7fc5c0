import errno
import json
import os
import shutil
import subprocess
import sys

import pytest
import torch

from sandbox.errors import EnvironmentFault, UsageError
from trainer.run.checkpoint import BEGUN_FROM, Checkpoints
from trainer.run.processes import Processes

ALONE = Processes(0, 1, torch.device("cpu"))


def tensors(seed=0):
    random = torch.Generator().manual_seed(seed)
    return {
        "policy/a": torch.randn(5, 3, generator=random),
        "policy/a/exp_avg": torch.randn(5, 3, generator=random),
        "critic/b": torch.randn(1, generator=random),
    }


def write(checkpoints, step, seed=0, **others):
    checkpoints.write(
        step, tensors(seed), {"random": {"state": 7}}, lambda folder: (folder / "policy").mkdir(), **others
    )


def read(checkpoints, step):
    found = {name: torch.zeros_like(tensor) for name, tensor in tensors().items()}
    return found, checkpoints.read(step, found)


def test_a_checkpoint_comes_back_bit_by_bit(tmp_path):
    checkpoints = Checkpoints(tmp_path, ALONE)
    write(checkpoints, 12, seed=3)
    found, state = read(checkpoints, 12)
    assert all(torch.equal(found[name], tensor) for name, tensor in tensors(3).items())
    assert (state["step"], state["random"], checkpoints.latest) == (12, {"state": 7}, 12)
    assert (checkpoints.folder(12) / "policy").is_dir()


def test_the_last_ones_are_kept_and_those_protected(tmp_path):
    checkpoints = Checkpoints(tmp_path, ALONE, kept=2)
    for step in range(1, 7):
        write(checkpoints, step, protected=frozenset({2}))
        if step == 3:
            (checkpoints.folder(3) / BEGUN_FROM).touch()
    assert checkpoints.steps() == [2, 3, 5, 6]


def test_going_back_leaves_nothing_newer(tmp_path):
    checkpoints = Checkpoints(tmp_path, ALONE, kept=9)
    for step in (2, 4, 6):
        write(checkpoints, step)
    assert checkpoints.go_back(5) == 4
    assert (checkpoints.latest, checkpoints.steps()) == (4, [2, 4])
    assert checkpoints.go_back(1) is None
    assert (checkpoints.latest, checkpoints.steps()) == (None, [])


def test_a_removal_that_is_cut_off_leaves_no_half_checkpoint_to_go_back_to(tmp_path, monkeypatch):
    checkpoints = Checkpoints(tmp_path, ALONE, kept=2)
    for step in (1, 2):
        write(checkpoints, step)

    def killed(folder, **_):
        for path in folder.glob("state.json"):
            path.unlink()
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            write(checkpoints, 3)
    assert (checkpoints.latest, checkpoints.steps()) == (3, [2, 3])
    assert checkpoints.go_back(1) is None
    write(checkpoints, 1)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-000001"]


def test_a_checkpoint_of_another_model_is_refused(tmp_path):
    checkpoints = Checkpoints(tmp_path, ALONE)
    write(checkpoints, 1)
    with pytest.raises(UsageError, match="another model or other adapters"):
        checkpoints.read(1, {"policy/other": torch.zeros(2)})


def test_a_checkpoint_of_a_newer_version_is_refused(tmp_path):
    checkpoints = Checkpoints(tmp_path, ALONE)
    write(checkpoints, 1)
    path = checkpoints.folder(1) / "state.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 99}))
    with pytest.raises(UsageError, match="newer version"):
        read(checkpoints, 1)


def test_what_cannot_be_finished_leaves_the_last_one_whole(tmp_path):
    checkpoints = Checkpoints(tmp_path, ALONE)
    write(checkpoints, 1, seed=1)

    def full(folder):
        (folder / "policy").mkdir()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(EnvironmentFault, match="The disk is full"):
        checkpoints.write(2, tensors(2), {}, full)
    found, _ = read(checkpoints, 1)
    assert torch.equal(found["policy/a"], tensors(1)["policy/a"])
    assert (checkpoints.latest, [path.name for path in (tmp_path / "checkpoints").iterdir()]) == (1, ["step-000001"])


FILLS = """
import sys, torch
from pathlib import Path
from trainer.run.checkpoint import BEGUN_FROM, Checkpoints
from trainer.run.processes import Processes
checkpoints = Checkpoints(Path(sys.argv[1]), Processes(0, 1, torch.device("cpu")))
for step in range(1, 9):
    checkpoints.write(step, {"a": torch.full((200_000,), float(step))}, {}, lambda folder: None)
"""


@pytest.mark.slow
@pytest.mark.skipif(
    not shutil.which("unshare") or subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode != 0,
    reason="this system lets nobody mount a small disk",
)
def test_a_full_disk_is_named_and_harms_no_checkpoint(tmp_path):
    """A disk of two megabytes holds two checkpoints of 0.8, and no third beside them."""
    inside = f"""
mount -t tmpfs -o size=2m none {tmp_path} || exit 77
{sys.executable} -c '{FILLS}' {tmp_path}/run
ls -A {tmp_path}/run/checkpoints; cat {tmp_path}/run/latest
"""
    done = subprocess.run(["unshare", "-rm", "sh", "-c", inside], capture_output=True, text=True, timeout=120)
    if done.returncode == 77:
        pytest.skip("this system lets nobody mount a small disk")
    assert "The checkpoint cannot be written: The disk is full" in done.stderr
    assert done.stdout.split() == ["step-000001", "step-000002", "step-000002"]

"""Captured modules are judged on a GPU with what surrounded their calls: autocast, gradients, inference mode, layouts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.capture import resolve_capture
from sandbox.isolation import best_isolation
from sandbox.judge import Judge
from sandbox.workspace import Workspace

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).resolve().parents[2]
PROJECT = ROOT / "tests" / "sandbox" / "captures" / "project"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("captured") / "project"
    shutil.copytree(PROJECT, folder, ignore=shutil.ignore_patterns("__pycache__"))
    environment = {**os.environ, "HARNESS": str(ROOT / "sandbox" / "harness"), "PYTHONPATH": str(folder)}
    subprocess.run([sys.executable, folder / "train.py", folder / "captures"], env=environment, check=True)
    return folder


@pytest.mark.parametrize(
    ("name", "tier"), [("Frozen", "full"), ("Picture", "full"), ("Edges", "quick"), ("Wide", "quick")]
)
def test_a_captured_module_is_correct_as_its_own_candidate(project: Path, tmp_path: Path, name: str, tier: str) -> None:
    spec = resolve_capture(project / "captures" / name, device="cuda:0", policy="library-ok")
    workspace = Workspace.create(spec, tmp_path / "workspace")
    with Judge(spec, isolation=best_isolation(), cache=tmp_path / "cache", scratch=tmp_path / "scratch") as judge:
        verdict = judge.check(workspace.folder, tier)
    assert verdict.verify is not None
    assert verdict.verify.ok, verdict.reason
    assert verdict.reward in (1, None), verdict.reason

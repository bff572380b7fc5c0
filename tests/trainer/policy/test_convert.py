"""Converting a model's single file: what is missing is said."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.errors import ExitCode


def convert(source: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "trainer.policy.convert", str(source), str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_file_that_is_not_there(tmp_path: Path):
    ended = convert(tmp_path / "none.gguf", tmp_path / "model")
    assert ended.returncode == ExitCode.USAGE
    assert "There is no such file." in ended.stderr
    assert not (tmp_path / "model").exists()


@pytest.mark.skipif(importlib.util.find_spec("gguf") is not None, reason="gguf is installed here")
def test_without_the_package_that_reads_such_files(tmp_path: Path):
    (tmp_path / "some.gguf").write_bytes(b"GGUF")
    ended = convert(tmp_path / "some.gguf", tmp_path / "model")
    assert ended.returncode == ExitCode.ENVIRONMENT
    assert "pip install gguf" in ended.stderr

"""A short storm, always the same; ``python -m tests.storm`` makes longer ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.isolation import probe

ROOT = Path(__file__).resolve().parents[2]


def storm(*arguments: str) -> None:
    """Storm in a process of its own, for it adopts all orphans; everything has to be as it should."""
    asked = [sys.executable, "-W", "ignore", "-m", "tests.storm", *arguments]
    ended = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
    print(ended.stdout, ended.stderr)
    assert ended.returncode == 0


def test_every_verdict_is_right_and_nothing_is_left() -> None:
    storm("--verdicts", "24", "--seed", "8")


@pytest.mark.docker
def test_the_same_with_builds_in_containers() -> None:
    if reason := probe("docker"):
        pytest.skip(f"docker: {reason}")
    storm("--verdicts", "8", "--seed", "8", "--isolation", "docker")

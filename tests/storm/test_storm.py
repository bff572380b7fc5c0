"""A short storm, always the same; ``python -m tests.storm`` makes longer ones."""

from __future__ import annotations

import re
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


def test_a_storm_that_is_told_to_end_says_what_it_saw() -> None:
    asked = [sys.executable, "-W", "ignore", "-m", "tests.storm", "--verdicts", "500", "--seed", "8"]
    with subprocess.Popen(asked, cwd=ROOT, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        told = [running.stdout.readline() for _ in range(2)]
        running.terminate()
        told += running.stdout.readlines()
    text = "".join(told)
    assert running.returncode == 0, text
    assert re.search(r"^[1-9] of 500 verdicts", text, re.MULTILINE)
    assert "nothing was left behind" in text


def test_every_verdict_is_right_and_nothing_is_left() -> None:
    storm("--verdicts", "24", "--seed", "8")


@pytest.mark.docker
def test_the_same_in_containers() -> None:
    if reason := probe("docker"):
        pytest.skip(f"docker: {reason}")
    storm("--verdicts", "8", "--seed", "8", "--isolation", "docker")

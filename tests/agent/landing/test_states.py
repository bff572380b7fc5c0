"""Landings and undos over repositories in drawn states; ``python -m tests.agent.landing.states`` draws thousands."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agent.landing.states import trial
from tests.agent.landing.worlds import CALM

SEEDS = range(7, 18)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_byte_of_the_developers_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    for name, value in CALM.items():
        monkeypatch.setenv(name, value)
    assert trial(seed, tmp_path)

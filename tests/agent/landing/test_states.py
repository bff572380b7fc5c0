"""Landings and undos over repositories in drawn states; ``python -m tests.agent.landing.states`` draws thousands."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agent.landing.states import trial
from tests.agent.landing.worlds import CALM

SEEDS = (
    *((62, "staged"), (27, "stashed"), (52, "hooks"), (17, "submodule"), (11, "worktree"), (18, "module_linked")),
    *((72, "executable"), (9, "crlf"), (47, "unborn"), (92, "detached"), (86, "none"), (38, "protected")),
)
"""A seed for each state that a repository may be in; most draw others beside it."""


@pytest.mark.parametrize(("seed", "state"), SEEDS)
def test_no_byte_of_the_developers_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, state: str
) -> None:
    for name, value in CALM.items():
        monkeypatch.setenv(name, value)
    found = trial(seed, tmp_path)
    assert found.told
    assert state in found.world.traits

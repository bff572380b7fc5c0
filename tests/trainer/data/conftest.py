"""A tokenizer to train for, and sessions that were served in its tokens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.agent.exports.stories import Story
from trainer.data.episode import Episode, Policy
from trainer.data.episodes import Choice, Report, episodes_of
from trainer.data.segments import Target
from trainer.policy.tiny import tiny_tokenizer

Read = Callable[..., Episode]


@pytest.fixture(scope="session")
def tokenizer_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    tiny_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def target(tokenizer_folder: Path) -> Target:
    return Target.read(tokenizer_folder)


@pytest.fixture
def served(target: Target) -> Story:
    """Return a session that was just begun, whose server gives the ids of the target's tokenizer."""
    return Story(ids=True, encode=lambda text: target.tokenizer.encode(text, add_special_tokens=False))


FIRST = Policy(weights="step-0", version=0)
"""Who answered, where a story's server does not tell."""


@pytest.fixture
def read(tmp_path: Path, target: Target) -> Read:
    """Return what makes the episode of a session, which must be one."""

    def episode(story: Story, **choice: object) -> Episode:
        report = Report()
        episodes = list(
            episodes_of([story.write(tmp_path)], Choice(**{"target": target, "answered_by": FIRST, **choice}), report)
        )
        assert report.left_out == []
        return episodes[0]

    return episode

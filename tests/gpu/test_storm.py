"""A storm of faults on a GPU: 60 verdicts, some six minutes; ``python -m tests.storm --device cuda:0``."""

from __future__ import annotations

import pytest

from tests.storm.test_storm import storm

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.slow,
    pytest.mark.timeout(900),
]


def test_every_verdict_is_right_and_nothing_is_left() -> None:
    storm("--device", "cuda:0", "--verdicts", "60", "--seed", "1", "--minutes", "10")

from __future__ import annotations

import pytest

from sandbox.errors import UsageError
from sandbox.timing.patience import VARIABLE, waits


@pytest.mark.parametrize(
    ("given", "quick", "full"),
    [
        ("", (0.0, 2.0), (0.0, 1.0, 2.0, 4.0, 8.0)),
        ("0", (), ()),
        ("3", (0.0, 2.0), (0.0, 1.0, 2.0)),
        ("1.5", (0.0,), (0.0, 1.0)),
        ("60", (0.0, 2.0), (0.0, 1.0, 2.0, 4.0, 8.0)),
    ],
)
def test_a_verdict_waits_no_longer_than_it_may(
    monkeypatch: pytest.MonkeyPatch, given: str, quick: tuple[float, ...], full: tuple[float, ...]
) -> None:
    monkeypatch.setenv(VARIABLE, given)
    assert (waits("quick"), waits("full")) == (quick, full)


def test_what_is_no_number_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "a while")
    with pytest.raises(UsageError, match="'a while', which is no number of seconds"):
        waits("quick")

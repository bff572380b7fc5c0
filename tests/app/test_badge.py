"""The few words about isolation on the screen and in what ``check`` prints."""

import pytest

from app.badge import isolation_badge


@pytest.mark.parametrize(
    ("isolation", "workers", "told"),
    [
        ("namespaces", "namespaces", "namespaces"),
        ("docker", "docker", "docker"),
        ("docker", "limits", "docker, workers limits (weak)"),
        ("bubblewrap", "limits", "bubblewrap, workers limits (weak)"),
        ("limits", "limits", "limits (weak)"),
        ("limits", None, "limits (weak)"),
    ],
)
def test_the_weakest_is_not_hidden(isolation: str, workers: str | None, told: str) -> None:
    assert isolation_badge({"isolation": isolation, "worker_isolation": workers}) == told


def test_nothing_is_said_of_a_verdict_without_one() -> None:
    assert isolation_badge({}) == ""

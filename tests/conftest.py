"""What every test shares: tests that need a GPU are skipped, visibly, where there is none."""

from __future__ import annotations

import pytest

from sandbox.devices import list_gpus


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if list_gpus():
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="no NVIDIA GPU on this machine"))


def skip_if_disturbed(disturbed: str) -> None:
    """Skip the rest of a test that is about times, when other programs took the processor meanwhile."""
    if disturbed:
        pytest.skip(disturbed)

"""What every test shares: tests that need a GPU are skipped, visibly, where there is none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sandbox.machine.devices import list_gpus


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if list_gpus():
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="no NVIDIA GPU on this machine"))


@pytest.fixture(scope="session", autouse=True)
def own_queue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let the tests' judges queue among themselves, and not behind whatever else is judged on this machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WARPSMITH_POOL", str(tmp_path_factory.mktemp("pool")))
        yield


def skip_if_disturbed(disturbed: str) -> None:
    """Skip the rest of a test that is about times, when other programs took the processor meanwhile."""
    if disturbed:
        pytest.skip(disturbed)

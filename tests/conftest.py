"""What every test shares: tests that need a GPU are skipped, visibly, where there is none."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from sandbox.machine.devices import list_gpus
from sandbox.timing.patience import VARIABLE as PATIENCE

# The same examples in every run, however slowly a busy machine makes them; other ones where another seed is asked for.
settings.register_profile(
    "alike",
    derandomize=not os.environ.get("WARPSMITH_TEST_SEED"),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("alike")


def pytest_configure() -> None:
    """Let tests interrupt what they start: a shell that runs pytest in its background has that ignored, by all of them."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


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


@pytest.fixture(scope="session", autouse=True)
def resting_threads() -> Iterator[None]:
    """Let threads of torch that wait for each other sleep: where more of them run than processors, spinning takes a quarter."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_WAIT_POLICY", "passive")
        yield


@pytest.fixture(scope="session", autouse=True)
def no_patience() -> Iterator[None]:
    """Let verdicts take times as they come: other tests always run meanwhile, and waiting for them to end is in vain."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(PATIENCE, "0")
        yield


@pytest.fixture(autouse=True)
def patience_alone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let verdicts wait for a quieter machine as they usually do, in tests about times."""
    if request.node.get_closest_marker("alone") or request.node.get_closest_marker("gpu"):
        monkeypatch.delenv(PATIENCE)


def skip_if_disturbed(disturbed: str) -> None:
    """Skip the rest of a test that is about times, when other programs took the processor meanwhile."""
    if disturbed:
        pytest.skip(disturbed)

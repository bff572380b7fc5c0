import pytest
import torch

from trainer.policy.tiny import write_tiny_policy


@pytest.fixture(scope="session", autouse=True)
def few_threads():
    """What is tiny is slower on several threads, all the more where other tests run beside it."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """The folder of a random policy of one layer."""
    return write_tiny_policy(tmp_path_factory.mktemp("models") / "tiny", layers=1, width=32, vocabulary=400)

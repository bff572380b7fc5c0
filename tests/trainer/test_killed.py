import subprocess
import sys

import pytest


@pytest.mark.slow
def test_a_killed_run_ends_with_the_same_weights_as_an_undisturbed_one():
    """The long version is ``python -m tests.trainer.killed --kills 20``."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.trainer.killed", "--kills", "3", "--stage", "ppo"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 kills" in done.stdout

"""``python -m trainer``: its stages, and what it says where it cannot run one."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from trainer.__main__ import STAGES


@pytest.mark.parametrize("name", STAGES)
def test_every_stage_has_options_and_a_docstring_that_helps(name: str) -> None:
    stage = importlib.import_module(STAGES[name][0])
    assert callable(stage.add_options)
    assert callable(stage.run)
    assert stage.__doc__


def test_a_package_that_is_missing_is_the_machines_fault_and_said() -> None:
    code = (
        "import sys; sys.modules['safetensors'] = None; from trainer.__main__ import main; sys.exit(main(['ingest']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 3
    assert "needs the package safetensors" in done.stderr
    assert "pip install -e '.[train]'" in done.stderr

"""The promises the parts make each other: who imports what, and what the application may load."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"torch", "litellm", "docker"}


def loaded_by(code: str) -> set[str]:
    """Return the top-level modules that a fresh interpreter has after running the code."""
    script = f"{code}\nimport sys; print('\\n'.join(sys.modules))"
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in answer.stdout.split()}


@pytest.mark.parametrize("module", ["app.cli", "app.ide", "app.commands.run", "app.commands.open"])
def test_the_screen_and_the_command_line_load_nothing_heavy(module: str) -> None:
    assert not loaded_by(f"import {module}") & HEAVY


@pytest.mark.parametrize(
    "module", ["agent.session", "agent.store", "agent.engine", "agent.headless", "sandbox.judge", "sandbox.target"]
)
def test_the_engine_and_the_judge_load_neither_torch_nor_the_screen(module: str) -> None:
    assert not loaded_by(f"import {module}") & {"torch", "textual", "litellm"}


def test_help_is_instant_because_it_loads_no_command() -> None:
    loaded = loaded_by("import app.cli\ntry: app.cli.main(['--help'])\nexcept SystemExit: pass")
    assert not loaded & (HEAVY | {"textual", "git", "yaml", "psutil"})

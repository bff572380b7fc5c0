"""A project with packages of its own that are called like ours is opened, run, judged, landed in and taken back."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from agent import commands, events
from agent.session import find_session
from sandbox.target import find_modules, resolve_target
from tests.app import sessions
from tests.cli.conftest import Cli, make_cli
from tests.servers.engine_process import EngineProcess

pytestmark = pytest.mark.timeout(600)

PACKAGES = ("app", "agent", "sandbox", "skills", "trainer")
INPUTS = ("--init", "64", "--inputs", "torch.randn(32, 64), torch.randn(32, 64)")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose module uses all of its own packages; each would stop whoever imports it by mistake."""
    root = tmp_path / "project"
    for name in PACKAGES:
        (root / name).mkdir(parents=True)
        (root / name / "__init__.py").write_text(f"OWNER = 'the developer'\nNAME = {name!r}\n")
    (root / "sandbox" / "errors.py").write_text("class TaskError(Exception): pass\n")
    own = "".join(f"import {name}\nassert {name}.OWNER == 'the developer'\n" for name in PACKAGES)
    own += "from sandbox.errors import TaskError\nassert not hasattr(TaskError, 'exit_code')\n"
    source = sessions.ORIGINAL.replace("from torch import nn\n", f"from torch import nn\n\n{own}", 1)
    (root / "agent" / "blocks.py").write_text(source)
    return root


@pytest.fixture
def cli(tmp_path: Path, project: Path) -> Cli:
    """A command line that runs in the project's folder."""
    made = make_cli(tmp_path)
    made.folder = project
    return made


def fused(project: Path) -> str:
    """The candidate's source: the project's own file with the fused call."""
    source = (project / "agent" / "blocks.py").read_text()
    return source.replace(sessions.SLOW, sessions.FUSED).replace("from torch import nn\n", sessions.IMPORT, 1)


def test_its_modules_are_found_without_importing_them(project: Path) -> None:
    assert "ResidualNorm" in {found.name for found in find_modules(project)}
    spec = resolve_target(f"{project}/agent/blocks.py:ResidualNorm", python=sys.executable)
    assert (spec.module_name, spec.root) == ("agent.blocks", project)
    assert "agent" not in sys.modules or "project" not in str(sys.modules["agent"].__file__)


def test_a_candidate_is_judged(cli: Cli, project: Path) -> None:
    candidate = project / "candidate"
    (candidate / "kernels").mkdir(parents=True)
    (candidate / "blocks.py").write_text(fused(project))
    broken = sessions.CPU_KERNEL.replace("total / width", "total")
    (candidate / "kernels" / "residual_norm.cpp").write_text(broken)
    done = cli.check(Path("agent.blocks:ResidualNorm"), candidate, *INPUTS)
    done.says("agent.blocks:ResidualNorm", "The candidate is at fault: it is not correct", "fresh inputs 1")
    assert done.code == 1
    assert not cli.left_behind()


@pytest.mark.long
def test_a_session_runs_lands_and_is_undone(cli: Cli, project: Path, tmp_path: Path) -> None:
    spec = resolve_target(f"{project}/agent/blocks.py:ResidualNorm", python=sys.executable)
    recording = sessions.record_decisions(tmp_path / "recording", spec)
    before = {path: path.read_bytes() for path in project.rglob("*.py")}
    done = cli.run("run", "agent/blocks.py:ResidualNorm", *INPUTS, "--device", "cpu", "--model", f"replay:{recording}")
    done.says("ended: finished", "attempt 2")
    assert done.code == 0
    folder = find_session(Path(cli.variables["WARPSMITH_HOME"]), "last")
    with EngineProcess(folder, **cli.variables) as engine:
        engine.send(commands.Land(attempt=2))
        landed = engine.wait_for(events.Landed)
        assert (project / "agent" / "blocks_kernels").is_dir()
        engine.send(commands.Undo(landing=landed.landing))
        engine.wait_for(events.Undone)
    assert {path: path.read_bytes() for path in project.rglob("*.py")} == before
    assert not cli.left_behind()

"""A guard that does not work is a fault of the environment, whichever it is; nothing is judged without it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from app.cli import main
from sandbox.crew import Crew
from sandbox.errors import EnvironmentFault
from sandbox.guard import alive, kernel_source
from sandbox.isolation import best_isolation
from sandbox.judge_limits import JudgeLimits
from sandbox.wire import HARNESS
from tests.scale_task import write_candidate, write_task

DEAD = "TORCH_DEAD_GUARD"
"""A variable that workers get: which of the guards of the harness's copy is to be dead."""

SPOILT = {
    "watch.py": """

import os as _os

def _dying(name, function, instead):
    def spoilt(*args, **kwargs):
        return instead() if _os.environ.get("TORCH_DEAD_GUARD") == name else function(*args, **kwargs)
    return spoilt

mutation = _dying("mutation", _dying("noisy", mutation, lambda: [finding("mutation", "reject", "")]), list)
not_plain = _dying("tensor-subclass", not_plain, list)
delegation = _dying("delegation", delegation, list)
changed_settings = _dying("global-state", changed_settings, list)
beyond = _dying("beyond", beyond, list)
HeldOutputs.findings = _dying("reused-output", HeldOutputs.findings, list)
""",
    "poison.py": """

import os as _os

_whole_perturb = perturb

def perturb(byte):
    if _os.environ.get("TORCH_DEAD_GUARD") != "poisoned-memory":
        _whole_perturb(byte)
""",
    "seal.py": """

_whole_seal = seal

def seal():
    check = _whole_seal()
    return lambda: None if os.environ.get("TORCH_DEAD_GUARD") == "seal" else check()
""",
}


@dataclass(frozen=True)
class Spoilt:
    """A crew whose workers have one dead guard."""

    crew: Crew
    dead: str
    interpreter: str = ""
    on_gpu: bool = False

    def start_worker(self, *_: Any) -> Any:
        return self.crew.start_worker([], None, {DEAD: self.dead})


@pytest.fixture(scope="module")
def spoilt_harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Let the judge start a copy of its harness in which guards can be dead."""
    copy = tmp_path_factory.mktemp("harness") / "harness"
    shutil.copytree(HARNESS, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in SPOILT.items():
        with (copy / "warpsmith_harness" / name).open("a") as file:
            file.write(text)
    with (
        mock.patch("sandbox.processes.MAIN", copy / "main.py"),
        mock.patch("sandbox.crew.HARNESS", copy),
        mock.patch.dict(alive._PROVEN, clear=True),
    ):
        yield copy


@pytest.fixture(scope="module")
def crew(spoilt_harness: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    folder = tmp_path_factory.mktemp("task")
    (folder / "temporary").mkdir()
    limits = JudgeLimits(compile_seconds=0.0)
    crew = Crew(
        write_task(folder), best_isolation(), folder / "cache", folder, folder / "temporary", limits, lambda: None
    )
    crew.open()
    yield crew
    crew.close()


def test_what_reads_is_alive_and_proven_once() -> None:
    assert alive.prove_static() == alive.prove_static() > 40


@pytest.mark.parametrize(
    ("spoilt", "value", "guard"),
    [
        ("sandbox.guard.kernel_source.UNMISTAKABLE", {}, "file-access"),
        ("sandbox.guard.kernel_source._assembly", mock.Mock(return_value=[]), "process"),
        ("sandbox.guard.hygiene.denied", mock.Mock(return_value=None), "brings-own-binding"),
        ("sandbox.guard.python_source.check_flow", mock.Mock(), "decorator"),
        ("sandbox.guard.symbols.is_known", mock.Mock(return_value=True), "symbol"),
        ("sandbox.guard.symbols.is_known", mock.Mock(return_value=False), "symbol"),
        ("sandbox.guard.alive.contradicts", mock.Mock(return_value=False), "clock-mismatch"),
        ("sandbox.build.inspection._of_workspace", mock.Mock(return_value="kernels/f.cpp"), "preprocessed-source"),
    ],
)
def test_a_dead_rule_is_named(spoilt: str, value: Any, guard: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spoilt, value)
    with pytest.raises(EnvironmentFault) as raised:
        alive.prove_static.__wrapped__()
    assert raised.value.what.startswith(f"The guard {guard} is dead: ")
    assert raised.value.next_step


def test_what_watches_is_alive(crew: Crew) -> None:
    with mock.patch.dict(alive._PROVEN, clear=True):
        assert alive.prove_dynamic(Spoilt(crew, "none"), "here") == 8


@pytest.mark.parametrize(
    "guard",
    [
        "mutation",
        "beyond",
        "delegation",
        "global-state",
        "reused-output",
        "tensor-subclass",
        "poisoned-memory",
        "seal",
        "noisy",
    ],
)
def test_a_dead_guard_is_named(guard: str, crew: Crew) -> None:
    with mock.patch.dict(alive._PROVEN, clear=True), pytest.raises(EnvironmentFault) as raised:
        alive.prove_dynamic(Spoilt(crew, guard), "here")
    assert re.match(f"The guard {'of running candidates' if guard == 'noisy' else guard} is dead: ", raised.value.what)


@pytest.mark.parametrize("guard", ["mutation", "library-use"])
def test_check_judges_nothing_with_a_dead_guard(
    guard: str,
    spoilt_harness: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert spoilt_harness.is_dir()
    (tmp_path / "task").mkdir()
    spec, candidate = write_task(tmp_path / "task"), write_candidate(tmp_path / "candidate")
    monkeypatch.setenv("WARPSMITH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("WARPSMITH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv(DEAD, guard)
    if guard == "library-use":
        monkeypatch.setattr(kernel_source, "OTHER_LIBRARY_CALL", re.compile("no such call"))
        monkeypatch.setattr(alive, "prove_static", alive.prove_static.__wrapped__)
        monkeypatch.setattr("sandbox.judge.prove_static", alive.prove_static)
    code = main(["check", str(spec.path), str(candidate), "--device", "cpu", "--python", str(spec.python)])
    assert code == 3
    told = capsys.readouterr()
    assert f"The guard {guard} is dead" in told.err
    assert told.out == ""

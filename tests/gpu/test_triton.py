"""Triton's own libraries are let through on a GPU, and none that a candidate plants beside them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from sandbox.verdict import Verdict
from tests.candidates.frame import Judges
from tests.candidates.honest.suite import HONEST
from tests.candidates.tasks import TASKS

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.slow,
    pytest.mark.timeout(300),
]
PROGRAMS = [name for name in HONEST if name.startswith("Triton")]
PLANTED = """
import ctypes, os, subprocess
from pathlib import Path

def _plant():
    folder = Path(os.environ["TRITON_CACHE_DIR"]) / "PLANTED"
    folder.mkdir(exist_ok=True)
    source, library = folder / "__triton_launcher.c", folder / "__triton_launcher.so"
    source.write_text("__attribute__((constructor)) static void begin(void) {}")
    COMPILE
    ctypes.CDLL(str(library))

_plant()
"""
COMPILERS = {
    "by itself": '["gcc", "-shared", "-fPIC", str(source), "-o", str(library)]',
    "with Triton's compiler": '[os.environ["CC"], str(source), "-O3", "-shared", "-fPIC", "-o", str(library)]',
}


@pytest.fixture(scope="module")
def judges(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judges]:
    shared = Judges(TASKS, tmp_path_factory.mktemp("triton"), "cuda:0")
    yield shared
    shared.close()


def findings(verdict: Verdict) -> list[tuple[str, str, str]]:
    assert verdict.guard is not None
    return [(each.severity, each.rule, each.evidence) for each in verdict.guard.findings]


@pytest.mark.parametrize("name", PROGRAMS)
def test_triton_programs_pass(name: str, judges: Judges) -> None:
    verdict = judges.check(HONEST[name])
    print(f"\n{name}: reward {verdict.reward}, {findings(verdict)}")
    assert verdict.correct, f"{verdict.reason} {findings(verdict)}"


@pytest.mark.parametrize("compiled", sorted(COMPILERS))
def test_a_library_planted_in_the_cache_is_foreign(compiled: str, judges: Judges) -> None:
    planting = PLANTED.replace("COMPILE", f"subprocess.run({COMPILERS[compiled]}, check=True)")
    honest = HONEST[PROGRAMS[0]]
    verdict = judges.check(replace(honest, python=honest.python + planting), guarded=False)
    print(f"\nplanted {compiled}: {findings(verdict)}")
    assert verdict.reward == -1
    [found] = [
        evidence for severity, rule, evidence in findings(verdict) if (severity, rule) == ("reject", "foreign-code")
    ]
    assert "PLANTED" in found
    assert found.count("__triton_launcher") == 1

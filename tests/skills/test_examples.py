"""Every worked example of a skill is a candidate that the judge accepts, and every skill is in the open form."""

import re
import shutil
from pathlib import Path

import pytest
import skills_ref

from agent.skills import SKILLS, load_skills, validate
from sandbox.build import build_kernels
from sandbox.build.signature import parse_launchers
from sandbox.isolation import best_isolation
from sandbox.judge import Judge
from sandbox.judge_limits import JudgeLimits, TierLimits
from sandbox.target import resolve_target

EXAMPLES = sorted(path.parent for path in SKILLS.glob("*/examples/*/model.py"))
LAID_OUT = {"model.py", "model_new.py", "kernels"}
FEW = TierLimits(cases=2, placements=1, profile_seconds=0.2, pairs=6, least_pairs=3)
LIMITS = JudgeLimits(compile_seconds=0.0, quick=FEW)
"""Whether an example is right hangs on no time, nor on the baseline that takes longest to make ready."""


def workspace(example: Path, folder: Path, suffix: str) -> Path:
    """Lay out an example as a candidate for one kind of device: kernels of the other kind stay behind."""
    (folder / "kernels").mkdir(parents=True)
    shutil.copyfile(example / "model_new.py", folder / "model_new.py")
    for kernel in (example / "kernels").glob(f"*{suffix}"):
        shutil.copyfile(kernel, folder / "kernels" / kernel.name)
    return folder


def test_there_are_examples():
    assert len(EXAMPLES) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_the_judge_accepts_the_kernel(example, device, tmp_path):
    trained = "autograd.Function" in (example / "model_new.py").read_text()
    spec = resolve_target(str(example / "model.py"), device=device, gradients=trained)
    candidate = workspace(example, tmp_path / "candidate", spec.kernel_suffix)
    folders = {"cache": tmp_path / "cache", "scratch": tmp_path / "scratch"}
    with Judge(spec, isolation=best_isolation(), limits=LIMITS, **folders) as judge:
        verdict = judge.check(candidate)
    assert verdict.correct, verdict.to_json()


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_the_cuda_kernel_compiles_without_spills(example, tmp_path):
    candidate = workspace(example, tmp_path / "candidate", ".cu")
    built = build_kernels(candidate / "kernels", arch="sm_90", cache=tmp_path / "cache", isolation=best_isolation())
    assert built.report.ok, built.report.diagnostics
    assert [kernel.spill_bytes for kernel in built.report.kernels] == [0] * len(built.report.kernels)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_complete(example):
    assert {path.name for path in example.iterdir() if path.name != "__pycache__"} == LAID_OUT
    launchers = [
        {launcher.name for launcher in parse_launchers(path.read_bytes(), path.name).launchers}
        for path in sorted((example / "kernels").iterdir())
    ]
    assert len(launchers) == 2
    assert launchers[0] == launchers[1]


def test_every_skill_is_in_the_open_form():
    skills = load_skills()
    assert skills.problems == ()
    assert skills.main
    for skill in skills.all:
        assert len(skill.body.splitlines()) < 500
        assert len(skill.body) / 4 < 5000, "a token is about four characters"
        assert "license: Apache-2.0" in (skill.folder / "SKILL.md").read_text()


def test_the_reference_validator_and_ours_agree_on_every_skill(tmp_path):
    bad = tmp_path / "Bad"
    bad.mkdir()
    (bad / "SKILL.md").write_text("---\nname: Bad\ndescription: x\n---\n")
    for folder in [skill.folder for skill in load_skills().all] + [bad]:
        assert bool(skills_ref.validate(folder)) == bool(validate(folder)) == (folder == bad)


def test_every_file_a_skill_names_is_there():
    for skill in load_skills().all:
        texts = [skill.body, *(skill.read(name) for name in skill.resources if name.endswith(".md"))]
        for name in re.findall(r"`((?:references|examples)/[\w./-]+)`", "\n".join(texts)):
            assert (skill.folder / name).exists(), name

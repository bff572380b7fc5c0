"""Modules of every kind, captured in a run of their own, become tasks that call them as that run did."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from warpsmith_harness import drawing, load, values
from warpsmith_harness.problems import TaskProblem
from warpsmith_harness.surroundings import surroundings

from agent.landing.verified import VerifiedInputs
from agent.settings import Settings
from app.commands import check
from app.commands.options import task_from
from sandbox.capture import resolve_capture
from sandbox.errors import TaskError, UsageError
from sandbox.isolation import best_isolation
from sandbox.judge import Judge
from sandbox.task import DynamicSize
from sandbox.workspace import Workspace
from tests.sandbox.judge.conftest import BRIEF

PROJECT = Path(__file__).parent / "project"
HARNESS = Path(load.__file__).parents[1]
FAITHFUL = [
    "Block",
    "InPlace",
    "Frozen",
    "Picture",
    "Wide",
    "Parametrized",
    "Tied",
    "Lazy",
    "Compiled",
    "Parallel",
    "Copied",
    "Edges",
    "Twice",
    "Here",
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the project's script once, recorded."""
    folder = tmp_path_factory.mktemp("captured") / "project"
    shutil.copytree(PROJECT, folder, ignore=shutil.ignore_patterns("__pycache__"))
    environment = {**os.environ, "HARNESS": str(HARNESS), "PYTHONPATH": str(folder)}
    ran = subprocess.run(
        [sys.executable, folder / "train.py", folder / "captures"], env=environment, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    return folder


@pytest.fixture(autouse=True)
def untouched_imports() -> Iterator[None]:
    """Forget what a test imported from the project."""
    modules, path = set(sys.modules), list(sys.path)
    yield
    for name in set(sys.modules) - modules:
        if "/project/" in (getattr(sys.modules[name], "__file__", None) or "") or name == "net":
            del sys.modules[name]
    sys.path[:] = path


def manifest_of(project: Path, name: str) -> dict[str, Any]:
    return dict(json.loads((project / "captures" / name / "manifest.json").read_text()))


def task_of(project: Path, name: str, **options: Any) -> load.LoadedTask:
    return load.load_task(resolve_capture(project / "captures" / name, **options).to_json())


@pytest.mark.parametrize("name", FAITHFUL)
def test_a_task_answers_the_captured_call_as_the_run_did(project: Path, name: str) -> None:
    task = task_of(project, name)
    structure = manifest_of(project, name)["structure"]
    args, kwargs = values.rebuild(structure, torch.load(project / "captures" / name / "inputs.pt"))
    with torch.no_grad():
        answer = task.forward(task.reference(), tuple(args), kwargs)
    outputs = torch.load(project / "captures" / "outputs.pt")
    torch.testing.assert_close(answer.detach(), outputs[name, tuple(answer.shape)])


@pytest.mark.parametrize("name", FAITHFUL)
def test_fresh_inputs_are_like_those_that_were_seen(project: Path, name: str) -> None:
    task = task_of(project, name)
    first, second = (values.flatten(task.inputs())[0] for _ in range(2))
    seen = torch.load(project / "captures" / name / "inputs.pt")
    likeness = [(t.dtype, t.shape, t.stride()) for t in seen]
    assert [(t.dtype, t.shape, t.stride()) for t in first] == likeness
    assert any(not torch.equal(a, b) for a, b in zip(first, second, strict=True))
    for drawn, old in zip(first, seen, strict=True):
        assert drawn.min() >= old.min()
        assert drawn.max() <= old.max()


class TestWhatIsKept:
    def test_arguments_mode_and_sizes(self, project: Path) -> None:
        spec = resolve_capture(project / "captures" / "Block")
        assert (spec.module_name, spec.class_name, spec.root) == ("net.kinds", "Block", project)
        assert (spec.training, spec.gradients, spec.grad_mode, spec.autocast) == (False, False, "no_grad", "")
        assert spec.dynamic == (DynamicSize(("x.0", "mask.0"), 4, 6),)
        manifest = manifest_of(project, "Block")
        assert manifest["plain"] == {"gain": 3.0}
        assert manifest["calls"] == 3
        assert task_of(project, "Block").reference().drop.p == 0.25

    def test_plain_arguments_are_known_to_a_landing(self, project: Path) -> None:
        spec = resolve_capture(project / "captures" / "Block")
        verified = VerifiedInputs.of(spec, ["x: float32 [6, 16] contiguous"], spec.path.read_bytes())
        assert verified.constants == {"gain": "3.0"}
        assert verified.init is None
        assert verified.attributes["drop"] == {"p": "0.25", "inplace": "False"}

    def test_autocast_gradients_and_parts_in_another_mode(self, project: Path) -> None:
        task = task_of(project, "Frozen")
        assert (task.spec["training"], task.spec["gradients"], task.spec["autocast"]) == (True, True, "bfloat16")
        reference = task.reference()
        assert reference.training
        assert not reference.norm.training
        with surroundings(task.spec):
            assert torch.is_grad_enabled()
            assert torch.get_autocast_dtype("cpu") == torch.bfloat16

    def test_without_gradients_if_asked(self, project: Path) -> None:
        spec = resolve_capture(project / "captures" / "Frozen", gradients=False)
        assert (spec.gradients, spec.grad_mode) == (False, "no_grad")

    def test_layouts_dtypes_and_wishes_for_gradients(self, project: Path) -> None:
        conv = task_of(project, "Picture").reference().conv
        assert conv.weight.is_contiguous(memory_format=torch.channels_last)
        wide = task_of(project, "Wide").reference()
        assert wide.weight.dtype == torch.float16
        assert not wide.weight.requires_grad

    def test_shared_parameters_stay_shared(self, project: Path) -> None:
        reference = task_of(project, "Tied").reference()
        assert reference.head.weight is reference.table.weight

    def test_integers_that_may_point_into_something_stay_in_their_range(self, project: Path) -> None:
        spec = resolve_capture(project / "captures" / "Edges")
        assert spec.dynamic == ()
        (x, edges), _ = task_of(project, "Edges").inputs()
        assert edges[1].max() <= 2
        assert edges[0].max() < x.shape[0]

    @pytest.mark.parametrize(
        ("name", "words"),
        [
            ("Parametrized", "hooks (run.<locals>.<lambda>)"),
            ("Parametrized", "first.weight is parametrized"),
            ("Edges", "edges may point into it"),
            ("Twice", "query, key shared memory"),
        ],
    )
    def test_what_a_developer_is_told(self, project: Path, name: str, words: str) -> None:
        assert any(words in note for note in task_of(project, name).captured.notes)

    def test_state_that_was_only_described_is_drawn_alike(self, project: Path, tmp_path: Path) -> None:
        folder = tmp_path / "Tied"
        shutil.copytree(project / "captures" / "Tied", folder)
        manifest = json.loads((folder / "manifest.json").read_text())
        manifest["state"]["copied"] = False
        manifest["state"]["tensors"]["table.weight"].update(mean=5.0, spread=0.1, low=4.5, high=5.5)
        manifest["state"]["tensors"]["head.weight"].update(mean=5.0, spread=0.1, low=4.5, high=5.5)
        (folder / "manifest.json").write_text(json.dumps(manifest))
        weight = load.load_task(resolve_capture(folder).to_json()).reference().table.weight
        assert 4.5 <= weight.min() < weight.max() <= 5.5


class TestWhatCannotBe:
    @pytest.mark.parametrize(
        ("name", "words"),
        [
            ("refused.<locals>.Local", "inside a function"),
            ("Odd", "argument cache is builtins.object"),
            ("OddBack", "returns builtins.object"),
            ("OwnKind", "OwnTensor, a tensor of a class of its own"),
            ("Linear", "torch's own"),
        ],
    )
    def test_is_told_with_the_next_step(self, project: Path, name: str, words: str) -> None:
        with pytest.raises(TaskError, match=words) as caught:
            resolve_capture(project / "captures" / name)
        assert caught.value.next_step

    def test_a_module_that_nobody_saw_being_constructed_needs_arguments(self, project: Path) -> None:
        with pytest.raises(TaskProblem, match="Nobody saw Unpickled being constructed"):
            task_of(project, "Unpickled").reference()

    def test_a_module_that_was_changed_after_it_was_constructed(self, project: Path) -> None:
        with pytest.raises(TaskProblem, match=r"proj\.0\.weight.*changed the module after"):
            task_of(project, "Grown").reference()

    def test_a_file_that_has_moved(self, project: Path, tmp_path: Path) -> None:
        (tmp_path / "manifest.json").write_text(
            json.dumps({**manifest_of(project, "Block"), "file": str(tmp_path / "gone.py")})
        )
        with pytest.raises(UsageError, match="no longer where it was"):
            resolve_capture(tmp_path)

    @pytest.mark.parametrize(
        "changed",
        [
            {"dynamic": 3},
            {"dynamic": [{"dims": ["x.0"], "low": "1", "high": 2}]},
            {"file": 5},
            {"training": "no"},
            {"grad_mode": "bananas"},
            {"autocast": "int4"},
            {"state": {}},
        ],
    )
    def test_a_manifest_that_was_edited_wrongly(self, project: Path, tmp_path: Path, changed: dict[str, Any]) -> None:
        whole = {**manifest_of(project, "Block"), **changed}
        lacking = {key: value for key, value in manifest_of(project, "Block").items() if key not in changed}
        for manifest in (whole, lacking):
            (tmp_path / "manifest.json").write_text(json.dumps(manifest))
            with pytest.raises(UsageError, match=f'damaged: .*"{next(iter(changed))}"') as caught:
                resolve_capture(tmp_path)
            assert "Capture it again" in caught.value.next_step

    @pytest.mark.parametrize("text", ['{"schema": "warpsmith.capture/1"}', "[1, 2]", "{"])
    def test_a_manifest_that_is_none(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "manifest.json").write_text(text)
        with pytest.raises(UsageError, match=r"manifest|another version") as caught:
            resolve_capture(tmp_path)
        assert "Capture it again" in caught.value.next_step

    @pytest.mark.parametrize("name", ["inputs.pt", "state.pt"])
    def test_tensors_that_cannot_be_read(self, project: Path, tmp_path: Path, name: str) -> None:
        folder = tmp_path / "Block"
        shutil.copytree(project / "captures" / "Block", folder)
        whole = (folder / name).read_bytes()
        for damaged in (b"", whole[: len(whole) // 2], bytes(range(256)), b"no tensors"):
            (folder / name).write_bytes(damaged)
            task = load.load_task(resolve_capture(folder).to_json())
            use = task.inputs if name == "inputs.pt" else task.reference
            with pytest.raises(TaskProblem, match=f"{name} of the capture cannot be read") as caught:
                use()
            assert "Capture it again" in caught.value.next_step

    def test_a_folder_without_a_capture(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="no capture in this folder"):
            resolve_capture(tmp_path)


class TestJudging:
    @pytest.mark.parametrize("name", ["Frozen", "Picture"])
    def test_a_captured_module_is_correct_as_its_own_candidate(self, project: Path, tmp_path: Path, name: str) -> None:
        """``Frozen`` has autocast, gradients and parts in two modes; ``Picture`` inference mode and channels last."""
        spec = resolve_capture(project / "captures" / name, policy="library-ok")
        workspace = Workspace.create(spec, tmp_path / "workspace")
        with Judge(
            spec, isolation=best_isolation(), cache=tmp_path / "cache", scratch=tmp_path / "scratch", limits=BRIEF
        ) as judge:
            verdict = judge.check(workspace.folder, "full" if spec.gradients else "quick")
        assert verdict.verify is not None
        assert verdict.verify.ok, verdict.reason
        assert verdict.task.precision == ("bf16" if name == "Frozen" else "fp32")
        assert any("gradient" in case.name for case in verdict.verify.cases) == (name == "Frozen")


class TestCommandLine:
    @pytest.mark.parametrize(
        "line",
        [
            "--capture {0} {1}",
            "{1} --capture {0}",
            "--quick --capture {0} {1} --json",
            "{2}:Block {1} --capture {0}",
            "{2}:Block --capture {0} {1}",
        ],
    )
    def test_the_target_may_be_left_out(self, project: Path, line: str) -> None:
        names = (project / "captures" / "Block", project / "net", project / "net" / "kinds.py")
        parser = argparse.ArgumentParser()
        check.add_options(parser)
        options = parser.parse_args(line.format(*names).split())
        target, candidate = check.places(options)
        assert candidate == project / "net"
        assert task_from(options, target, Settings(device="cpu")).class_name == "Block"

    def test_a_target_that_is_another_module_is_refused(self, project: Path) -> None:
        parser = argparse.ArgumentParser()
        check.add_options(parser)
        capture, other = project / "captures" / "Block", project / "net" / "kinds.py"
        options = parser.parse_args([f"{other}:Wide", str(project), "--capture", str(capture)])
        with pytest.raises(UsageError, match="capture is of Block"):
            task_from(options, options.target, Settings(device="cpu"))


class TestSavedInputs:
    def test_a_file_of_tensors_gives_the_inputs(self, project: Path, tmp_path: Path) -> None:
        torch.save({"x": torch.randn(3, 16), "mask": None, "gain": 4.0}, tmp_path / "in.pt")
        args, kwargs = task_of(project, "Block", inputs=str(tmp_path / "in.pt")).inputs()
        assert args == ()
        assert kwargs["x"].shape == (3, 16)
        assert (kwargs["mask"], kwargs["gain"]) == (None, 4.0)

    def test_a_file_that_holds_something_else(self, project: Path, tmp_path: Path) -> None:
        (tmp_path / "in.pt").write_text("no tensors")
        with pytest.raises(TaskProblem, match="saved inputs cannot be read"):
            task_of(project, "Block", inputs=str(tmp_path / "in.pt")).inputs()


class TestDrawing:
    @pytest.mark.parametrize(
        "kept",
        [torch.arange(12), torch.arange(12).flip(0), torch.tensor([0.0, 1.0, 1.0, 0.0]), torch.tensor([True, False])],
    )
    def test_what_ascends_descends_or_masks_stays(self, kept: torch.Tensor) -> None:
        assert torch.equal(drawing.drawn(kept), kept)

    @pytest.mark.parametrize("kept", [torch.ones(6, 6).tril().bool(), torch.arange(12).view(1, 12) < 7])
    def test_masks_of_runs_stay(self, kept: torch.Tensor) -> None:
        assert torch.equal(drawing.drawn(kept), kept)

    def test_other_masks_keep_the_share_of_each_row(self) -> None:
        mask = (torch.arange(400).view(2, 200) * 7919) % 11 < 3
        drawn = drawing.drawn(mask)
        assert not torch.equal(drawn, mask)
        assert torch.equal(drawn.sum(-1), mask.sum(-1))

    def test_columns_of_different_meaning_are_not_mixed(self) -> None:
        spans = torch.stack([torch.arange(50).roll(7), 1000 + torch.arange(50).roll(9)], dim=1)
        drawn = drawing.drawn(spans)
        assert not torch.equal(drawn, spans)
        assert torch.equal(drawn.sort(dim=0).values, spans.sort(dim=0).values)

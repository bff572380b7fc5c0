"""The kinds: one file each in ``modules``, written out at the size that a device deserves."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sandbox.task import TaskSpec
from sandbox.verdict import Verdict

MODULES = Path(__file__).with_name("modules")
KINDS = tuple(sorted(path.stem for path in MODULES.glob("*.py")))
_CHANGES: Mapping[str, Mapping[str, Any]] = {"train_mode": {"training": True}, "bf16": {"dtype": "bfloat16"}}
_TRUE = {("delegation", "label"), ("side-stream", "label"), ("joined-streams", "label")}


def write_kind(name: str, folder: Path, device: str) -> tuple[TaskSpec, Path]:
    """Write a kind's task, and a workspace in which the reference is the candidate; return the spec and the workspace."""
    source = (MODULES / f"{name}.py").read_text()
    if device == "cpu":
        source = source.replace("SMALL = False", "SMALL = True")
    project, workspace = folder / "project", folder / "candidate"
    for place in (project, workspace):
        place.mkdir(parents=True)
    path = project / f"{name}.py"
    path.write_text(source)
    (workspace / "model_new.py").write_text(source.replace("class Model(", "class ModelNew("))
    python = Path(sys.executable)
    spec = TaskSpec("kernelbench", path, "Model", name, project, python, device=device, policy="library-ok")
    return spec.with_changes(**_CHANGES.get(name, {})), workspace


def wrongs(verdict: Verdict) -> list[str]:
    """Return what a verdict on a reference as its own candidate should not say.

    That torch computes it, or cuDNN on streams of its own, is a label, and true; that times were disturbed is nobody's fault.
    """
    said = [] if verdict.correct else [f"not correct: {verdict.reason}"]
    if verdict.guard is not None:
        false = [finding for finding in verdict.guard.findings if (finding.rule, finding.severity) not in _TRUE]
        said += [f"{finding.severity} {finding.rule}: {finding.evidence}" for finding in false]
    if verdict.reward not in {1, None} and verdict.correct:
        said.append(f"reward {verdict.reward}: {verdict.reason}")
    return said

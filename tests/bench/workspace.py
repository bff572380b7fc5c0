"""The bench task as a workspace, and edits of its kernel that change the code but not the answer."""

from __future__ import annotations

import itertools
import shutil
import time
from pathlib import Path

from sandbox.target import resolve_target
from sandbox.task import TaskSpec

TASK = Path(__file__).parent / "task"
_EDITS = itertools.count(time.time_ns())


def bench_task(device: str) -> TaskSpec:
    """Return the task on a device, in this interpreter's environment."""
    return resolve_target(str(TASK / "model.py"), device=device)


def make_workspace(folder: Path, device: str) -> Path:
    """Lay out the candidate's folder and return it."""
    kernels = "kernels_cpu" if device == "cpu" else "kernels_cuda"
    shutil.copytree(TASK / kernels, folder / "kernels")
    shutil.copyfile(TASK / "model_new.py", folder / "model_new.py")
    return folder


def edit(folder: Path, *, body: bool = True) -> None:
    """Change the kernel's source so that nothing cached fits it: a body, as an agent mostly does, or what lies beside it."""
    source = next((folder / "kernels").iterdir())
    text, name = source.read_text(), f"edit_{next(_EDITS)}"
    if not body:
        source.write_text(f"{text}\nstatic const long long {name} = 0;\n")
        return
    first, brace, rest = text.partition("{\n")
    source.write_text(f"{first}{brace}    const bool {name} = true; (void){name};\n{rest}")

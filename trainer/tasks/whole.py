"""Tasks whose answer is a whole candidate: KernelBench files from a folder."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

from sandbox.errors import UsageError
from trainer.data.exclusion import NOTHING, Excluded
from trainer.tasks.task import Files, NoAnswer, Task

_RULES = """\
You make PyTorch modules fast by writing their kernels yourself. Answer with two fenced blocks.

1. ```python: model_new.py with the class ModelNew, which has the constructor and the parameters of Model. It creates tensors and
calls your kernels, `from kernels import NAME`, and no operator of PyTorch.
2. ```{language}: one file with all kernels. It includes no header of torch. Each launcher is
   extern "C" int NAME({form}{stream})
and returns 0 or an error code. const pointers are inputs, others outputs that ModelNew allocates; sizes come as int64_t.

It has to agree with Model on any input, and should be faster than eager and torch.compile."""

_FORM = "const float* in, float* out, int64_t n"
_FENCE = re.compile(r"^```[ \t]*([\w+]*)[^\n]*\n(.*?)^```[ \t]*$", re.DOTALL | re.MULTILINE)
_LAUNCHER = re.compile(r'extern\s+"C"\s+int\s+(\w+)\s*\(')
_KERNEL_LANGUAGES = frozenset({"cuda", "cu", "cpp", "c++", "c"})


def whole_tasks(folder: Path, device: str, kept_out: Excluded = NOTHING) -> list[Task]:
    """Return a task for each KernelBench file below a folder that may be learnt from.

    Args:
        folder: With files that have ``class Model``, ``get_inputs`` and ``get_init_inputs``.
        device: ``cpu`` or ``cuda:N``: what the kernels are written for.
        kept_out: What may not be learnt from.

    Raises:
        UsageError: There is no such folder, or no such file in it.
    """
    files = sorted(folder.rglob("*.py")) if folder.is_dir() else []
    found = [path for path in files if _is_task(path.read_text(errors="replace"))]
    if not found:
        raise UsageError(
            "There is no KernelBench file in this folder.",
            where=str(folder),
            next_step="Name a folder of files with class Model, get_inputs() and get_init_inputs(), or: practice",
        )
    return [
        _task(path.relative_to(folder).with_suffix("").as_posix(), path.read_text(), device)
        for path in kept_out.left_of(found)
    ]


def _is_task(source: str) -> bool:
    return all(part in source for part in ("class Model", "def get_inputs", "def get_init_inputs"))


def _task(name: str, source: str, device: str) -> Task:
    on_cpu = device == "cpu"
    rules = _RULES.format(
        language="cpp" if on_cpu else "cuda", form=_FORM, stream="" if on_cpu else ", cudaStream_t stream"
    )
    return Task(
        name=name.replace("/", "-"),
        operator=name,
        source=source,
        messages=(
            {"role": "system", "content": rules},
            {"role": "user", "content": f"```python\n{source.strip()}\n```"},
        ),
        opening="",
        candidate=partial(_candidate, "cpp" if on_cpu else "cu"),
        limit=0,
    )


def _candidate(suffix: str, answer: str) -> Files:
    """Return the last block of each kind: what comes before it in an answer is thought aloud.

    Raises:
        NoAnswer: One of the two blocks is missing, or the kernels have no launcher.
    """
    blocks = [(found[1].lower(), found[2]) for found in _FENCE.finditer(answer)]
    python = [text for language, text in blocks if language in ("python", "py")]
    kernels = [text for language, text in blocks if language in _KERNEL_LANGUAGES]
    if not python or not kernels:
        raise NoAnswer(f"The answer has no block of {'kernels' if python else 'Python'}.")
    launcher = _LAUNCHER.search(kernels[-1])
    if launcher is None:
        raise NoAnswer('The kernels have no launcher: extern "C" int NAME(...).')
    return {"model_new.py": python[-1].encode(), f"kernels/{launcher[1]}.{suffix}": kernels[-1].encode()}

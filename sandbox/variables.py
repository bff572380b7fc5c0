"""The environment variables of the judge's processes for one task."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from sandbox.build.toolchain import find_ninja
from sandbox.isolation.keys import without_keys
from sandbox.task import TaskSpec

_SHARED = ("CUDA_", "GOMP_", "KMP_", "LD_LIBRARY_PATH", "MKL_", "NVIDIA_", "OMP_", "PYTORCH_", "TORCH_")
"""Variables that times depend on: a worker gets them as the bench does, and nothing else of the developer's."""


_INJECTED = ("CUDA_INJECTION32_PATH", "CUDA_INJECTION64_PATH", "NVTX_INJECTION32_PATH", "NVTX_INJECTION64_PATH")
"""How a profiler around this process gets into those it starts: a GPU's tracer has one user, and the guards need it."""


@dataclass(frozen=True)
class Variables:
    """What each kind of process gets.

    Attributes:
        spec: The task.
        compiled: Where compiled baselines are kept.
        temporary: Where bench and zygote may leave files.
    """

    spec: TaskSpec
    compiled: Path
    temporary: Path

    @property
    def programs(self) -> str:
        """Where workers find programs, as ``PATH`` has it."""
        return f"{self.spec.python.parent}:/usr/local/cuda/bin:/usr/local/bin:/usr/bin:/bin"

    def bench(self) -> dict[str, str]:
        """Return the developer's, with a cache of our own for what torch compiles."""
        return {
            **self._developer(),
            "TORCHINDUCTOR_CACHE_DIR": str(self.compiled / "inductor"),
            "TRITON_CACHE_DIR": str(self.compiled / "triton"),
        }

    def zygote(self) -> dict[str, str]:
        """Return the developer's without keys: workers are forked from it, and have in memory what it had."""
        return {**without_keys(self._developer()), **self.spec.env, "OPENBLAS_NUM_THREADS": "1"}

    def worker(self) -> dict[str, str]:
        """Return the little that a worker gets."""
        shared = {key: value for key, value in _around().items() if key.startswith(_SHARED)}
        return {"PATH": self.programs, **shared, **self.spec.env, "PYTHONDONTWRITEBYTECODE": "1"}

    def extension(self, folder: Path, sm: str | None) -> dict[str, str]:
        """Return what a worker gets beside that whose candidate compiles its own extension with torch.

        Torch does so with ninja, which the interpreter's environment may lack: that is no fault of the candidate's.

        Args:
            folder: Where torch keeps it.
            sm: The present GPU's architecture (``sm_90``), the only one to compile for: a developer's own
                ``TORCH_CUDA_ARCH_LIST`` may name many, each of which takes as long as this one. None on the CPU.
        """
        present = {} if sm is None else {"TORCH_CUDA_ARCH_LIST": f"{sm[3:-1]}.{sm[-1]}"}
        return {"TORCH_EXTENSIONS_DIR": str(folder), "PATH": f"{self.programs}:{find_ninja().parent}", **present}

    def _developer(self) -> dict[str, str]:
        temporary = {"TMPDIR": str(self.temporary)}
        return {**_around(), **self.spec.env, **temporary, "PYTHONDONTWRITEBYTECODE": "1"}


def _around() -> dict[str, str]:
    """Return this process's environment without what a profiler around it put there."""
    return {key: value for key, value in os.environ.items() if key not in _INJECTED}

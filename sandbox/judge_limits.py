"""How long, how often and how much: every limit of the judge in one place."""

from __future__ import annotations

import os
from dataclasses import dataclass

from sandbox.verdict import Tier

GIBIBYTE = 1024**3
_THREADS_EACH_CPU = 8


@dataclass(frozen=True)
class TierLimits:
    """What differs between a quick and a full verdict.

    Attributes:
        cases: Verification cases with fresh inputs and state. With none, only outputs of timed calls are compared, which
            measures the judge itself sooner and is said in the verdict.
        placements: New workers with new buffers on both sides.
        profile_seconds: Measuring time, shared by the placements.
        pairs: Samples of each side in a placement at most; fewer where they are precise enough.
        least_pairs: At least to have, however long that takes.
        more_placements: Drawn beyond ``placements``, one at a time, while the next reward is undecided and less than twice
            ``profile_seconds`` were used.
        forms_seconds: Other forms of a class are begun with within so many seconds.
    """

    cases: int
    placements: int
    profile_seconds: float
    pairs: int
    least_pairs: int
    more_placements: int = 0
    forms_seconds: float = 4.0


@dataclass(frozen=True)
class JudgeLimits:
    """Limits in seconds and bytes. The defaults fit real work; tests use shorter ones.

    Attributes:
        open_seconds: Starting an interpreter, importing the task's module, accepting the task.
        bench_seconds: One answer of the bench.
        compile_seconds: Warming one mode of torch.compile up.
        autotune_seconds: The same for a mode that tries many kernels out.
        load_seconds: Loading the candidate in a worker that is ready.
        inline_load_seconds: The same where the candidate compiles its own extension.
        optional_seconds: Making the questions of the cases that may be left out; those it is used up for are, and it is said.
        call_seconds: One request to the candidate, beyond what the reference took for the same.
        memory_bytes: Memory of a worker beside its share of the task's tensors.
        processes: Processes and threads of a worker, beside the threads of the processors.
        file_bytes: Largest file a worker may write; of all of them together it may write twice as much.
        device_memory: Bytes to take the device's memory for, to judge as on a smaller device; 0 for all of it.
    """

    open_seconds: float = 180.0
    bench_seconds: float = 120.0
    compile_seconds: float = 90.0
    autotune_seconds: float = 120.0
    load_seconds: float = 30.0
    inline_load_seconds: float = 400.0
    optional_seconds: float = 8.0
    call_seconds: float = 20.0
    memory_bytes: int = 8 * GIBIBYTE
    processes: int = 256
    file_bytes: int = 2 * GIBIBYTE
    device_memory: int = 0
    quick: TierLimits = TierLimits(
        cases=5, placements=2, profile_seconds=1.6, pairs=200, least_pairs=6, more_placements=2
    )
    full: TierLimits = TierLimits(
        cases=8,
        placements=5,
        profile_seconds=12.0,
        pairs=400,
        least_pairs=10,
        more_placements=2,
        forms_seconds=40.0,
    )

    @property
    def tasks(self) -> int:
        """Processes and threads of a worker, with the threads that torch starts for each processor."""
        return self.processes + _THREADS_EACH_CPU * (os.cpu_count() or 1)

    def of(self, tier: Tier) -> TierLimits:
        """Return what differs between the tiers."""
        return self.quick if tier == "quick" else self.full

    def preparing(self, mode: str) -> float:
        """Return the seconds that a baseline may take to get ready; none where torch.compile is not wanted at all."""
        return self.autotune_seconds if self.compile_seconds > 0 and "autotune" in mode else self.compile_seconds

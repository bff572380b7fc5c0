"""A candidate to be looked at in ways that are no verdict: under a profiler, under sanitizers, in several variants."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from sandbox.build import Built, ExtraFlags
from sandbox.crew import Crew
from sandbox.plans import CasePlan
from sandbox.progress import Progress, Stage, silent
from sandbox.snapshot import Snapshot
from sandbox.timing.gpu_watch import DeviceWatch
from sandbox.trial import Trial


@dataclass(frozen=True)
class Study:
    """What it takes to look at one candidate; ``Judge.study`` makes it. Nothing that is seen so ever counts.

    Attributes:
        crew: The judge's processes.
        candidate: What is looked at.
        work: The judge's own folder.
        progress: Told what is being done.
        cancel: Ends it when it is set.
    """

    crew: Crew
    candidate: Snapshot
    work: Path
    progress: Progress
    cancel: threading.Event | None

    @property
    def kernels(self) -> Path:
        """The candidate's kernel files."""
        return self.candidate.folder / "kernels"

    @property
    def crowded(self) -> str:
        """Why the candidate cannot run beside the bench with inputs of its own, or empty."""
        if not self.crew.accepted.get("crowded"):
            return ""
        return "The task's tensors fill the device, so that there is no room for a second set: give smaller inputs."

    def quietly(self) -> Study:
        """Return the same without a listener, for what is done many times over."""
        return replace(self, progress=silent)

    def tell(self, part: str, text: str) -> None:
        """Say what is being done."""
        self.progress(Stage(part, text))

    def build(self, flags: ExtraFlags | None = None) -> Built:
        """Build the kernels with flags beside the usual ones; what was built so before comes from the cache."""
        return self.crew.build(self.kernels, self.progress, self.cancel, flags)

    def trial(self, flags: ExtraFlags | None = None, plans: Sequence[CasePlan] | None = None) -> Trial:
        """Return the candidate as built with these flags, to be verified by these cases and then timed."""
        return Trial(
            self.crew,
            self.candidate,
            "quick",
            self.progress,
            forgiving=False,
            cancel=self.cancel,
            flags=flags,
            plans=plans,
        )

    @contextmanager
    def alone(self) -> Iterator[DeviceWatch]:
        """Hold the device alone, with the bench at rest, and look at it."""
        with self.crew.alone("profile", "looking into", self.progress) as watch:
            self.crew.bench.ask({"op": "idle"}, self.crew.limits.bench_seconds)
            yield watch

"""What there is to gain in a class: its captured call, eager and compiled, beside a plain copy of the bytes it must move.

Measured as everything is, by a judge in fresh processes of the developer's interpreter.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sandbox.capture import resolve_capture
from sandbox.errors import ToldToEnd, WarpsmithError
from sandbox.hotspots.rank import Hotspot
from sandbox.isolation import best_isolation
from sandbox.judge import Judge
from sandbox.judge_limits import JudgeLimits
from sandbox.machine.devices import resolve_device
from sandbox.machine.scratch import scratch_folder
from sandbox.original import NOT_TRUSTED
from sandbox.timing.profile_report import COMPILE
from sandbox.timing.profiling import EAGER

Say = Callable[[str], None]


@dataclass(frozen=True)
class Gain:
    """What one call takes in the ways there are.

    Attributes:
        eager_us, compile_us: On the device; None where it could not be timed.
        copy_us: A plain copy of as many bytes as it must move, the floor of memory-bound work.
        unknown: Why there are no figures; empty where there are.
        compile_unknown: Why there is none for ``torch.compile``.
    """

    eager_us: float | None = None
    compile_us: float | None = None
    copy_us: float | None = None
    unknown: str = ""
    compile_unknown: str = ""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Gain:
        """Rebuild it from its JSON data; unknown keys are ignored: another version wrote them."""
        times = {key: float(data[key]) for key in ("eager_us", "compile_us", "copy_us") if data.get(key) is not None}
        return cls(**times, **{key: str(data.get(key, "")) for key in ("unknown", "compile_unknown")})  # type: ignore[arg-type]

    @property
    def distance(self) -> float | None:
        """How many times longer than a plain copy eager takes."""
        return self.eager_us / self.copy_us if self.eager_us and self.copy_us else None

    @property
    def compiled(self) -> float | None:
        """How many times faster than eager ``torch.compile`` is."""
        return self.eager_us / self.compile_us if self.eager_us and self.compile_us else None


@dataclass(frozen=True)
class Measuring:
    """How gains are measured.

    Attributes:
        count: Of how many classes, from the first on.
        seconds: How long all of it may take; what has begun is ended.
        device: As ``resolve_device`` takes it, for classes that ran on a GPU.
        isolation: As ``best_isolation`` takes it.
        cache: Where compiled kernels are kept.
    """

    count: int
    seconds: float
    device: str
    isolation: str
    cache: Path


def measure_gains(
    hotspots: Sequence[Hotspot], captures: Mapping[str, Path], how: Measuring, say: Say
) -> dict[str, Gain]:
    """Return what there is to gain in the first classes that can be opened, by their ``module:Class``.

    The project's own come first: those can be edited. On a machine that turns out to be busy the rest is left out, since
    every class would take minutes and come to nothing; so it is where the developer has had enough.

    Args:
        hotspots: The largest share first.
        captures: The folder of each class's capture, by ``module:Class``.
        how: Which, for how long, and where.
        say: Narrates.
    """
    found: dict[str, Gain] = {}
    end = time.monotonic() + how.seconds
    opened = [hotspot for hotspot in hotspots if not hotspot.unopened]
    chosen = sorted(opened, key=lambda each: each.origin != "project")[: how.count]
    skipped = ""
    for number, each in enumerate(chosen, 1):
        left = end - time.monotonic()
        if skipped or each.key not in captures:
            found[each.key] = Gain(unknown=skipped or "it was not captured")
        elif left <= 0:
            found[each.key] = Gain(unknown="there was no time left")
        else:
            called = f"{each.name} ({number} of {len(chosen)})"
            try:
                found[each.key] = _measure(captures[each.key], each, how, left, _speaking_of(called, say))
            except ToldToEnd:
                raise
            except KeyboardInterrupt:
                skipped = "interrupted"
                found[each.key] = Gain(unknown=skipped)
            if NOT_TRUSTED in found[each.key].unknown:
                skipped = "the machine is busy, see above"
    return found


def _speaking_of(called: str, say: Say) -> Say:
    return lambda text: say(f"{called}: {text}")


def _measure(capture: Path, hotspot: Hotspot, how: Measuring, seconds: float, say: Say) -> Gain:
    limits = JudgeLimits()
    compiling = min(limits.compile_seconds, seconds)
    limits = replace(limits, compile_seconds=compiling, autotune_seconds=0.0)
    try:
        device = resolve_device(how.device if hotspot.on_gpu else "cpu")
        spec = resolve_capture(capture, device=device)
        with scratch_folder("warpsmith-gain-") as scratch:
            judge = Judge(
                spec,
                isolation=best_isolation(how.isolation or None),
                cache=how.cache,
                scratch=scratch,
                progress=lambda stage: say(stage.text),
                limits=limits,
            )
            with judge:
                original = judge.original()
    except WarpsmithError as error:
        return Gain(unknown=str(error))
    eager, compiled = original.baselines[EAGER], original.baselines.get(COMPILE)
    if eager.device_us is None:
        return Gain(unknown="; ".join([*filter(None, (eager.error,)), *original.notes]) or "it could not be timed")
    return Gain(
        eager.device_us,
        compiled.device_us if compiled else None,
        original.copy_us,
        compile_unknown=compiled.error if compiled else "",
    )

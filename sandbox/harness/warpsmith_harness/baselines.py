"""The ways of running the reference that a candidate is timed against: eager, and torch.compile in its modes."""

from __future__ import annotations

import contextlib
import signal
import time
from typing import Any, Callable, Dict, Iterator, List

import torch
from torch import nn

from warpsmith_harness.problems import summary

EAGER = "eager"
COMPILE = "compile"
_MODES = {COMPILE: None, "max-autotune-no-cudagraphs": "max-autotune-no-cudagraphs", "reduce-overhead": "reduce-overhead"}
_WARM_UP_CALLS = 4


class OutOfTime(BaseException):  # noqa: N818  # no handler of the compiler may take it for a failure
    """A mode did not get ready within its limit."""


class Baselines:
    """The reference's callables by mode, compiled once for each task.

    Args:
        reference: The resident reference; every mode runs this very module.
        device: Where it runs.

    Attributes:
        errors: Why a mode cannot be timed, by mode.
        seconds: How long each took to get ready.
    """

    def __init__(self, reference: nn.Module, device: torch.device) -> None:
        self._reference = reference
        self._ready: Dict[str, Callable[..., Any]] = {EAGER: reference}
        self.modes: List[str] = [EAGER, COMPILE] if device.type == "cpu" else [EAGER, *_MODES]
        self.errors: Dict[str, str] = {}
        self.seconds: Dict[str, float] = {}

    def call(self, mode: str) -> Callable[..., Any]:
        """Return a mode that is ready."""
        return self._ready[mode]

    @property
    def ready(self) -> List[str]:
        """The modes that can be timed, eager first."""
        return [mode for mode in self.modes if mode in self._ready]

    def prepare(self, mode: str, run: Callable[[Callable[..., Any]], None], limit: float) -> None:
        """Compile a mode and make it warm, unless that was tried before.

        Args:
            mode: One of ``modes``.
            run: Makes one call of what it is given, on fresh inputs.
            limit: Seconds it may take.
        """
        if mode in self._ready or mode in self.errors:
            return
        started = time.monotonic()
        try:
            with _time_limit(limit):
                compiled: Callable[..., Any] = torch.compile(self._reference, mode=_MODES[mode])
                for _ in range(_WARM_UP_CALLS):
                    run(compiled)
            self._ready[mode] = compiled
        except OutOfTime:
            self.errors[mode] = f"torch.compile was not ready within {limit:.0f} s"
        except Exception as error:  # the compiler may raise anything on the developer's code
            self.errors[mode] = f"torch.compile fails: {summary(error)}"
        self.seconds[mode] = time.monotonic() - started


@contextlib.contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Raise ``OutOfTime`` in the main thread when the time is up."""
    if seconds <= 0:
        raise OutOfTime

    def stop(*_: object) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

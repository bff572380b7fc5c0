"""The ways of running the reference that a candidate is timed against: eager, also as a CUDA graph, and torch.compile."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from types import FrameType
from typing import Any, Callable, Dict, Iterator, List, Optional

import torch
from torch import nn
from torch.utils._python_dispatch import _pop_mode

from warpsmith_harness.problems import machine_problem, summary

EAGER = "eager"
GRAPH = "eager-cudagraph"
COMPILE = "compile"
REPLAYED = (GRAPH, "reduce-overhead")
"""The modes that replay CUDA graphs."""
_MODES = {
    COMPILE: None,
    "reduce-overhead": "reduce-overhead",
    "max-autotune-no-cudagraphs": "max-autotune-no-cudagraphs",
    "max-autotune": "max-autotune",
}
_SWITCHED_OFF = "it is switched off by TORCH_COMPILE_DISABLE"
_WARM_UP_CALLS = 4
_LOOK_SECONDS = 0.1
_IMPORT_FILE = "<frozen importlib._bootstrap>"


class OutOfTime(BaseException):
    """A mode did not get ready within its limit. No handler of the compiler may take it for an ordinary failure."""


class Postponed(BaseException):
    """Something more urgent came up; as ``OutOfTime``, but the mode may be tried again."""


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
        self.modes: List[str] = [EAGER, COMPILE] if device.type == "cpu" else [EAGER, GRAPH, *_MODES]
        self.errors: Dict[str, str] = dict.fromkeys(_MODES, _SWITCHED_OFF) if _switched_off() else {}
        self.seconds: Dict[str, float] = {}

    def call(self, mode: str) -> Callable[..., Any]:
        """Return a mode that is ready."""
        return self._ready[mode]

    def tried(self, mode: str) -> bool:
        """Tell whether a mode is ready, or known not to be."""
        return mode in self._ready or mode in self.errors

    def try_graph(self, capture: Callable[[Callable[..., Any]], None]) -> None:
        """Find out whether eager can be replayed as a CUDA graph, unless that was tried before.

        Args:
            capture: Captures what it is given, on inputs that nobody needs, and replays it.
        """
        if self.tried(GRAPH):
            return
        try:
            capture(self._reference)
            self._ready[GRAPH] = self._reference
        except Exception as error:  # the developer's code may raise anything while it is captured
            self.errors[GRAPH] = f"it cannot be captured into a CUDA graph: {summary(error)}"

    def prepare(
        self,
        mode: str,
        run: Callable[[Callable[..., Any]], None],
        limit: float,
        wanted_elsewhere: Callable[[], bool],
    ) -> None:
        """Compile a mode and make it warm, unless that was tried before.

        Args:
            mode: One of ``modes``.
            run: Makes one call of what it is given, on fresh inputs.
            limit: Seconds it may take.
            wanted_elsewhere: Asked now and then; where it says yes, the mode is left for another time.

        Raises:
            MachineProblem: The machine kept the compiler from its work; the mode may be tried again.
        """
        if self.tried(mode):
            return
        started = time.monotonic()
        try:
            with _interruptible(limit, wanted_elsewhere):
                compiled: Callable[..., Any] = torch.compile(self._reference, mode=_MODES[mode])
                for _ in range(_WARM_UP_CALLS):
                    run(compiled)
            self._ready[mode] = compiled
        except Postponed:
            _forget_compiling()
            return
        except OutOfTime:
            _forget_compiling()
            self.errors[mode] = f"torch.compile was not ready within {limit:.0f} s"
        except Exception as error:  # the compiler may raise anything on the developer's code
            problem = machine_problem(error)
            if problem is not None:
                torch._dynamo.reset()
                raise problem from error
            self.errors[mode] = f"torch.compile fails: {summary(error)}"
        self.seconds[mode] = time.monotonic() - started


def _switched_off() -> bool:
    """Tell whether ``torch.compile`` would hand back what it is given (``torch._dynamo.config``): eager by another name."""
    return os.environ.get("TORCH_COMPILE_DISABLE", "0") == "1"


def _forget_compiling() -> None:
    """Make the compiler forget what it was at, modes that it left entered included: operators would be traced from then on."""
    while torch._C._len_torch_dispatch_stack():
        _pop_mode()
    torch._dynamo.reset()


def _halfway(frame: Optional[FrameType]) -> bool:
    """Tell whether code on the stack is being imported, or a context is being entered or left: neither bears an exception."""
    while frame is not None:
        if frame.f_code.co_filename == _IMPORT_FILE or frame.f_code.co_name in ("__enter__", "__exit__"):
            return True
        frame = frame.f_back
    return False


@contextlib.contextmanager
def _interruptible(seconds: float, wanted_elsewhere: Callable[[], bool]) -> Iterator[None]:
    """Raise ``OutOfTime`` in the main thread when the time is up, ``Postponed`` when it is wanted elsewhere."""
    end = time.monotonic() + seconds
    if seconds <= 0:
        raise OutOfTime

    def look(_: int, frame: Optional[FrameType]) -> None:
        if _halfway(frame):  # a module left half imported would stay broken, a mode half left would stay entered
            return
        if time.monotonic() > end:
            raise OutOfTime
        if wanted_elsewhere():
            raise Postponed

    before = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, _LOOK_SECONDS, _LOOK_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

"""The recorder of one process: notes what happens in windows of steps that take turns with windows left alone."""

from __future__ import annotations

import functools
import itertools
import multiprocessing
import os
import sys
import threading
import time
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any, Callable, Dict, List, Optional, Set, Type, TypeVar

import torch
from torch import nn
from torch.utils.data import get_worker_info

from .backward import BackwardWatch
from .captures import Captures
from .classes import ModuleKind, kind_of
from .clock import DeviceClock
from .hooks import hook_modules, leave_modules
from .losses import Losses
from .note import write_note
from .report import report
from .sharing import Sharing
from .timeline import BACKWARD, BACKWARD_END, CLOSE, NOTED, OPEN, REACHED, Call, Mark
from .windows import MODULE, OPTIMIZER, PLAIN, StepMarker, Windows

STOP = "stop"
"""Name of the file that asks the processes of a recording to finish it."""

_WRITE_SECONDS = 1.0
_LATE_SECONDS = 5.0
_LOOK_SECONDS = 0.3
_now = time.perf_counter_ns
_Hook = TypeVar("_Hook", bound=Callable[..., None])


def _harmless(hook: _Hook) -> _Hook:
    """Let no fault of the recorder reach the program: it stops recording instead, and says so."""

    @functools.wraps(hook)
    def guarded(self: Recorder, *args: Any) -> None:
        if self.off:
            return
        try:
            hook(self, *args)
        except Exception:  # the boundary between the recorder and the developer's program
            self.give_up(traceback.format_exc())

    return guarded  # type: ignore[return-value]


def _end_without_traceback() -> None:
    """Let the Ctrl-C that ends the program once it was watched for long enough not tell where it was just then."""
    theirs = sys.excepthook

    def hook(kind: Type[BaseException], error: BaseException, trace: Optional[TracebackType]) -> None:
        if not issubclass(kind, KeyboardInterrupt):
            theirs(kind, error, trace)

    sys.excepthook = hook


class Recorder:
    """Times the module calls of one thread and writes what it found into a folder, again and again.

    The thread is the one that calls a module first; while it waits for the backward pass, autograd's own threads stand
    in for it. Data-loading workers and other helpers are not recorded.

    Args:
        folder: Where the process's own file goes.

    Attributes:
        off: Whether nothing is to be recorded (any more) here.
        left_alone: Whether modules have no hooks at all in plain windows.
        complete: Whether the recording is over, because the program ended or was asked to finish it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.begin()

    def begin(self) -> None:
        """Start with nothing known: at first, and in a forked child."""
        self.off = self.complete = False
        self.fault = ""
        self.kinds: Dict[Any, ModuleKind] = {}
        self.captures, self.losses = Captures(self.folder), Losses()
        self.windows, self.marker = Windows(self.captures.wanted), StepMarker()
        self.clock = DeviceClock()
        self.sharing = Sharing(self.clock.take_back, self.kinds)
        self.watch = BackwardWatch(self.reached)
        self.devices: Set[str] = set()
        self.elsewhere = 0
        self.left_alone = False
        self._thread: Optional[int] = None
        self._stack: List[Call] = []
        self._marks: List[Mark] = []
        self._whole = 0
        self._depth = self._in_backward = 0
        self._written = self._looked = time.monotonic()

    def begin_in_child(self) -> None:
        """Start with nothing known in a forked child; its parent's events are not its own."""
        self.clock.forget()
        self.begin()

    # --- What the hooks tell ----------------------------------------------------------------------------------------

    @_harmless
    def before(self, module: nn.Module, args: Any) -> None:
        """A module is about to be called."""
        begun = _now()
        if not self._is_recorded_thread():
            return
        if self._depth == 0 and not self._in_backward:
            self._outermost(module, begun)
            begun = _now()
        self._depth += 1
        window = self.windows.now
        if window.captured:
            self.captures.before(module, args)
        if window.recorded:
            around = self._stack[-1] if self._stack else None
            self.watch.leaves(args, around)
            call = Call(self._kind(module), around, id(module))
            self._stack.append(call)
            self._mark(OPEN, call, begun)

    @_harmless
    def after(self, module: nn.Module, args: Any, kwargs: Dict[str, Any], output: Any) -> None:
        """A module's call has ended, or raised."""
        begun = _now()
        if self._depth == 0 or not self._is_recorded_thread():
            return
        self._depth -= 1
        window = self.windows.now
        if window.recorded and self._is_open(module):
            event = self.clock.mark()
            while self._stack[-1].module != id(module):
                self._stack.pop()
            call = self._stack.pop()
            call.variant = call.kind.variant(module, args, kwargs, output)
            self.watch.enters(output, call)
            self._marks.append(Mark(CLOSE, call, event, begun, _now()))
        if window.captured:
            self.captures.after(module, output)
        if window.recorded and time.monotonic() - self._written > _LATE_SECONDS:
            self._tell_within()

    @_harmless
    def stepped(self, optimizer: Any) -> None:
        """An optimizer has stepped."""
        if threading.get_ident() == self._thread and not self._in_backward and self._depth == 0:
            self._boundary(OPTIMIZER, optimizer, _now())

    @_harmless
    def backward_begins(self, tensors: Any) -> None:
        """The program calls backward on tensors."""
        if threading.get_ident() != self._thread:
            return
        self._in_backward += 1
        if self._in_backward == 1:
            self.losses.note(tensors)
            self._mark(BACKWARD, None, _now())

    @_harmless
    def backward_ends(self) -> None:
        """The backward pass has ended."""
        if threading.get_ident() != self._thread or not self._in_backward:
            return
        self._in_backward -= 1
        if self._in_backward == 0:
            self._mark(BACKWARD_END, None, _now())

    @_harmless
    def reached(self, call: Optional[Call]) -> None:
        """The backward pass has come to what a call computed; or, with none, to what no module did."""
        if self._in_backward:
            self._mark(REACHED, call, _now())

    # --- How a recording ends ---------------------------------------------------------------------------------------

    def give_up(self, fault: str) -> None:
        """Stop recording because of a fault of ours; what was recorded before is still told."""
        self.off = True
        self.fault = fault
        try:
            self._write()
        except Exception:  # where what was recorded is the fault, the fault alone is told
            write_note(self.folder / f"fault-{os.getpid()}.json", {"fault": fault})

    def finish(self) -> None:
        """Share out what is left, write it and record no more: the program ends, or was watched for long enough."""
        if self._thread is None or self.off or threading.get_ident() != self._thread:
            return
        self.off = self.complete = True
        if (self.folder / STOP).exists():
            _end_without_traceback()
        try:
            if self.windows.past:
                del self._marks[self._whole :]  # a step that did not come to its end
            self._close_window()
            self.sharing.wait()
            self.captures.finish(self.kinds.values())
            self._write()
        except Exception:  # the boundary between the recorder and the developer's program
            self.give_up(traceback.format_exc())

    # --- Steps and windows ------------------------------------------------------------------------------------------

    def _is_recorded_thread(self) -> bool:
        here = threading.get_ident()
        if self._thread is None:
            if is_helper():
                self.off = True
                return False
            self._thread = here
            self._write()
        if here == self._thread or self._in_backward:
            return True
        self.elsewhere += 1
        return False

    def _is_open(self, module: nn.Module) -> bool:
        stack, name = self._stack, id(module)
        return bool(stack) and (stack[-1].module == name or any(call.module == name for call in stack))

    def _outermost(self, module: nn.Module, now: int) -> None:
        """A module is called from outside all others: count the step it may begin, and look where it computes."""
        self._boundary(MODULE, module, now)
        device = _device_of(module)
        self.clock.look_at(device)
        if device is not None:
            self.devices.add(str(device))

    def _boundary(self, kind: str, subject: Any, now: int) -> None:
        """Count a step where one ends, and let the windows take turns."""
        before = self.marker.kind
        if not self.marker.ends_step(kind, subject):
            return
        self._mark(NOTED, None, now)
        if self.marker.kind != before:
            self.windows.restart()
            self.sharing.restart()
        if before == "":  # nothing came before
            return
        ends_window = self.windows.step()
        self._whole = len(self._marks)
        if self._is_asked_to_stop():
            self.finish()
        elif ends_window:
            self._close_window()
            self.sharing.go_on()
            if time.monotonic() - self._written > _WRITE_SECONDS or len(self.windows.past) == 1:
                self._write()
            self.windows.turn()
            if self.windows.now.kind != PLAIN:
                hook_modules()
            elif self.marker.kind == OPTIMIZER:  # which will tell when the window is over
                self.left_alone = leave_modules()
            self._mark(NOTED, None, _now())

    def _close_window(self) -> None:
        self._mark(NOTED, None, _now())
        self.windows.close()
        if self.windows.now.recorded:
            self.sharing.take(self.windows.now, self._marks, ends=True)
        self._marks, self._whole = [], 0

    def _tell_within(self) -> None:
        """Write what is known in the middle of a long window: the program may never come to its end."""
        self.sharing.take(self.windows.now, self._marks, ends=False)
        self._marks, self._whole = [], 0
        self.sharing.go_on()
        self._write()

    def _is_asked_to_stop(self) -> bool:
        if time.monotonic() - self._looked < _LOOK_SECONDS:
            return False
        self._looked = time.monotonic()
        return (self.folder / STOP).exists()

    def _mark(self, what: int, call: Optional[Call], begun: int) -> None:
        if self.windows.now.recorded:
            self._marks.append(Mark(what, call, self.clock.mark(), begun, _now()))

    def _kind(self, module: nn.Module) -> ModuleKind:
        original: Any = module._orig_mod if type(module).__name__ == "OptimizedModule" else None
        compiled = original is not None or module._compiled_call_impl is not None
        inner = module if original is None else original
        kind = self.kinds.get((type(inner), compiled))
        if kind is None:
            kind = self.kinds[(type(inner), compiled)] = kind_of(inner, compiled)
        kind.instances.add(id(module))
        return kind

    def _write(self) -> None:
        self._written = time.monotonic()
        write_note(self.folder / f"process-{os.getpid()}.json", report(self))


def is_helper() -> bool:
    """Tell whether this process only serves another: a data-loading worker, a pool's worker."""
    return get_worker_info() is not None or bool(multiprocessing.current_process().daemon)


def _device_of(module: nn.Module) -> Optional[torch.device]:
    for tensor in itertools.chain(module.parameters(), module.buffers()):
        return tensor.device
    cuda: Any = torch.cuda
    return torch.device("cuda", cuda.current_device()) if cuda.is_initialized() else None

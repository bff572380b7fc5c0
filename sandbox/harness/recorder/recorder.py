"""The recorder of one process: notes what happens in windows of steps that take turns with windows left alone."""

from __future__ import annotations

import functools
import itertools
import multiprocessing
import os
import threading
import time
import traceback
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple, TypeVar

import torch
from torch import nn
from torch.utils.data import get_worker_info

from .classes import ModuleKind
from .clock import DeviceClock
from .losses import Losses
from .note import write_note
from .report import report
from .timeline import BACKWARD, BACKWARD_END, CLOSE, NOTED, OPEN, Call, Mark, Timeline
from .windows import MODULE, OPTIMIZER, StepMarker, Window, Windows

_WRITE_SECONDS = 1.0
_LAST_WAIT_SECONDS = 2.0
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


class Recorder:
    """Times the module calls of one thread and writes what it found into a folder, again and again.

    The thread is the one that calls a module first; while it waits for the backward pass, autograd's own threads stand
    in for it. Data-loading workers and other helpers are not recorded.

    Args:
        folder: Where the process's own file goes.

    Attributes:
        off: Whether nothing is to be recorded (any more) here.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._begin()

    def _begin(self) -> None:
        self.off = False
        self.fault = ""
        self.kinds: Dict[Any, ModuleKind] = {}
        self.windows, self.marker, self.losses = Windows(), StepMarker(), Losses()
        self.clock = DeviceClock()
        self.timeline = Timeline(self.clock.take_back)
        self.devices: set[str] = set()
        self.elsewhere = 0
        self.ended = False
        self._thread: Optional[int] = None
        self._depth = 0
        self._in_backward = False
        self._waiting: List[Tuple[Window, List[Mark]]] = []
        self._warm_up_kept = True
        self._whole = 0
        self._written = time.monotonic()

    def begin_in_child(self) -> None:
        """Start with nothing known in a forked child; its parent's events are not its own."""
        self.clock.forget()
        self._begin()

    @_harmless
    def before(self, module: nn.Module) -> None:
        """A module is about to be called."""
        begun = _now()
        if not self._is_recorded_thread():
            return
        if self._depth == 0 and not self._in_backward:
            self._outermost(module, begun)
            begun = _now()
        self._depth += 1
        if self.windows.now.recorded:
            stack = self.timeline.stack
            call = Call(self._kind(module), stack[-1] if stack else None, module)
            stack.append(call)
            self._mark(OPEN, call, begun)

    @_harmless
    def after(self, module: nn.Module, args: Any, kwargs: Dict[str, Any], output: Any) -> None:
        """A module's call has ended, or raised."""
        begun = _now()
        if self._depth == 0 or not self._is_recorded_thread():
            return
        self._depth -= 1
        stack = self.timeline.stack
        if not self.windows.now.recorded or all(call.module is not module for call in reversed(stack)):
            return
        event = self.clock.mark()
        while stack[-1].module is not module:
            stack.pop()
        call = stack.pop()
        call.variant = call.kind.variant(module, args, kwargs, output)
        self.timeline.marks.append(Mark(CLOSE, call, event, begun, _now()))

    @_harmless
    def stepped(self, optimizer: Any) -> None:
        """An optimizer has stepped."""
        if threading.get_ident() == self._thread and not self._in_backward and self._depth == 0:
            self._boundary(OPTIMIZER, optimizer, _now())

    @_harmless
    def backward_begins(self, tensors: Any) -> None:
        """The program calls backward on tensors."""
        if threading.get_ident() != self._thread or self._in_backward:
            return
        self.losses.note(tensors)
        self._in_backward = True
        self._mark(BACKWARD, None, _now())

    @_harmless
    def backward_ends(self) -> None:
        """The backward pass has ended."""
        if threading.get_ident() == self._thread and self._in_backward:
            self._in_backward = False
            self._mark(BACKWARD_END, None, _now())

    def give_up(self, fault: str) -> None:
        """Stop recording because of a fault of ours; what was recorded before is still told."""
        self.off = True
        self.fault = fault
        self._write()

    def finish(self) -> None:
        """Share out what is left and write it: the program ends."""
        if self._thread is None:
            return
        self.off = self.ended = True
        if self._whole or self._waiting or not self._warm_up_kept:
            del self.timeline.marks[self._whole :]  # a step that did not come to its end
        self._close_window()
        waited = time.monotonic() + _LAST_WAIT_SECONDS
        while self._waiting and time.monotonic() < waited:
            self._share_out()
            time.sleep(0.01)
        self._write()

    def _is_recorded_thread(self) -> bool:
        here = threading.get_ident()
        if self._thread is None:
            if is_helper():
                self.off = True
                return False
            self._thread = here
        if here == self._thread or self._in_backward:
            return True
        self.elsewhere += 1
        return False

    def _outermost(self, module: nn.Module, now: int) -> None:
        """A module is called from outside all others: look where it computes, and count the step it may begin."""
        self._boundary(MODULE, module, now)
        device = _device_of(module)
        self.clock.look_at(device)
        if device is not None:
            self.devices.add(str(device))

    def _boundary(self, kind: str, subject: Any, now: int) -> None:
        """Count a step where one ends, and let the windows take turns."""
        adopted_before = self.marker.kind
        if not self.marker.ends_step(kind, subject):
            return
        if self.marker.kind != adopted_before:
            self._mark(NOTED, None, now)
            self.windows.restart()
            return
        ends_window = self.windows.step()
        self._mark(NOTED, None, now)
        self._whole = len(self.timeline.marks)
        if ends_window:
            self._close_window()
            self._share_out()
            if time.monotonic() - self._written > _WRITE_SECONDS:
                self._write()
            self.windows.turn()
            self._mark(NOTED, None, _now())

    def _close_window(self) -> None:
        self._mark(NOTED, None, _now())
        self.windows.close()
        if self.timeline.marks:
            self._waiting.append((self.windows.now, self.timeline.marks))
            self.timeline.marks, self._whole = [], 0

    def _share_out(self) -> None:
        """Share out the windows that the device has come by."""
        while self._waiting and self.timeline.ready(self._waiting[0][1]):
            window, marks = self._waiting.pop(0)
            if self._warm_up_kept and not window.warm_up:
                self._forget_warm_up()
            self.timeline.share_out(marks)
            self.timeline.end_window()

    def _forget_warm_up(self) -> None:
        """What was slow only the first time is no part of a share, once there is anything else."""
        self._warm_up_kept = False
        self.timeline.forget()
        for kind in self.kinds.values():
            kind.forget()

    def _mark(self, what: int, call: Optional[Call], begun: int) -> None:
        if self.windows.now.recorded:
            self.timeline.marks.append(Mark(what, call, self.clock.mark(), begun, _now()))

    def _kind(self, module: nn.Module) -> ModuleKind:
        original = module.__dict__.get("_modules", {}).get("_orig_mod")
        compiled = original is not None
        cls = type(original if compiled else module)
        kind = self.kinds.get((cls, compiled))
        if kind is None:
            kind = self.kinds[(cls, compiled)] = ModuleKind(cls, compiled)
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

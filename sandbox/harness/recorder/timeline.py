"""What happened on one thread, mark by mark, and how the time between the marks is shared out.

A mark says that a module's call began or ended, or that the backward pass came to the nodes of a call. The time between
two marks belongs to whoever was at work then; the time a hook took belongs to nobody. Marks are only noted while the
step runs, and shared out later, when the device has come by their events.
"""

from __future__ import annotations

from typing import Any, Callable, List, NamedTuple, Optional, Tuple

from .classes import ModuleKind, Spent, Variant
from .clock import between_ns, is_past

NOTED, OPEN, CLOSE, BACKWARD, REACHED, BACKWARD_END = range(6)


class Call:
    """One call of a module: of what, within which, and (once it has ended) how it looked.

    Attributes:
        kind: The module's class.
        module: The module's ``id``: a call outlives its module in the hooks of autograd's nodes.
        classes: The classes of the calls it is within, and its own, once each.
        folded: Whose work it is where torch's own modules are part of what calls them.
        variant: What it looked like.
    """

    __slots__ = ("classes", "folded", "kind", "module", "variant")

    def __init__(self, kind: ModuleKind, parent: Optional[Call], module: int) -> None:
        self.kind = kind
        self.module = module
        self.variant: Optional[Variant] = None
        above: Tuple[ModuleKind, ...] = parent.classes if parent else ()
        self.classes: Tuple[ModuleKind, ...] = above if kind in above else (*above, kind)
        self.folded: ModuleKind = parent.folded if kind.from_torch and parent else kind


class Mark(NamedTuple):
    """One entry: what happened to which call, and when: the hook's own begin and end by the host's clock, and an event."""

    what: int
    call: Optional[Call]
    event: Any
    begun: int
    done: int


class Owner(NamedTuple):
    """Who is at work: a call, forward or backward; or with no call, autograd itself or nothing of the modules."""

    call: Optional[Call]
    backward: bool


OUTSIDE = Owner(None, False)


class Timeline:
    """The marks of one thread, shared out in the order they came.

    Attributes:
        outside: Time of recorded windows outside all modules and the backward pass.
        backward: Time of the whole backward pass, also where no module's part in it can be told.
    """

    def __init__(self, take_back: Callable[[Any], None]) -> None:
        self.outside, self.backward, self.modules = Spent(), Spent(), Spent()
        self._take_back = take_back
        self._before: Optional[Mark] = None
        self._owners: List[Owner] = [OUTSIDE]
        self._open: List[Tuple[Call, float, float]] = []
        self._device = 0.0
        self._host = 0.0

    def share_out(self, marks: List[Mark]) -> None:
        """Give the time between these marks, which are all past, to those who were at work."""
        for mark in marks:
            if self._before is not None:
                self._spend(self._before, mark)
                self._take_back(self._before.event)
            self._take(mark)
            self._before = mark

    def ready(self, marks: List[Mark]) -> bool:
        """Tell whether the device has come by all of these marks; they may lie on several streams."""
        return all(is_past(mark.event) for mark in reversed(marks))

    def forget(self) -> None:
        """Forget the times so far, which were those of the warm-up."""
        for spent in (self.outside, self.backward, self.modules):
            spent.forget()

    def end_window(self) -> None:
        """Begin anew: what comes next does not follow on what came last."""
        if self._before is not None:
            self._take_back(self._before.event)
        self._before = None
        self._owners, self._open = [OUTSIDE], []

    def _spend(self, earlier: Mark, later: Mark) -> None:
        host = float(later.begun - earlier.done)
        on_device = between_ns(earlier.event, later.event)
        device = host if on_device is None else on_device
        call, backward = self._owners[-1]
        self._device += device
        self._host += host
        if backward:
            self.backward.add(device, host)
        elif call is not None:
            self.modules.add(device, host)
        else:
            self.outside.add(device, host)
        if call is None:
            return
        (call.kind.backward_own if backward else call.kind.own).add(device, host)
        (call.folded.backward_mine if backward else call.folded.mine).add(device, host)
        for kind in call.classes:
            (kind.backward_total if backward else kind.total).add(device, host)

    def _take(self, mark: Mark) -> None:
        call = mark.call
        if mark.what == OPEN and call is not None:
            self._owners.append(Owner(call, False))
            self._open.append((call, self._device, self._host))
        elif mark.what == CLOSE and call is not None:
            self._close(call)
        elif mark.what == BACKWARD:
            self._owners.append(Owner(None, True))
        elif mark.what == REACHED and self._owners[-1].backward:
            self._owners[-1] = Owner(call, True)
        elif mark.what == BACKWARD_END and len(self._owners) > 1:
            self._owners.pop()

    def _close(self, call: Call) -> None:
        while self._open:
            found, device, host = self._open.pop()
            if len(self._owners) > 1:
                self._owners.pop()
            if found is call:
                call.kind.calls += 1
                if call.variant is not None:
                    call.variant.calls += 1
                    call.variant.spent.add(self._device - device, self._host - host)
                return

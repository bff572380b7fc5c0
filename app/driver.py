"""Textual's terminal driver, with one correction."""

from __future__ import annotations

from types import FrameType

from textual.drivers.linux_driver import LinuxDriver


class TerminalDriver(LinuxDriver):
    """Takes up the terminal again when it is woken only if it had left it to sleep.

    A terminal that is closed wakes whatever runs in it while telling it to end; taken for a return, that starts another thread
    that reads from the terminal that is gone, without end.
    """

    def _sigcont_application(self, *_: int | FrameType | None) -> None:
        if self._must_signal_resume:
            super()._sigcont_application()

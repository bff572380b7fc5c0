"""Keeps captures of the classes that took the most time; what goes wrong with them does not end the recording."""

from __future__ import annotations

import os
import traceback
from pathlib import Path
from typing import Any, Dict, Iterable, Optional

from torch import distributed, nn

from .capture import Capture
from .classes import ModuleKind
from .constructors import note_constructors

BUDGET_VARIABLE = "WARPSMITH_CAPTURE"
WEIGHTS_VARIABLE = "WARPSMITH_CAPTURE_WEIGHTS"
FOLDER = "captures"
_MOST_CLASSES = 12


class Captures:
    """Looks at calls in the windows that are meant for it, and writes what it kept once the recording is over.

    Args:
        folder: The recording's folder.

    Attributes:
        written: The folder of each class's capture, by ``module:Class``.
        fault: Why capturing was given up.
    """

    def __init__(self, folder: Path) -> None:
        self.written: Dict[str, str] = {}
        self.fault = ""
        self._folder = folder / FOLDER
        budget = int(os.environ.get(BUDGET_VARIABLE) or 0)
        weights = bool(os.environ.get(WEIGHTS_VARIABLE))
        self._capture: Optional[Capture] = Capture(self._folder, None, budget, weights) if budget else None

    @property
    def wanted(self) -> bool:
        """Whether calls are to be looked at."""
        return self._capture is not None

    def begin(self) -> None:
        """Note from now on what modules are constructed with."""
        if self._capture is not None:
            note_constructors()

    def before(self, module: nn.Module, args: Any) -> None:
        """Look at a call that is about to be made."""
        if self._capture is None:
            return
        try:
            self._capture.before(module, args)
        except Exception:  # the boundary of capturing: the recording goes on
            self._give_up()

    def after(self, module: nn.Module, output: Any) -> None:
        """Look at what a call returned."""
        if self._capture is None:
            return
        try:
            self._capture.after(module, output)
        except Exception:  # as above
            self._give_up()

    def finish(self, kinds: Iterable[ModuleKind]) -> None:
        """Write the captures of the classes that took the most time; in a distributed run the first rank does."""
        if self._capture is None or rank() not in (None, 0):
            return
        usable = sorted((kind for kind in kinds if not kind.from_torch), key=lambda kind: kind.weight, reverse=True)
        try:
            written = self._capture.finish([kind.key for kind in usable[:_MOST_CLASSES]])
        except Exception:  # as above
            self._give_up()
            return
        self.written = {key: path.name for key, path in written.items()}
        self._capture = None

    def _give_up(self) -> None:
        self._capture = None
        self.fault = traceback.format_exc()


def rank() -> Optional[int]:
    """Return this process's rank in a distributed run, None in any other."""
    if distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    told = os.environ.get("RANK", "")
    return int(told) if told.isdecimal() else None

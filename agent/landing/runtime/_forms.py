"""The forms in which a landed class was verified: a call that is like one of them runs the kernels."""

from __future__ import annotations

from typing import Any

from torch import nn

from ._contract import Contract


class Forms:
    """What calls of a landed class may be like for its kernels to run.

    Args:
        record: What was verified of the form that most data went through; ``forms`` holds the same of the others.
        cls: The landed class, its constructor and forward not yet wrapped.
    """

    def __init__(self, record: dict[str, Any], cls: type[nn.Module]) -> None:
        self._first = Contract(record, cls)
        self._others = [Contract(each, cls) for each in record.get("forms", ())]

    def differs(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """Return why a call is not of a form that was verified, or an empty text."""
        reason = self._first.differs(module, args, kwargs)
        if not reason or not self._others:
            return reason
        for form in self._others:
            if not form.differs(module, args, kwargs):
                return ""
        return f"{reason}, and it is of no other form that was verified"

    def built(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """Return how the constructor's arguments differ from those verified, or an empty text."""
        return self._first.built(module, args, kwargs)

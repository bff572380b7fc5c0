"""The forms in which a landed class was verified: a call that is like one of them runs the kernels."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from ._contract import Contract


class Forms:
    """What calls of a landed class may be like for its kernels to run.

    Args:
        record: What was verified of the form that most data went through; ``forms`` holds the same of the others. ``tf32``
            is where TF32 has to be allowed: ``matmul``, ``cudnn`` or, if empty, nowhere.
        cls: The landed class, its constructor and forward not yet wrapped.

    Attributes:
        tf32: As in the record.
        held: Of all forms, see ``Contract``.
    """

    def __init__(self, record: dict[str, Any], cls: type[nn.Module]) -> None:
        self.tf32: str = record.get("tf32", "")
        self._first = Contract(record, cls)
        self._others = [Contract(each, cls) for each in record.get("forms", ())]
        self.held = list(dict.fromkeys(each for form in (self._first, *self._others) for each in form.held))

    def differs(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """Return why a call is not of a form that was verified, or an empty text."""
        if self.tf32 and not allows_tf32(self.tf32):
            return f"TF32 is not allowed (torch.backends.{_OWNERS[self.tf32]}), and it was verified with it"
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


_OWNERS = {"matmul": "cuda.matmul", "cudnn": "cudnn"}


def allows_tf32(where: str) -> bool:
    """Whether torch may use TF32 in ``matmul`` or ``cudnn`` now, by whichever interface the program has set it."""
    backends: Any = torch.backends
    owner = backends.cuda.matmul if where == "matmul" else backends.cudnn
    try:
        return bool(owner.allow_tf32)
    except RuntimeError:  # the program has used the newer interface, and torch refuses to mix the two
        newer = owner if where == "matmul" else owner.conv
        return bool(newer.fp32_precision == "tf32")


# As for what is marked so in ``_runtime``; torch.compile guards its graphs on these flags by itself.
vars(allows_tf32)["_dynamo_marked_constant"] = True

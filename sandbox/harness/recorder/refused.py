"""What no task can be made of, with the reason and what to do instead."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Dict, List, Tuple

import torch
from torch import nn

from .shared import values

_PLAIN_TENSORS = tuple(filter(None, (torch.Tensor, nn.Parameter, getattr(nn, "Buffer", None))))


class Refused(Exception):
    """A module cannot become a task: ``reason``, and ``next_step`` to take."""

    def __init__(self, reason: str, next_step: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.next_step = next_step


def place_of(cls: type) -> Dict[str, str]:
    """Return where a class is defined, and the script that runs: ``module``, ``class``, ``file``, ``main``."""
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    return {
        "module": cls.__module__,
        "class": cls.__qualname__,
        "file": str(Path(file).resolve()) if file else "",
        "main": str(Path(main).resolve()) if main else "",
    }


def require_class(cls: type) -> None:
    """Raise Refused for a class that no file of the developer's defines at its top level."""
    file = place_of(cls)["file"]
    if issubclass(cls, (torch.jit.ScriptModule, torch.fx.GraphModule)):
        raise Refused(
            "Its code was generated, and no source file has it.", "Record the run without scripting or tracing."
        )
    if cls.__module__.partition(".")[0] == "torch":
        raise Refused("It is torch's own.", "Capture the class of yours that uses it.")
    if "." in cls.__qualname__:
        raise Refused(
            f"{cls.__qualname__} is defined inside a function or another class.",
            "Move the class to the top level of its file.",
        )
    if not file.endswith(".py"):
        raise Refused(f"No source file defines it ({file or 'it was typed in'}).", "Move the class to a .py file.")


def flattened(args: Tuple[Any, ...], kwargs: Dict[str, Any], names: List[str]) -> Tuple[List[torch.Tensor], Any]:
    """Flatten the arguments of a forward; raises Refused for what cannot be passed on to another process.

    Args:
        args: By position.
        kwargs: By name.
        names: Of the forward's positional parameters.
    """
    try:
        return values.flatten((args, kwargs))
    except values.Unsupported:
        by_position = [(names[i] if i < len(names) else f"args[{i}]", each) for i, each in enumerate(args)]
        for name, each in [*by_position, *kwargs.items()]:
            try:
                values.flatten(each)
            except values.Unsupported as error:
                raise Refused(
                    f"Its argument {name} is {error}, which cannot be passed on to another process.",
                    f"Run it without {name}, or capture a part of it that is called with tensors and plain values.",
                ) from error
        raise


def require_plain(name: str, tensor: torch.Tensor) -> None:
    """Raise Refused for a tensor that is more, or less, than numbers in memory."""
    if type(tensor) not in _PLAIN_TENSORS:
        raise Refused(
            f"Its argument {name} is a {type(tensor).__module__}.{type(tensor).__qualname__}, a tensor of a class of its own.",
            "Capture a part of it that is called with plain tensors.",
        )
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_nested or tensor.is_meta:
        odd = [("quantised", tensor.is_quantized), ("nested", tensor.is_nested), ("meta", tensor.is_meta)]
        kind = next((word for word, holds in odd if holds), str(tensor.layout).partition(".")[2])
        raise Refused(
            f"Its argument {name} is a {kind} tensor, and not dense numbers in memory.",
            "Capture a part of it that is called with dense tensors.",
        )


def require_comparable(output: Any) -> List[torch.Tensor]:
    """Return the tensors that a forward returned; raises Refused for what cannot be compared."""
    advice = "Capture a part of it whose forward returns tensors, or tuples, lists and dicts of them."
    try:
        tensors, _ = values.flatten(output)
    except values.Unsupported as error:
        raise Refused(f"Its forward returns {error}, which cannot be compared.", advice) from error
    if not tensors:
        raise Refused("Its forward returns no tensor.", advice)
    return tensors

"""Notes what every module of a process is constructed with, beside the module: copying and pickling never see it."""

from __future__ import annotations

import copyreg
import sys
import weakref
from dataclasses import dataclass
from types import FrameType
from typing import Any, Callable, Dict, Optional, Tuple, Type

from torch import nn

Arguments = Tuple[Tuple[Any, ...], Dict[str, Any]]

_NEW_OBJECTS = (
    copyreg.__newobj__.__code__,  # type: ignore[attr-defined]
    copyreg.__newobj_ex__.__code__,  # type: ignore[attr-defined]
)


@dataclass(frozen=True)
class _Note:
    """Arguments, the module they belong to, and whether they are those of the module that it was copied from."""

    owner: weakref.ref[nn.Module]
    arguments: Arguments
    copied: bool


_notes: Dict[int, _Note] = {}


def note_constructors() -> None:
    """Note the arguments of every module that is made from now on, also of classes that nobody named.

    It stays for as long as the process: a class that once had a ``__new__`` of its own does not do well without it.
    """
    if nn.Module.__new__ is not object.__new__:
        return
    put_back: Callable[[nn.Module, Any], None] = nn.Module.__setstate__

    def __setstate__(self: nn.Module, state: Any) -> None:  # noqa: N807  # it takes the place of that method
        put_back(self, state)
        found = _notes.get(id(self))
        if found is not None and not found.copied:  # unpickled: nothing was constructed
            del _notes[id(self)]

    nn.Module.__new__ = staticmethod(_new)  # type: ignore[assignment, method-assign]
    nn.Module.__setstate__ = __setstate__  # type: ignore[method-assign]


def note(module: nn.Module, args: Tuple[Any, ...], kwargs: Dict[str, Any], copied: bool = False) -> None:
    """Note what a module is constructed with, for as long as it lives."""
    number = id(module)
    owner = weakref.ref(module, lambda _: _notes.pop(number, None))
    _notes[number] = _Note(owner, (args, kwargs), copied)


def arguments_of(module: nn.Module) -> Optional[Arguments]:
    """Return what a module, or the one that it was copied from, was constructed with; None where nobody saw that."""
    found = _notes.get(id(module))
    return found.arguments if found is not None and found.owner() is module else None


def _new(cls: Type[nn.Module], *args: Any, **kwargs: Any) -> Any:
    """Make a module, as ``object.__new__`` or the next class in line would."""
    following: Any = super(nn.Module, cls).__new__
    made = following(cls) if following is object.__new__ else following(cls, *args, **kwargs)
    caller = sys._getframe(1)
    if caller.f_code in _NEW_OBJECTS:
        known = _source_of(caller.f_back)
        if known is not None:
            note(made, *known, copied=True)
    elif caller.f_globals.get("__name__") != "torch.nn.modules.module":  # where data parallelism makes its replicas
        note(made, args, kwargs)
    return made


def _source_of(frame: Optional[FrameType]) -> Optional[Arguments]:
    """Return the arguments of what ``copy`` is copying: its frame holds it as ``x``."""
    if frame is None or frame.f_globals.get("__name__") != "copy":
        return None
    source = frame.f_locals.get("x")
    return arguments_of(source) if isinstance(source, nn.Module) else None

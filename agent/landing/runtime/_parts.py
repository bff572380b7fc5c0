"""What a module is made of beside its tensors: its parts, their hooks, and the plain values that its forward may look at."""

from __future__ import annotations

import dis
import functools
import operator
import types
from collections.abc import Callable
from typing import Any

from torch import nn

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_PLAIN = (bool, int, float, str, type(None))
_OF_EVERY_MODULE = frozenset(vars(nn.Module()))


def parts(module: Any, prefix: str = "") -> tuple[tuple[str, str], ...]:
    """Return path and class of each part of a module; one that has hooks, or a forward of its own, has no class."""
    found: tuple[tuple[str, str], ...] = ()
    for name, part in module._modules.items():
        if part is not None:
            kind = "" if _is_hooked(part) else f"{type(part).__module__}.{type(part).__qualname__}"
            found += ((prefix + name, kind), *parts(part, f"{prefix}{name}."))
    return found


def settings(module: nn.Module) -> tuple[tuple[tuple[str, ...], str, Any], ...]:
    """Return the plain attributes of a module and its parts that only constructors set: path of the part, name, value."""
    return tuple(
        (tuple(path.split(".")) if path else (), name, vars(part)[name])
        for path, part in module.named_modules()
        for name in setting_names(part)
    )


def changed_setting(module: Any) -> str:
    """Return how a module's plain attributes differ from what they were when it was constructed, or an empty text."""
    for path, name, value in module._landed_settings:
        part = module
        for each in path:
            part = part._modules[each]
        found = getattr(part, name, Ellipsis)
        if not (type(found) is type(value) and found == value):
            return f"its {'.'.join((*path, name))} was changed"
    return ""


def other_attribute(module: Any, verified: list[tuple[str, tuple[str, ...], Any]]) -> str:
    """Return which attribute is not as in the module that was verified, or an empty text.

    Args:
        module: The landed module.
        verified: Path of the part, name (and those of attributes of what it holds), value; Ellipsis for what was not there.
    """
    for path, names, value in verified:
        name = ".".join((path, *names) if path else names)
        found = attribute(part_at(module, path), names)
        if value is Ellipsis:
            if found is not Ellipsis:
                return f"its {name} is there"
        elif not (isinstance(found, type(value)) and found == value):
            return f"its {name} is not {value!r}"
    return ""


def part_at(module: Any, path: str) -> Any:
    """Return a part of a module, or None where there is none."""
    for name in path.split(".") if path else ():
        module = None if module is None else module._modules.get(name)
    return module


def attribute(part: Any, names: tuple[str, ...]) -> Any:
    """Return an attribute, or one of what it holds in turn; Ellipsis where there is none."""
    for name in names:
        part = getattr(part, name, Ellipsis)
    return part


def other_mode(module: Any, modes: tuple[bool, ...], exceptions: dict[str, bool]) -> str:
    """Return which part is not in a mode that was verified, or an empty text.

    Args:
        module: The landed module.
        modes: Those of the whole that were verified.
        exceptions: Parts that were in another mode than the whole.
    """
    if module.training not in modes:
        return f"it is in {'train' if module.training else 'eval'} mode"
    for name, part in module.named_modules():
        if type(part).train is not nn.Module.train:  # it keeps some of its parts in another mode
            return ""
        if part.training is not (exceptions.get(name, module.training) if name else module.training):
            return f"its {name} is in {'train' if part.training else 'eval'} mode"
    return ""


def setting_names(part: nn.Module) -> list[str]:
    """Return the names of a module's plain attributes that no method but a constructor sets."""
    cls: Any = type(part)
    assigned = _assigned(cls)
    return [
        name
        for name, value in vars(part).items()
        if _is_plain(value) and name not in assigned and name not in _OF_EVERY_MODULE and name[:8] != "_landed_"
    ]


def settings_getter(part: nn.Module) -> Callable[[Any], Any]:
    """Return what takes a module's mode and plain attributes out of its dictionary, in a form to be compared."""
    return operator.itemgetter("training", *setting_names(part))


@functools.lru_cache(maxsize=None)
def _assigned(cls: type[Any]) -> frozenset[str]:
    """Return the attributes that methods of a class assign to anything, its constructors aside."""
    methods = [
        member
        for base in cls.__mro__
        if base not in nn.Module.__mro__
        for name, member in vars(base).items()
        if isinstance(member, types.FunctionType) and name not in ("__init__", "__post_init__")
    ]
    codes = [getattr(method, "__wrapped__", method).__code__ for method in methods]
    return frozenset(
        step.argval for code in codes for step in dis.get_instructions(code) if step.opname == "STORE_ATTR"
    )


def _is_plain(value: Any) -> bool:
    return type(value) in _PLAIN or (type(value) is tuple and all(type(each) in _PLAIN for each in value))


def _is_hooked(part: Any) -> bool:
    return "forward" in part.__dict__ or bool(
        part._forward_hooks or part._forward_pre_hooks or part._backward_hooks or part._backward_pre_hooks
    )

"""Calls that were found to be of the kind that was verified, kept in a form that the next call is compared with quickly.

Most of it is one call of what torch.compile guards its own graphs with: it compares the types of tensors, their dtypes,
devices, shapes and strides, whether they require gradients, and the dispatch keys in force, which differ under autocast,
inference mode, vmap and the like. What it says no to is examined again, so it only saves time.
"""

from __future__ import annotations

import copy
import functools
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.autograd import forward_ad

from ._parts import HOOKS, attribute, part_at, setting_names, settings_getter

ALIGNMENT = 16
is_traced_early: Callable[[], bool] = functools.partial(
    torch._C._dispatch_tls_is_dispatch_key_included, torch._C.DispatchKey.PreDispatch
)
"""Whether a tracer looks on before anything else does; the guards do not see that."""
_MOST = 8
_OWN = object()
"""Stands for the module itself among its parts."""
_modes: Callable[[], int] = torch._C._len_torch_dispatch_stack
_TensorGuards: Any = torch._C._dynamo.guards.TensorGuards
_address: Callable[[torch.Tensor], int] = torch.Tensor.data_ptr
Check = Callable[[Any], bool]
Held = list[tuple[str, tuple[str, ...]]]


class KnownCalls:
    """The calls of one module that were found to fit. Copies and pickles of the module begin without any.

    Args:
        held: Path and names of the attributes that have to be as they were verified.
    """

    def __init__(self, held: Held) -> None:
        self._held = held
        self._calls: list[_Known] = []

    def hold(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether a call is like one of them; no means that it has to be examined."""
        for position, known in enumerate(self._calls):
            if known.holds(module, args, kwargs):
                if position:
                    self._calls.insert(0, self._calls.pop(position))
                return True
        return False

    def add(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Keep a call that was examined; does not, and returns False, under a mode, which looks on."""
        if _modes():
            return False
        self._calls.insert(0, _Known(module, args, kwargs, self._held))
        del self._calls[_MOST:]
        return True

    def __deepcopy__(self, memo: dict[int, Any]) -> KnownCalls:
        return KnownCalls(self._held)

    def __copy__(self) -> KnownCalls:
        return KnownCalls(self._held)

    def __reduce__(self) -> tuple[Any, ...]:
        return list, ()  # so that a pickled module needs nothing of this folder


def _is_watched() -> bool:
    return forward_ad._current_level >= 0 or _modes() > 0 or is_traced_early()


class _Known:
    """One call. It refers to the module's parts and dictionaries, and not to the module, so that it makes no cycle."""

    def __init__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], held: Held) -> None:
        modules = list(module.modules())
        self._stores = [store for each in modules for store in (each._parameters, each._buffers)]
        self._entries = sum(map(len, self._stores))
        self._own = module._parameters
        self._tensors: list[tuple[dict[str, Any], str]] = []
        self._tied: list[tuple[dict[str, Any], str, int]] = []
        self._absent: list[tuple[dict[str, Any], str]] = []
        self._fit = self._sort_tensors()
        self._holders = [each._modules for each in modules if each._modules]
        self._parts = [list(holder.values()) for holder in self._holders]
        self._below = modules[1:]
        self._classes = [type(each) for each in self._below]
        self._hooks = tuple(getattr(each, name) for each in self._below for name in HOOKS)
        self._settings = [(vars(each), settings_getter(each)) for each in self._below]
        self._wanted = [getter(holder) for holder, getter in self._settings]
        self._own_getter = settings_getter(module)
        self._own_settings = self._own_getter(vars(module))
        found = [(part_at(module, path), names) for path, names in held]
        self._held = [
            (_OWN if part is module else part, names) for part, names in found if not _is_compared(part, names)
        ]
        self._held_values = [_kept(attribute(module if part is _OWN else part, names)) for part, names in self._held]
        self._grad = torch.is_grad_enabled()
        self._names = tuple(kwargs)
        self._checks = [check_of(value) for value in (*args, *kwargs.values())]

    def holds(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether a call is like this one."""
        if len(args) + len(kwargs) != len(self._checks) or tuple(kwargs) != self._names:
            return False
        for value, check in zip((*args, *kwargs.values()) if kwargs else args, self._checks):
            if not check(value):
                return False
        if torch.is_grad_enabled() is not self._grad or _is_watched():
            return False
        try:
            return self._same_state(module) and self._same_parts(module)
        except (KeyError, RuntimeError, ValueError):  # something is gone, or cannot be compared
            return False

    def _sort_tensors(self) -> Check | None:
        found: list[torch.Tensor] = []
        for store in self._stores:
            for name, tensor in store.items():
                position = next((n for n, each in enumerate(found) if each is tensor), None)
                if tensor is None:
                    self._absent.append((store, name))
                elif position is not None:
                    self._tied.append((store, name, position))
                else:
                    self._tensors.append((store, name))
                    found.append(tensor)
        return guard_of(found) if found else None

    def _same_state(self, module: nn.Module) -> bool:
        if module._parameters is not self._own or sum(map(len, self._stores)) != self._entries:
            return False
        tensors = [store[name] for store, name in self._tensors]
        for store, name in self._absent:
            if store[name] is not None:
                return False
        for store, name, position in self._tied:
            if store[name] is not tensors[position]:
                return False
        if self._fit is None:
            return True
        return self._fit(*tensors) and not functools.reduce(operator.or_, map(_address, tensors)) % ALIGNMENT

    def _same_parts(self, module: nn.Module) -> bool:
        if self._own_getter(vars(module)) != self._own_settings:
            return False
        for (part, names), value in zip(self._held, self._held_values):
            if attribute(module if part is _OWN else part, names) != value:
                return False
        if not self._below:
            return True
        for holder, parts in zip(self._holders, self._parts):
            if [*holder.values()] != parts:
                return False
        if any(self._hooks) or [*map(type, self._below)] != self._classes:
            return False
        for (holder, getter), wanted in zip(self._settings, self._wanted):
            if getter(holder) != wanted or "forward" in holder:
                return False
        return True


def _is_compared(part: Any, names: tuple[str, ...]) -> bool:
    """Whether an attribute of a part is compared at each call as one of its settings, or as its class."""
    return names[0] == "__class__" or (part is not None and len(names) == 1 and names[0] in setting_names(part))


def _kept(value: Any) -> Any:
    """Return a value as it will still be when it was changed in place."""
    return copy.deepcopy(value) if type(value) in (list, dict) else value


def guard_of(tensors: list[torch.Tensor]) -> Callable[..., bool]:
    """Return what tells whether tensors are as these, in all but contents and place; they must be distinct."""
    sizes, strides = [list(each.shape) for each in tensors], [list(each.stride()) for each in tensors]
    check: Callable[..., bool] = _TensorGuards(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides).check
    return check


def check_of(value: Any) -> Check:
    """Return what tells whether an argument is as this one: a tensor's kind, a container's elements, a plain value."""
    if isinstance(value, torch.Tensor):
        fits = guard_of([value])
        return lambda found: fits(found) and not found.data_ptr() % ALIGNMENT
    if isinstance(value, (tuple, list)):
        return _elements_check(type(value), [check_of(each) for each in value])
    if isinstance(value, dict):
        kind, names = type(value), list(value)
        elements = _elements_check(list, [check_of(each) for each in value.values()])
        return lambda found: type(found) is kind and list(found) == names and elements(list(found.values()))
    if value is None:
        return functools.partial(operator.is_, None)
    return lambda found: type(found) is type(value) and bool(found == value)


def _elements_check(kind: type[Any], checks: list[Check]) -> Check:
    def check(found: Any) -> bool:
        if type(found) is not kind:
            return False
        elements = list(found)
        return len(elements) == len(checks) and all(each(value) for each, value in zip(checks, elements))

    return check

"""The hooks themselves: plain functions that do nothing inside code that is being compiled, so that no graph breaks."""

from __future__ import annotations

import functools
import inspect
import sys
import warnings
from typing import TYPE_CHECKING, Any, Dict, List

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook

from .capture import kwargs_of

if TYPE_CHECKING:
    from .recorder import Recorder

_C: Any = torch._C
_recorders: List[Recorder] = []
_handles: List[Any] = []


def attach(recorder: Recorder) -> None:
    """Let a recorder know of module calls, optimizer steps and backward passes of this process."""
    _recorders.append(recorder)
    hook_modules()
    register_optimizer_step_post_hook(_stepped)
    torch.autograd.backward = _recorded_backward(torch.autograd.backward)
    nn.Module.compile = _recorded_compile(nn.Module.compile)  # type: ignore[method-assign]
    warnings.filterwarnings("ignore", message="Using `torch.compile.*` when there are global hooks")


def hook_modules() -> None:
    """Let the recorder know of module calls, unless it does already."""
    if not _handles:
        _handles.append(register_module_forward_pre_hook(_before))
        if "with_kwargs" in inspect.signature(register_module_forward_hook).parameters:
            _handles.append(register_module_forward_hook(_after, with_kwargs=True, always_call=True))
        else:  # torch tells a global hook of keyword arguments only from some version on
            _handles.append(register_module_forward_hook(_after_positional, always_call=True))


def leave_modules() -> bool:
    """Take the hooks off module calls, so that these are as fast as ever; tell whether that could be.

    Compiled code is guarded on how many global hooks there are, and would be compiled again: then they stay.
    """
    dynamo = sys.modules.get("torch._dynamo.utils")
    if dynamo is not None and dynamo.counters["frames"]["total"]:
        return False
    while _handles:
        _handles.pop().remove()
    return True


def _tries_out() -> bool:
    """Tell whether a compiler only tries the module out, on tensors without data, or a tracer looks on."""
    return _C._get_tracing_state() is not None or _C._get_dispatch_mode(_C._TorchDispatchModeKey.FAKE) is not None


def _before(module: nn.Module, args: Any) -> None:
    if torch.compiler.is_compiling() or _tries_out():
        return
    _recorders[0].before(module, args)


def _after(module: nn.Module, args: Any, kwargs: Dict[str, Any], output: Any) -> None:
    if torch.compiler.is_compiling() or _tries_out():
        return
    _recorders[0].after(module, args, kwargs, output)


def _after_positional(module: nn.Module, args: Any, output: Any) -> None:
    if torch.compiler.is_compiling() or _tries_out():
        return
    _recorders[0].after(module, args, kwargs_of(module), output)


def _stepped(optimizer: Any, args: Any, kwargs: Dict[str, Any]) -> None:  # noqa: ARG001 - the hook's signature
    if torch.compiler.is_compiling():
        return
    _recorders[0].stepped(optimizer)


def _recorded_backward(backward: Any) -> Any:
    @functools.wraps(backward)
    def recorded(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return backward(tensors, *args, **kwargs)
        _recorders[0].backward_begins(tensors)
        try:
            return backward(tensors, *args, **kwargs)
        finally:
            _recorders[0].backward_ends()

    return recorded


def _recorded_compile(compile_module: Any) -> Any:
    """Let a module that compiled itself be recorded as a whole: its hooks are part of what was compiled."""

    @functools.wraps(compile_module)
    def recorded(self: nn.Module, *args: Any, **kwargs: Any) -> None:
        compile_module(self, *args, **kwargs)
        compiled: Any = self._compiled_call_impl

        def call(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling():
                return compiled(*args, **kwargs)
            output = None
            _recorders[0].before(self, args)
            try:
                output = compiled(*args, **kwargs)
            finally:
                _recorders[0].after(self, args, kwargs, output)
            return output

        self._compiled_call_impl = call

    return recorded

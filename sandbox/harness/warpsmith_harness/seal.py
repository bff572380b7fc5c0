"""Tells whether the judge's code in a worker is still what it was before the candidate was loaded.

The candidate shares the worker's process, so whatever it replaces there works for it: what counts operators, reads a
clock, or sends an answer. Every function of the harness is sealed, with its code, and those of Python and torch that
it leans on; nothing may be added to the harness's modules either. This finds what a program replaces from Python, or by
writing over Python's objects. A candidate that looks for the seal itself, or patches machine code, can silence it, and
with it every finding of ``watch`` and ``trace``; see there what still holds.
"""

from __future__ import annotations

import builtins
import ctypes
import gc
import json
import os
import select
import socket
import sys
import time
import zlib
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Callable, Dict, List, Mapping, Set, Tuple

import torch
from torch.utils import _python_dispatch

from warpsmith_harness.protocol import TAMPERED

_HARNESS = "warpsmith_harness."
_OFTEN_REPLACED = frozenset(("__import__", "__build_class__", "print", "input", "open", "help", "_"))
_LEANT_ON: Tuple[Tuple[Any, str], ...] = (
    (time, "perf_counter perf_counter_ns monotonic time time_ns"),
    (json, "dumps loads"),
    (json.JSONEncoder, "encode iterencode default"),
    (json.JSONDecoder, "decode raw_decode"),
    (os, "read write close dup2 _exit"),
    (select, "select"),
    (socket, "socket send_fds recv_fds"),
    (socket.socket, "send sendall sendmsg recv recvmsg close fileno"),
    (gc, "disable enable collect"),
    (zlib, "crc32"),
    (ctypes, "memmove memset CDLL"),
    (torch, "empty empty_strided equal zeros sum no_grad frombuffer isfinite set_num_threads get_num_threads"),
    (torch.Tensor, "clone copy_ detach data_ptr numel element_size contiguous resolve_conj resolve_neg stride"),
    (torch.cuda, "synchronize Event Stream current_stream stream set_device"),
    (torch.cuda.Event, "record synchronize query elapsed_time wait"),
    (torch.cuda.Stream, "synchronize query wait_stream wait_event record_event"),
    (_python_dispatch, "TorchDispatchMode _push_mode _pop_mode"),
    (_python_dispatch.TorchDispatchMode, "__enter__ __exit__"),
)


def seal() -> Callable[[], None]:
    """Return a function that ends this process, with the names of what was replaced, where anything was.

    It keeps all that it needs in itself: its caller holds it in a local variable, where no name leads to it.
    """
    named = [(key, owner, name, owner[name]) for key, (owner, name) in _named().items()]
    functions = {id(value): (key, _function(value)) for key, _, _, value in named if _function(value) is not None}
    inside = [(key, each, each.__code__, each.__code__.co_code, each.__defaults__) for key, each in functions.values()]
    leant = [(owner, name, getattr(owner, name)) for owner, words in _LEANT_ON for name in words.split()]
    held = [(module, _public(module)) for module in _own_modules()]
    write, leave, called, public = os.write, os._exit, _called, _public

    def check() -> None:
        broken = [key for key, owner, name, value in named if owner.get(name) is not value]
        broken += [f"{called(module)}.{name}" for module, names in held for name in sorted(public(module) - names)]
        broken += [
            key
            for key, each, code, instructions, defaults in inside
            if each.__code__ is not code or code.co_code != instructions or each.__defaults__ is not defaults
        ]
        broken += [f"{called(owner)}.{name}" for owner, name, value in leant if getattr(owner, name, None) is not value]
        if broken:
            write(2, f"\nreplaced by the candidate: {', '.join(broken[:8])}\n".encode())
            leave(TAMPERED)

    return check


def _named() -> Dict[str, Tuple[Mapping[str, Any], str]]:
    """Return everything that is sealed: where it is kept, and under which name."""
    found: Dict[str, Tuple[Mapping[str, Any], str]] = {}
    for module in _own_modules():
        for name in sorted(_public(module)):
            value = vars(module)[name]
            found[f"{_called(module)}.{name}"] = (vars(module), name)
            if isinstance(value, type) and value.__module__ == module.__name__:
                found.update({f"{value.__name__}.{own}": (vars(value), own) for own in _functions(value)})
    kept = [name for name in vars(builtins) if name not in _OFTEN_REPLACED and callable(getattr(builtins, name))]
    found.update({f"builtins.{name}": (vars(builtins), name) for name in kept})
    return found


def _own_modules() -> List[ModuleType]:
    """Return the harness's modules, and the program that started them: whoever looks for a judge's helpers looks there."""
    return [module for name, module in sys.modules.items() if name.startswith(_HARNESS) or name == "__main__"]


def _public(module: ModuleType) -> Set[str]:
    """Return the names in a module but those that Python keeps there for itself."""
    return {name for name in vars(module) if not name.startswith("__")}


def _functions(owner: type) -> List[str]:
    kinds = (FunctionType, BuiltinFunctionType, property, staticmethod, classmethod)
    return [name for name, value in vars(owner).items() if isinstance(value, kinds)]


def _function(value: Any) -> Any:
    """Return the function behind a method or a property, or None where there is none written in Python."""
    function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
    return function if isinstance(function, FunctionType) else None


def _called(owner: Any) -> str:
    name = getattr(owner, "__name__", type(owner).__name__)
    return name.rpartition(".")[2] if isinstance(owner, ModuleType) else name

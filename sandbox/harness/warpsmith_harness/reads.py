"""Which attributes of a module, its parts and their configurations the forward of a reference reads.

A landed class need not be held to the value of an attribute that nothing looks at, such as the number of a layer. All else
that differs with such a number has to be noticed: what is read and written as a literal by its value, functions and classes by
their names, parts by their classes. What cannot be told so (a tensor that is no buffer, a lambda) counts as reading everything;
so does what may lead to a branch that was not taken: looking at the numbers of a tensor, or taking ``__dict__``.
"""

from __future__ import annotations

import contextlib
import enum
import sys
import time
import types
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from warpsmith_harness import sizes
from warpsmith_harness.gradients import cotangents, differentiate, leaves, wanted_of
from warpsmith_harness.literals import literal
from warpsmith_harness.load import Arguments, LoadedTask
from warpsmith_harness.problems import TaskProblem, summary
from warpsmith_harness.subject import input_names
from warpsmith_harness.surroundings import surroundings
from warpsmith_harness.values import flatten, rebuild

ABSENT = "..."
"""Stands for the value of an attribute that was asked for and is not there: the literal of Ellipsis."""
NOT_LOOKED_AT: Dict[str, Any] = {"any": "its tensors leave no room to run it in other ways", "seen": {}}
"""What ``attribute_reads`` would return of a task that fills the device."""
CLASS = "__class__.__qualname__"
_RUNS = 2
_SECONDS = 10.0
_DEEPEST = 3
_OF_EVERY_MODULE = frozenset(vars(nn.Module()))
_STORES = ("_parameters", "_buffers", "_modules")
_NAMED = (type, types.FunctionType, types.BuiltinFunctionType)
_OPAQUE = (torch.Tensor, nn.Module, types.ModuleType, types.MethodType)
_LOOKS = {getattr(torch.Tag, name) for name in ("data_dependent_output", "dynamic_output_shape")}
Place = Tuple[str, str]


def attribute_reads(task: LoadedTask) -> Dict[str, Any]:
    """Run a reference as it will be judged, and return what it reads.

    It runs on several inputs of its own, at other sizes along each dimension that is declared as dynamic, in both modes, and
    backward where gradients are wanted.

    Returns:
        ``any``: why every attribute has to be taken for read, or an empty text. ``seen``: by path of the part and name, the
        literal of each value that was read, empty for one that is no literal or did not stay the same. Names have dots where
        they are of an object that the part holds (``config.eps``); ``forward`` is among those of a part that was called.
    """
    watch = _Watch(task.reference())
    try:
        with watch.on(), _eager(watch):
            _run(task, watch)
    except Exception as error:  # whatever the developer's classes make of being watched
        watch.why = f"watching it raises {summary(error)}"
    for path, part in watch.module.named_modules():
        if path:
            watch.seen.setdefault(path, {})[CLASS] = repr(type(part).__qualname__)
    return {"any": watch.why, "seen": watch.seen}


def _run(task: LoadedTask, watch: _Watch) -> None:
    module, until = watch.module, time.monotonic() + _SECONDS
    for _ in range(_RUNS):
        task.forward(module, *task.inputs())
    for args, kwargs in _calls(task, module):
        if time.monotonic() > until:
            watch.why = "it takes long, and was not run at other sizes and in the other mode"
            return
        with _Looks(watch):
            task.forward(module, args, kwargs)
    if task.spec["gradients"]:
        _run_backward(task, watch)
    task.set_mode(module, not task.training)
    args, kwargs = task.inputs()
    with contextlib.suppress(TaskProblem), _Looks(watch):  # if it raises, nothing is verified in that mode
        task.forward(module, args, kwargs)


def _calls(task: LoadedTask, module: nn.Module) -> Iterator[Arguments]:
    """Yield arguments as they are drawn, and at both ends and in the middle of what is declared as dynamic."""
    args, kwargs = task.inputs()
    yield args, kwargs
    tensors, structure = flatten((args, kwargs))
    dynamic = sizes.dynamic_dimensions(task.spec, input_names(module, args, kwargs), tensors)
    if dynamic:
        for place in (0.0, 0.5, 1.0):
            chosen = [each.low + int(place * (each.high - each.low)) for each in dynamic]
            args, kwargs = rebuild(structure, sizes.resized(tensors, dynamic, chosen))
            yield tuple(args), kwargs


def _run_backward(task: LoadedTask, watch: _Watch) -> None:
    tensors, structure = flatten(task.inputs())
    inputs = leaves(tensors)
    args, kwargs = rebuild(structure, inputs)

    def call() -> Any:
        return watch.module(*args, **kwargs)

    with surroundings(task.spec, recording=True):
        directions = cotangents(flatten(call())[0])
        with _Looks(watch):
            differentiate(call, wanted_of(inputs, watch.module), directions)


@contextlib.contextmanager
def _eager(watch: _Watch) -> Iterator[None]:
    """Let what the developer compiles run as it is written: a compiled graph reads nothing."""
    stance: Optional[Callable[[str], Any]] = getattr(torch.compiler, "set_stance", None)
    if stance is None:  # torch before 2.6
        yield
        if "torch._dynamo" in sys.modules:
            watch.why = watch.why or "parts of it may have been compiled"
    else:
        with stance("force_eager"):
            yield


class _Looks(TorchDispatchMode):
    """Notices operations whose result or its shape is made of the numbers of a tensor: a branch may hang on them."""

    def __init__(self, watch: _Watch) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._watch = watch

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if _LOOKS.intersection(getattr(func, "tags", ())):
            self._watch.why = self._watch.why or f"it looks at the numbers of a tensor ({func})"
        return func(*args, **(kwargs or {}))


class _Watch:
    """Notes what is read of a module and all that it holds, while it is on.

    Attributes:
        module: The module.
        why: Why every attribute has to be taken for read.
        seen: As ``attribute_reads`` returns it.
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.why = ""
        self.seen: Dict[str, Dict[str, str]] = {}
        self._places: Dict[int, Set[Place]] = {}
        self._held: List[Any] = []
        self._patched: Dict[Any, Any] = {}
        for path, part in module.named_modules(remove_duplicate=False):
            self._places.setdefault(id(part), set()).add((path, ""))
            kind: Any = type(part)
            if kind.__getattribute__ is not object.__getattribute__ or isinstance(part, torch.jit.ScriptModule):
                self.why = f"{type(part).__name__} has attributes that Python does not look up in the usual way"

    @contextlib.contextmanager
    def on(self) -> Iterator[None]:
        """Have classes tell what is read of their instances; their types stay what they are."""
        self._patch(nn.Module)
        try:
            yield
        finally:
            for cls, own in self._patched.items():
                if own is None:
                    del cls.__getattribute__
                else:
                    cls.__getattribute__ = own

    def _patch(self, cls: Any) -> bool:
        """Watch the instances of a class; false where it does not let itself be changed."""
        if any(base in self._patched for base in cls.__mro__):
            return True
        usual = cls.__getattribute__

        def __getattribute__(owner: Any, name: str) -> Any:  # noqa: N807
            places = self._places.get(id(owner))
            if places is None or name == "__class__":  # which ``isinstance`` asks for
                return usual(owner, name)
            try:
                value = usual(owner, name)
            except AttributeError:
                self._note_absent(owner, places, name)
                raise
            self._note(owner, places, name, value)
            return value

        own = vars(cls).get("__getattribute__")
        try:
            cls.__getattribute__ = __getattribute__
        except TypeError:
            return False
        self._patched[cls] = own
        return True

    def _note(self, owner: Any, places: Set[Place], name: str, value: Any) -> None:
        if name == "__dict__":
            return self._note_all(owner, value)
        if name == "forward" and isinstance(owner, nn.Module):
            return self._write(places, name, "")
        if (isinstance(owner, nn.Module) and name in _OF_EVERY_MODULE) or not _is_own(owner, name):
            return None
        return self._note_value(places, name, value)

    def _note_value(self, places: Set[Place], name: str, value: Any) -> None:
        """Note a value; of an object that is no literal its class, and what is read of it in turn."""
        text = "" if isinstance(value, enum.Enum) else literal(value)
        self._write(places, name, text)
        if text:
            return
        if isinstance(value, enum.Enum):
            self._write(places, f"{name}.name", repr(value.name))
        elif isinstance(value, _NAMED) and "<" not in value.__qualname__:
            self._write(places, f"{name}.__qualname__", repr(value.__qualname__))
        elif isinstance(value, _OPAQUE) or self._is_deep(places) or not self._patch(type(value)):
            self.why = self.why or f"it reads {name}, of which there is no telling whether it is the same"
        else:
            self._write(places, f"{name}.{CLASS}", repr(type(value).__qualname__))
            self._held.append(value)  # so that no other object has its number
            self._places.setdefault(id(value), set()).update((path, f"{prefix}{name}.") for path, prefix in places)

    def _is_deep(self, places: Set[Place]) -> bool:
        return max(prefix.count(".") for _, prefix in places) >= _DEEPEST

    def _note_absent(self, owner: Any, places: Set[Place], name: str) -> None:
        """Note that something was asked for that is not there, such as by ``hasattr``, or a part or tensor that is None."""
        if isinstance(owner, nn.Module):
            for store in _STORES:
                held = object.__getattribute__(owner, store)
                if name in held:
                    return self._write(places, name, "None") if held[name] is None else None
        return None if name[:2] == name[-2:] == "__" else self._write(places, name, ABSENT)

    def _note_all(self, owner: Any, held: Any) -> None:
        """Note that a dictionary of attributes was taken, unless by torch, which looks tensors and parts up in it."""
        caller = str(sys._getframe(3).f_globals.get("__name__", ""))
        if not (isinstance(owner, nn.Module) and caller.startswith("torch.nn.")):
            self.why = self.why or f"it takes the __dict__ of a {type(owner).__name__}, {len(held)} attributes"

    def _write(self, places: Set[Place], name: str, text: str) -> None:
        for path, prefix in places:
            names = self.seen.setdefault(path, {})
            same = names.get(prefix + name, text) == text
            names[prefix + name] = text if same else ""


def _is_own(owner: Any, name: str) -> bool:
    """Whether an attribute is an object's own, and not of its class."""
    try:
        held: Dict[str, Any] = object.__getattribute__(owner, "__dict__")
    except AttributeError:
        held = {}
    return name in held or isinstance(getattr(type(owner), name, None), types.MemberDescriptorType)

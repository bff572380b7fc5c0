"""Loads the developer's module and makes its instances and inputs.

Loading imports the file and runs no tensor operation, so that a process may load a task and fork afterwards. Instances
and inputs are made on demand: instances under a fixed seed (so that a reference and a candidate which draw the same
constants agree), inputs from the operating system's entropy.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import types
from pathlib import Path
from typing import Any, Callable, Dict, Optional, Tuple

import torch
from torch import nn
from torch.nn.parameter import UninitializedParameter

from warpsmith_harness import drawing, precision, values
from warpsmith_harness.arguments import check_arguments
from warpsmith_harness.candidate import copy_state, load_candidate
from warpsmith_harness.captured import Captured
from warpsmith_harness.importing import advice, find_class, import_kernelbench, import_module
from warpsmith_harness.problems import CandidateProblem, TaskProblem, place, summary
from warpsmith_harness.seeds import fixed_seed, fresh_seed
from warpsmith_harness.surroundings import surroundings

__all__ = ["CandidateProblem", "LoadedTask", "TaskProblem", "copy_state", "load_candidate", "load_form", "load_task"]

Arguments = Tuple[Tuple[Any, ...], Dict[str, Any]]


class LoadedTask:
    """A task whose file has been imported.

    Attributes:
        spec: The task's description, ``TaskSpec.to_json()``.
        module: The imported Python module.
        cls: The reference class.
        device: Where instances and inputs live.
        training: Whether instances are in train mode.
        rows: How many rows of the inputs are used, along the first dimension of the first; None for all.
        captured: What was captured in the developer's own run, if the task is made from that.
        as_seen: Whether inputs are drawn like some that were seen, and not made by the developer's code.
    """

    def __init__(self, spec: dict[str, Any], module: types.ModuleType, cls: type[nn.Module]) -> None:
        self.spec = spec
        self.module = module
        self.cls = cls
        self.device = torch.device(spec["device"])
        self.dtype: Optional[torch.dtype] = _dtype(spec["dtype"]) or precision.CAST.get(spec["precision"])
        self.training = bool(spec["training"])
        self._make_on_device = self.device.type != "cpu"
        self.rows: Optional[int] = None
        self.captured = Captured(spec["capture"]) if spec.get("capture") else None
        saved = spec["inputs"].endswith(drawing.SUFFIXES)
        self.as_seen = saved or bool(self.captured and not spec["inputs"] and not spec["factory"])
        self._saved: Optional[Arguments] = None
        self._seen: dict[int, int] = {}

    @property
    def root(self) -> Path:
        """The folder that holds the developer's code."""
        return Path(self.spec["root"])

    def constructor_arguments(self) -> Arguments:
        """Return fresh constructor arguments, tensors on the device. Raises TaskProblem when there are none to be had."""
        if self.spec["init"]:
            arguments = self._evaluate("--init", self.spec["init"])
        elif self.captured is not None:
            arguments = self.captured.constructor_arguments(self.module, self.device)
        elif callable(getattr(self.module, "get_init_inputs", None)):
            arguments = _arguments(self._call("get_init_inputs()", self.module.get_init_inputs))
        else:
            arguments = ((), {})
        args, kwargs = values.map_tensors(arguments, lambda tensor: tensor.detach().to(self.device))
        return args, kwargs

    def reference(self) -> nn.Module:
        """Return a fresh reference on its device, in its dtype and mode. Raises TaskProblem when its constructor does."""
        with fixed_seed(self.device):
            args, kwargs = self.constructor_arguments()
            instance = self._call(f"the constructor of {self.cls.__name__}", lambda: self.cls(*args, **kwargs))
        settled: nn.Module = self._call(f"moving {self.cls.__name__} to {self.device}", lambda: self.settle(instance))
        if any(isinstance(parameter, UninitializedParameter) for parameter in settled.parameters()):
            args, kwargs = self.inputs()
            self.forward(settled, args, kwargs)
        if self.captured is not None:
            self.captured.load_state(settled)
        return settled

    def settle(self, instance: nn.Module) -> nn.Module:
        """Move an instance to the task's device and dtype, and put it in the task's mode."""
        if self.captured is not None:
            self.captured.fit(instance)
        instance = instance.to(self.device)
        if self.dtype is not None:
            instance = instance.to(self.dtype)
        self.set_mode(instance, self.training)
        return instance

    def set_mode(self, instance: nn.Module, training: bool) -> None:
        """Put an instance in train or eval mode; parts that were captured in another mode keep theirs."""
        if self.captured is not None:
            self.captured.set_mode(instance, training)
        else:
            instance.train(training)

    def inputs(self) -> Arguments:
        """Return fresh forward arguments on the device; every tensor of floats differs from the call before."""
        with fresh_seed(self.device):
            arguments = self._make_inputs()
        args, kwargs = values.map_tensors(arguments, self._place_input)
        if self.rows is not None:
            args, kwargs = _first_rows((args, kwargs), self.rows)
        return (args, kwargs) if self.as_seen else self._unseen((args, kwargs))

    def forward(self, reference: nn.Module, args: Tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the reference as its task says. Raises TaskProblem with the developer's line when it raises."""

        def call() -> Any:
            with surroundings(self.spec):
                return reference(*args, **kwargs)

        return self._call(f"the forward of {self.cls.__name__}", call)

    def _make_inputs(self) -> Arguments:
        """Make the inputs on the device itself where their code allows it: large ones take seconds on a CPU."""
        if self._make_on_device:
            try:
                with self.device:
                    return self._describe_inputs()
            except TaskProblem:
                self._make_on_device = False
        return self._describe_inputs()

    def _describe_inputs(self) -> Arguments:
        if self.as_seen:
            return self._like_seen()
        if self.spec["inputs"]:
            return self._evaluate("--inputs", self.spec["inputs"])
        if self.spec["factory"]:
            return _arguments(self._call(f"the factory {self.spec['factory']}", self._factory()))
        if callable(getattr(self.module, "get_inputs", None)):
            return _arguments(self._call("get_inputs()", self.module.get_inputs))
        return (), {}

    def _like_seen(self) -> Arguments:
        """Draw inputs like those in a capture or a file."""
        if not self.spec["inputs"] and self.captured is not None:
            return self.captured.inputs(self.device)
        if self._saved is None:
            saved = _arguments(drawing.saved(self.spec["inputs"]))
            self._saved = values.map_tensors(saved, lambda tensor: drawing.moved(tensor, self.device))
        args, kwargs = values.map_tensors(self._saved, drawing.drawn)
        return args, kwargs

    def _factory(self) -> Callable[[], Any]:
        """Find the function named by ``factory``: of the file, or ``package.module:function``."""
        module_name, _, function = self.spec["factory"].rpartition(":")
        next_step = "Name a function of the file, or package.module:function."
        try:
            owner = importlib.import_module(module_name) if module_name else self.module
        except Exception as error:
            raise TaskProblem(
                f"The factory's module does not import: {summary(error)}.", "--factory", next_step
            ) from error
        found = getattr(owner, function, None)
        if not callable(found):
            raise TaskProblem(f"{owner.__name__} has no function {function}.", "--factory", next_step)
        return found  # type: ignore[no-any-return]

    def _evaluate(self, option: str, text: str) -> Arguments:
        """Evaluate an argument list with torch, math and the file's own names in scope."""
        scope = {"torch": torch, "math": math, **vars(self.module), "_arguments_": lambda *a, **k: (a, k)}
        next_step = 'Write it as between the parentheses of a call, such as "torch.randn(8, 64), mask=None".'
        try:
            code = compile(f"_arguments_({text}\n)", option, "eval")
        except SyntaxError as error:
            raise TaskProblem(f"{option} {text!r} does not parse: {error.msg}.", option, next_step) from error
        try:
            return eval(code, scope)  # type: ignore[no-any-return]  # noqa: S307  # the developer's own expression
        except Exception as error:
            raise TaskProblem(
                f"{option} {text!r} raises {summary(error)}", place(error, self.root) or option, next_step
            ) from error

    def _call(self, name: str, function: Callable[[], Any]) -> Any:
        try:
            return function()
        except TaskProblem:
            raise
        except (Exception, SystemExit) as error:
            where = place(error, self.root) or str(self.spec["path"])
            raise TaskProblem(f"{name[:1].upper()}{name[1:]} raises {summary(error)}", where, advice(error)) from error

    def _place_input(self, tensor: torch.Tensor) -> torch.Tensor:
        tensor = tensor.detach().to(self.device).resolve_conj().resolve_neg()  # only bytes cross to a worker
        castable = tensor.dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64)
        return tensor.to(self.dtype) if self.dtype is not None and castable else tensor

    def _unseen(self, arguments: Arguments) -> Arguments:
        """Replace tensors that came out equal to the call before: a constant, or a factory that seeds itself."""
        try:
            tensors, structure = values.flatten(arguments)
        except values.Unsupported as error:
            raise TaskProblem(
                f"The inputs hold {error}, which cannot be passed on to another process.",
                str(self.spec["path"]),
                "Give tensors, numbers, strings, and tuples, lists, dicts and dataclasses of them.",
            ) from error
        sums = [values.checksum(tensor) for tensor in tensors]
        renewed = [
            values.fresh(tensor) if self._seen.get(index) == total else tensor
            for index, (tensor, total) in enumerate(zip(tensors, sums))
        ]
        self._seen = dict(enumerate(sums))
        args, kwargs = values.rebuild(structure, renewed)
        return tuple(args), kwargs


def _first_rows(arguments: Arguments, rows: int) -> Arguments:
    """Return the first rows of every tensor that is as long as the first one is along its first dimension."""
    tensors, _ = values.flatten(arguments)
    count = next((tensor.shape[0] for tensor in tensors if tensor.dim()), 0)

    def first(tensor: torch.Tensor) -> torch.Tensor:
        whole = not tensor.dim() or tensor.shape[0] != count
        return tensor if whole else values.clone_like(tensor[:rows])

    args, kwargs = values.map_tensors(arguments, first)
    return args, kwargs


def load_task(spec: dict[str, Any]) -> LoadedTask:
    """Import the task's file and find its class; runs no tensor operation.

    Raises:
        TaskProblem: The file does not parse or import, has no such module class, or arguments that it needs are missing.
    """
    module = import_kernelbench(spec) if spec["kind"] == "kernelbench" else import_module(spec)
    precision.apply(spec["precision"])
    task = LoadedTask(spec, module, find_class(module, spec))
    check_arguments(task)
    return task


def load_form(task: LoadedTask, spec: dict[str, Any]) -> LoadedTask:
    """Return the task of another form of a loaded task's class; runs no tensor operation.

    Raises:
        TaskProblem: Arguments that it needs are missing.
    """
    other = LoadedTask(spec, task.module, task.cls)
    check_arguments(other)
    return other


def _arguments(value: Any) -> Arguments:
    """Read what a factory returned: a tensor, a tuple or list, a dict of keywords, or ``(args, kwargs)``."""
    if value is None:
        return (), {}
    if isinstance(value, dict):
        return (), dict(value)
    if not isinstance(value, (tuple, list)):
        return (value,), {}
    if len(value) == 2 and isinstance(value[0], (tuple, list)) and isinstance(value[1], dict):
        return tuple(value[0]), dict(value[1])
    return tuple(value), {}


def _dtype(name: str) -> Optional[torch.dtype]:
    if not name:
        return None
    found = getattr(torch, name, None)
    if not (isinstance(found, torch.dtype) and found.is_floating_point):
        raise TaskProblem(
            f"{name!r} is not a floating dtype of torch.", "--dtype", "Give float32, bfloat16 or float16."
        )
    return found

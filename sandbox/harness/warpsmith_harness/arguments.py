"""Which arguments a task lacks, and what to type to give them."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Callable, List

from warpsmith_harness.problems import TaskProblem, line

if TYPE_CHECKING:
    from warpsmith_harness.load import LoadedTask


def check_arguments(task: LoadedTask) -> None:
    """Raise when the constructor or the forward needs arguments that nobody gave; the message shows what to type."""
    spec, module = task.spec, task.module
    given = spec["init"] or task.captured or callable(getattr(module, "get_init_inputs", None))
    init = [] if given else _required(task.cls)
    given = spec["inputs"] or spec["factory"] or task.captured or callable(getattr(module, "get_inputs", None))
    inputs = [] if given else _required(task.cls.forward)[1:]
    if not init and not inputs:
        return
    needs = [f"the constructor of {task.cls.__name__} needs {_listed(init)}"] if init else []
    needs += [f"the forward of {task.cls.__name__} needs {_listed(inputs)}"] if inputs else []
    options = [f'--init "{", ".join(_example_value(p) for p in init)}"'] if init else []
    options += [f'--inputs "{", ".join(_example_tensor(p) for p in inputs)}"'] if inputs else []
    what = " and ".join(needs)
    raise TaskProblem(
        f"{what[:1].upper()}{what[1:]}.",
        f"{spec['path']}:{line(task.cls if init else task.cls.forward)}",
        f"Give Python argument lists such as {' '.join(options)}"
        + (", or a function that returns the inputs with --factory." if inputs else "."),
    )


def _listed(parameters: List[inspect.Parameter]) -> str:
    return ", ".join(parameter.name for parameter in parameters)


def _example_value(parameter: inspect.Parameter) -> str:
    examples = {"float": "0.1", "bool": "True", "str": "'name'"}
    return (
        f"{parameter.name}={examples.get(str(getattr(parameter.annotation, '__name__', parameter.annotation)), '64')}"
    )


def _example_tensor(parameter: inspect.Parameter) -> str:
    indices = any(word in parameter.name for word in ("id", "ind", "tok", "lab", "tgt"))
    tensor = "torch.randint(0, 100, (8, 64))" if indices else "torch.randn(8, 64)"
    return f"{parameter.name}={tensor}" if parameter.kind is parameter.KEYWORD_ONLY else tensor


def _required(function: Callable[..., Any]) -> List[inspect.Parameter]:
    """Return the parameters that a callable cannot do without."""
    loose = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return [p for p in parameters if p.kind not in loose and p.default is inspect.Parameter.empty]

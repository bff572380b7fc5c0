"""How much room a task needs on its device, and its examination in part where that is short; see ``crowded``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Tuple

import torch

from warpsmith_harness import values
from warpsmith_harness.candidate import state
from warpsmith_harness.lent import tidy
from warpsmith_harness.load import LoadedTask
from warpsmith_harness.original import accept
from warpsmith_harness.problems import TaskProblem, line
from warpsmith_harness.subject import input_names
from warpsmith_harness.transport import Note, describe, span

USABLE = 0.95
"""Share of the device's memory that a task may need; the rest is the driver's."""
_COPIES = 12
"""What judging as usual holds of inputs and outputs at once, in both processes: bases, slots, questions, shared memory."""
_STATES = 5
_EXAMINED_SHARE = 0.02
_FEWEST_ROWS = 2
_GIBIBYTE = 1024**3


@dataclass(frozen=True)
class Sizes:
    """How large a task is, in bytes, and what its outputs look like.

    Attributes:
        inputs, outputs, state: Bytes.
        rows: Entries of the first dimension of the first input.
        notes: Of the outputs (``transport.describe``).
        structure: Of the outputs.
        names: Of the inputs, with the bytes of each.
        signature: One line on each input and output.
    """

    inputs: int
    outputs: int
    state: int
    rows: int
    notes: List[Note]
    structure: Any
    names: Dict[str, int]
    signature: List[str]

    @property
    def all(self) -> int:
        """Bytes of all the task's tensors."""
        return self.inputs + self.outputs + self.state

    def crowded(self, memory: int) -> bool:
        """Tell whether judging as usual would not fit."""
        return _COPIES * (self.inputs + self.outputs) + _STATES * self.state > USABLE * memory

    def check(self, memory: int) -> None:
        """Raise where the task does not fit even so."""
        needed = self.inputs + 2 * self.outputs + 3 * self.state
        if needed > USABLE * memory:
            raise TaskProblem(
                f"Its tensors fill {_gib(self.all)} of the device's {_gib(memory)}, and judging it takes {_gib(needed)}: "
                f"inputs once ({_gib(self.inputs)}), outputs twice ({_gib(2 * self.outputs)}), state three times "
                f"({_gib(3 * self.state)}).",
                "",
                "Give smaller inputs.",
            )
        host = max(self.outputs, self.inputs)
        if host > USABLE * _host_memory():
            raise TaskProblem(
                f"Its tensors cross through the host's memory, up to {_gib(host)} at a time, and {_gib(_host_memory())} are "
                "free there.",
                "",
                "Free some memory, or give smaller inputs.",
            )


def measure(task: LoadedTask) -> Sizes:
    """Run the reference once and return how large everything is."""
    reference = task.reference()
    args, kwargs = task.inputs()
    tensors, _ = values.flatten((args, kwargs))
    names = input_names(reference, args, kwargs)
    sizes = {name: _bytes(tensor) for name, tensor in zip(names, tensors)}
    rows = next((tensor.shape[0] for tensor in tensors if tensor.dim()), 0)
    signature = [values.describe(name, tensor) for name, tensor in zip(names, tensors)]
    own = sum(_bytes(tensor) for tensor in state(reference).values())
    outputs, structure = flat_outputs(task, task.forward(reference, args, kwargs))
    single = len(outputs) == 1
    signature += [values.describe("output" if single else f"output {i}", out) for i, out in enumerate(outputs)]
    return Sizes(
        sum(sizes.values()),
        sum(_bytes(tensor) for tensor in outputs),
        own,
        rows,
        [describe(tensor) for tensor in outputs],
        structure,
        sizes,
        signature,
    )


def accept_task(task: LoadedTask, memory: int) -> Tuple[Sizes, Dict[str, Any]]:
    """Examine a task, on some of its rows where there is no room for copies; see ``original.accept``.

    Returns:
        Its sizes, and what was found out; ``crowded`` is set where it was examined in part.

    Raises:
        TaskProblem: It cannot be used, or does not fit.
    """
    sizes = measure(task)
    tidy(task.device)
    accepted = accept_rows(task, sizes, memory) if sizes.crowded(memory) else accept(task)
    tidy(task.device)
    return sizes, accepted


def accept_rows(task: LoadedTask, sizes: Sizes, memory: int) -> Dict[str, Any]:
    """Examine a task on its first rows; return what ``original.accept`` does, for the whole of it.

    Raises:
        TaskProblem: It does not fit, has too few rows to be examined in part, or asks for what takes more room.
    """
    sizes.check(memory)
    _check_asked(task)
    filled = f"Its tensors fill {_gib(sizes.all)} of the device's {_gib(memory)}"
    some = _EXAMINED_SHARE * memory / max(1, sizes.inputs + sizes.outputs)
    rows = max(_FEWEST_ROWS, int(sizes.rows * some))
    if rows > 2 * some * sizes.rows:
        raise TaskProblem(
            f"{filled}, so it would be examined on some of its rows, and it has only {sizes.rows} along its first dimension.",
            "",
            "Give smaller inputs, or more rows of smaller ones.",
        )
    task.rows = rows
    part = measure(task)
    accepted = accept(task)
    task.rows = None
    if accepted["mutates"]:
        raise TaskProblem(
            f"Its forward changes {', '.join(accepted['mutates'])}. {filled}, which leaves no room for copies to tell what was "
            "changed.",
            "",
            "Give smaller inputs.",
        )
    note = (
        f"{filled} ({sizes.all / memory:.0%}): inputs are there once for both sides, which take turns with the rest; it was "
        f"examined on {rows} of {sizes.rows} rows; CUDA graphs, which keep copies of their own, are not timed."
    )
    return {**_for_the_whole(accepted, part, sizes), "notes": [*accepted["notes"], note], "crowded": True}


def _for_the_whole(accepted: Dict[str, Any], part: Sizes, whole: Sizes) -> Dict[str, Any]:
    """Return what was found out on some rows with the bytes and the signature of all."""
    ignored = sum(whole.names[name] - part.names[name] for name in whole.names if name in accepted["ignores"])
    grown = whole.inputs + whole.outputs - part.inputs - part.outputs - ignored
    inputs, outputs = whole.signature[: len(whole.names)], whole.signature[len(whole.names) :]
    known = {line.split(":")[0] for line in whole.signature}
    state_lines = [line for line in accepted["signature"] if line.split(":")[0] not in known]
    return {
        **accepted,
        "bytes_moved": accepted["bytes_moved"] + grown,
        "least_bytes": whole.outputs,
        "signature": [*inputs, *state_lines, *outputs],
    }


def _check_asked(task: LoadedTask) -> None:
    asked = [name for name, there in (("gradients", "gradients"), ("dynamic sizes", "dynamic")) if task.spec.get(there)]
    if asked:
        raise TaskProblem(
            f"Its tensors leave no room on the device for {' and '.join(asked)}.",
            "",
            f"Judge it without {' and '.join(asked)}, or give smaller inputs.",
        )


def flat_outputs(task: LoadedTask, output: Any) -> Tuple[List[torch.Tensor], Any]:
    """Flatten what the reference returned; raises TaskProblem for what cannot be."""
    try:
        return values.flatten(output)
    except values.Unsupported as error:
        where = f"{task.spec['path']}:{line(task.cls.forward)}"
        advice = "Judge a module whose forward returns tensors, or tuples, lists and dicts of them."
        raise TaskProblem(f"The forward of {task.cls.__name__} returns {error}.", where, advice) from error


def _bytes(tensor: torch.Tensor) -> int:
    return span(tensor) * tensor.element_size() if tensor.layout == torch.strided else 0


def _gib(size: int) -> str:
    return f"{size / _GIBIBYTE:.1f} GiB"


def _host_memory() -> int:
    """Return the bytes of the host's memory that nobody needs."""
    for told in Path("/proc/meminfo").read_text().splitlines():
        if told.startswith("MemAvailable:"):
            return int(told.split()[1]) * 1024
    return 0

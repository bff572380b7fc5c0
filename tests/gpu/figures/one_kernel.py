"""What ncu runs: ``python one_kernel.py DEVICE CALLS MODULE...`` calls each module between the profiler's start and stop."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable

import torch


def main(device: str, calls: str, *paths: str) -> None:
    """Warm up, then make the calls that are profiled, on inputs that differ; a wait of no length stands before each module's."""
    torch.cuda.set_device(device)
    with torch.no_grad():
        modules = [_warm(path, device) for path in paths]
        torch.cuda.synchronize()
        torch.cuda.profiler.start()
        for call in modules:
            torch.cuda._sleep(0)
            for number in range(int(calls)):
                call(number)
        torch.cuda.synchronize()
        torch.cuda.profiler.stop()


def _warm(path: str, device: str) -> Callable[[int], object]:
    """Load a module and call it a few times; return what calls it once more, on one of its drawn inputs by number."""
    spec = importlib.util.spec_from_file_location("one_kernel_module", path)
    assert spec is not None
    assert spec.loader is not None
    task = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(task)
    model = task.Model(*task.get_init_inputs()).to(device)
    drawn = [[tensor.to(device) for tensor in task.get_inputs()] for _ in range(4)]
    for inputs in drawn * 2:
        model(*inputs)
    return lambda number: model(*drawn[number % len(drawn)])


if __name__ == "__main__":
    main(*sys.argv[1:])

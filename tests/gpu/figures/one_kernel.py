"""What ncu runs: ``python one_kernel.py MODULE DEVICE CALLS`` makes calls of a module between the profiler's start and stop."""

from __future__ import annotations

import importlib.util
import sys

import torch


def main(path: str, device: str, calls: str) -> None:
    """Warm up, then make the calls that are profiled, on inputs that differ."""
    spec = importlib.util.spec_from_file_location("one_kernel_module", path)
    assert spec is not None
    assert spec.loader is not None
    task = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(task)
    torch.cuda.set_device(device)
    model = task.Model(*task.get_init_inputs()).to(device)
    drawn = [[tensor.to(device) for tensor in task.get_inputs()] for _ in range(4)]
    with torch.no_grad():
        for inputs in drawn * 2:
            model(*inputs)
        torch.cuda.synchronize()
        torch.cuda.profiler.start()
        for number in range(int(calls)):
            model(*drawn[number % len(drawn)])
        torch.cuda.synchronize()
        torch.cuda.profiler.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

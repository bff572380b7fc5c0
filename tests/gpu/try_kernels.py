"""Build, verify and time the CUDA kernels of ``kernels/`` in several variants: ``python try_kernels.py [CASE]...``.

Needs torch, nvcc and an NVIDIA GPU, and nothing else of Warpsmith; meant for tuning, where one call should tell which
variant is best. Verdicts come from the judge (``test_modules.py``).
"""

from __future__ import annotations

import copy
import ctypes
import importlib.util
import random
import statistics
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

HERE = Path(__file__).parent
REPEATS = 60
VARIANTS = {
    "convnext_dwconv_norm": ["", "-DSTAGES=3", "-DSTAGES=5"],
    "diffusers_norm_silu": [
        "",
        "-DTHREADS=256 -DCLUSTER=8",
        "-DTHREADS=256 -DCLUSTER=8 -DBLOCKS_PER_SM=3",
        "-DVECTORS=5 -DCLUSTER=8",
        "-DTHREADS=1024 -DVECTORS=5",
        "-DTHREADS=1024 -DVECTORS=10 -DCLUSTER=2",
    ],
    "resnet_stem_pool": [
        "",
        "-DROWS=2",
        "-DROWS=7",
        "-DROWS=4 -DTHREADS=128",
        "-DROWS=7 -DTHREADS=448",
        "-DROWS=2 -DTHREADS=448",
    ],
}


@dataclass(frozen=True)
class Side:
    """One way to run the module: its name and a call that takes one set of inputs."""

    name: str
    call: Callable[[list[torch.Tensor]], torch.Tensor]


def load(path: Path) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def build(source: Path, flags: str) -> ctypes.CDLL:
    """Compile one kernel file for the present GPU; prints registers and spills."""
    major, minor = torch.cuda.get_device_capability()
    arch = f"{major}{minor}" + ("a" if major >= 9 else "")
    library = Path(tempfile.mkdtemp()) / "kernel.so"
    command = ["nvcc", "-O3", "-std=c++17", "-shared", "-Xcompiler", "-fPIC", "-Xptxas", "-v", *flags.split()]
    command += [f"-gencode=arch=compute_{arch},code=sm_{arch}", str(source), "-o", str(library)]
    report = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    resources = [line.split(":")[-1].strip() for line in report.splitlines() if "registers" in line or "spill" in line]
    print("   ", flags or "(default)", *resources)
    return ctypes.CDLL(str(library))


def bind(library: ctypes.CDLL, name: str) -> Callable[..., None]:
    """Call a launcher with tensors, integers and floats; the current stream is added."""
    function = getattr(library, name)

    def call(*arguments: object) -> None:
        converted: list[object] = []
        for value in arguments:
            if isinstance(value, torch.Tensor):
                assert value.is_contiguous()
                converted.append(ctypes.c_void_p(value.data_ptr()))
            else:
                converted.append(ctypes.c_float(value) if isinstance(value, float) else ctypes.c_int64(value))  # type: ignore[arg-type]
        code = function(*converted, ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
        if code:
            raise RuntimeError(f"{name} returned {code}")

    return call


def candidate(case: str, flags: str, init: list[object], reference: nn.Module) -> nn.Module:
    folder = HERE / "kernels" / case
    source = next((folder / "kernels").glob("*.cu"))
    bound = types.ModuleType("kernels")
    launcher = next(line.split("(")[0].split()[-1] for line in source.open() if line.startswith('extern "C"'))
    setattr(bound, launcher, bind(build(source, flags), launcher))
    sys.modules["kernels"] = bound
    model = load(folder / "model_new.py").ModelNew(*init).cuda().eval()
    model.load_state_dict(reference.state_dict())
    return model


def randomise(module: nn.Module) -> None:
    """Give every parameter and buffer values that differ from its initial ones."""
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        if tensor.is_floating_point():
            tensor.data.uniform_(0.5, 2.0) if "var" in name else tensor.data.normal_(std=0.5)


def budget(reference: torch.Tensor, exact: torch.Tensor) -> float:
    """Error allowed: twice the reference's own, and 8 units in the last place at the output's RMS."""
    rms = exact.square().mean().sqrt().item()
    return 2 * (reference.double() - exact).abs().max().item() + 8 * torch.finfo(reference.dtype).eps * rms


def verify(side: Side, reference: nn.Module, inputs: list[list[torch.Tensor]]) -> str:
    worst = 0.0
    exact_model = copy.deepcopy(reference).double()
    for arguments in inputs:
        expected = reference(*arguments)
        exact = exact_model(*[a.double() for a in arguments])
        poison = torch.full_like(expected, float("nan"))
        del poison
        before = [a.clone() for a in arguments]
        actual = side.call(arguments)
        kind = (actual.dtype, actual.shape, actual.stride())
        assert kind == (expected.dtype, expected.shape, expected.stride()), f"{side.name}: {kind}"
        assert all(torch.equal(a, b) for a, b in zip(arguments, before, strict=True)), "inputs changed"
        error = (actual.double() - exact).abs().max().item()
        worst = max(worst, error / budget(expected, exact)) if error == error else float("nan")
    return f"{worst:.2f} of the budget" + ("" if worst <= 1 else "  <-- WRONG")


def time_sides(sides: list[Side], inputs: list[list[torch.Tensor]]) -> dict[str, list[float]]:
    """Microseconds of each side, in random order, with the L2 cache flushed before each call."""
    flush = torch.empty(512 << 20, dtype=torch.uint8, device="cuda")
    samples: dict[str, list[float]] = {side.name: [] for side in sides}
    for side in sides:
        for arguments in inputs:
            side.call(arguments)
    for repeat in range(REPEATS):
        for side in random.sample(sides, len(sides)):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            flush.zero_()
            start.record()
            side.call(inputs[repeat % len(inputs)])
            end.record()
            end.synchronize()
            samples[side.name].append(start.elapsed_time(end) * 1000)
    return samples


def compiled(reference: nn.Module, mode: str | None, arguments: list[torch.Tensor]) -> Side:
    began = time.perf_counter()
    model = torch.compile(copy.deepcopy(reference), mode=mode)
    model(*arguments)
    torch.cuda.synchronize()
    print(f"    torch.compile {mode or 'default'}: {time.perf_counter() - began:.1f} s")
    return Side(f"compile {mode or 'default'}", lambda a: model(*a))


def run(case: str) -> None:
    print(f"\n{case}")
    module = load(HERE / "modules" / f"{case}.py")
    reference = module.Model(*module.get_init_inputs()).cuda().eval()
    randomise(reference)
    inputs = [[a.cuda() for a in module.get_inputs()] for _ in range(3)]
    output = reference(*inputs[0])
    moved = sum(t.nbytes for t in [*inputs[0], output])
    source, target = (torch.empty(moved // 2, dtype=torch.uint8, device="cuda") for _ in range(2))
    sides = [Side("copy of the same bytes", lambda _: target.copy_(source)), Side("eager", lambda a: reference(*a))]
    sides += [compiled(reference, mode, inputs[0]) for mode in (None, "max-autotune-no-cudagraphs")]
    checks = {}
    for flags in VARIANTS[case]:
        model = candidate(case, flags, module.get_init_inputs(), reference)
        side = Side(f"ours {flags}", lambda a, model=model: model(*a))
        try:
            checks[side.name] = verify(side, reference, inputs)
            torch.cuda.synchronize()
            sides.append(side)
        except RuntimeError as error:
            print(f"    {side.name}: {error}")
    samples = time_sides(sides, inputs)
    medians = {name: statistics.median(times) for name, times in samples.items()}
    best = min(value for name, value in medians.items() if name.startswith(("eager", "compile")))
    print(
        f"    {moved / 1e6:.0f} MB; us: median and deciles; speed-up over eager, compile default, best baseline; error"
    )
    for name, value in medians.items():
        deciles = statistics.quantiles(samples[name], n=10)
        ratios = " ".join(
            f"{baseline / value:5.2f}" for baseline in (medians["eager"], medians["compile default"], best)
        )
        print(f"    {name:55s} {value:8.1f} {deciles[0]:8.1f} {deciles[-1]:8.1f}   {ratios}   {checks.get(name, '')}")


def main() -> None:
    print(torch.__version__, torch.cuda.get_device_name())
    with torch.no_grad():
        for case in sys.argv[1:] or VARIANTS:
            run(case)


if __name__ == "__main__":
    main()

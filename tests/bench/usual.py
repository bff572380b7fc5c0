"""The usual evaluation of a kernel, timed: a fresh process, ``load_inline``, five correctness trials, a hundred timed calls.

Runs as a script with the device as its argument and prints one JSON object of seconds. The kernel is the same as the one
our own way builds; the binding is what ``load_inline`` needs.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from pathlib import Path

TASK = Path(__file__).parent / "task"

BINDING = """
#include <torch/extension.h>
{kernel}
torch::Tensor fused(torch::Tensor x, torch::Tensor bias, double scale) {{
    auto out = torch::empty_like(x);
    bias_gelu_scale(x.data_ptr<float>(), bias.data_ptr<float>(), out.data_ptr<float>(), x.numel(), x.size(-1), scale{stream});
    return out;
}}
"""


def main(device: str) -> dict[str, float]:
    begin = time.perf_counter()
    import torch
    from torch.utils.cpp_extension import load_inline

    imported = time.perf_counter()
    spec = importlib.util.spec_from_file_location("reference", TASK / "model.py")
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    model = reference.Model(*reference.get_init_inputs()).to(device)
    cuda = device != "cpu"
    if cuda:
        torch.cuda.set_device(device)  # the kernel is launched on the current one
    kernel = (TASK / ("kernels_cuda/bias_gelu_scale.cu" if cuda else "kernels_cpu/bias_gelu_scale.cpp")).read_text()
    source = BINDING.format(kernel=kernel, stream=", 0" if cuda else "")
    declaration = "torch::Tensor fused(torch::Tensor x, torch::Tensor bias, double scale);"
    sources = {"cpp_sources": declaration, "cuda_sources": source} if cuda else {"cpp_sources": source}
    flags = {} if cuda else {"extra_cflags": ["-O3", "-march=native", "-fopenmp"]}
    extension = load_inline(
        f"usual_{device.partition(':')[0]}_{time.time_ns()}", functions=["fused"], **sources, **flags
    )
    built = time.perf_counter()
    with torch.no_grad():
        for _ in range(5):
            (x,) = (value.to(device) for value in reference.get_inputs())
            assert torch.allclose(extension.fused(x, model.bias, model.scale), model(x), atol=1e-2, rtol=1e-2)
        verified = time.perf_counter()
        for _ in range(100):
            extension.fused(x, model.bias, model.scale)
            model(x)
        if cuda:
            torch.cuda.synchronize()
    done = time.perf_counter()
    parts = {
        "import": imported - begin,
        "build": built - imported,
        "verify": verified - built,
        "profile": done - verified,
    }
    return {**parts, "total": done - begin}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))

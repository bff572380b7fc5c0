"""Work that is spread and joined before the launcher returns: streams and sections, graphs, scratch from a pool."""

from __future__ import annotations

from tests.candidates.frame import Candidate
from tests.candidates.honest.layers import LINEAR_CUH, LINEAR_H, MLP
from tests.candidates.honest.models import SCALE_ADD, SCALE_ADD_CPP, SCALE_ADD_CUDA, SCALE_ADD_KERNEL

_HALVES_IN_PYTHON = """
import torch
from torch import nn
from kernels import scale_add

class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self._side = None

    def _halves(self, x, y, out):
        rows, columns = x.shape
        for part in (slice(0, rows // 2), slice(rows // 2, rows)):
            yield x[part], y[part], out[part], x[part].shape[0], columns

    def forward(self, x, y):
        out = torch.empty_like(x)
        first, second = self._halves(x, y, out)
        self._launch(first)
        if not x.is_cuda:
            self._launch(second)
            return out
        if self._side is None:
            self._side = torch.cuda.Stream(x.device)
        main = torch.cuda.current_stream(x.device)
        self._side.wait_stream(main)
        with torch.cuda.stream(self._side):
            self._launch(second)
        main.wait_stream(self._side)
        return out

    def _launch(self, part):
        x, y, out, rows, columns = part
        scale_add(x, self.weight, y, out, rows, columns)
"""

_MLP_CUDA = """
extern "C" int mlp(const float* x, const float* up, const float* up_bias, const float* down, const float* down_bias,
                   float* middle, float* out, int64_t rows, int64_t width, int64_t hidden, cudaStream_t stream) {
"""

_MLP_CPP = """
extern "C" int mlp(const float* x, const float* up, const float* up_bias, const float* down, const float* down_bias,
                   float* middle, float* out, int64_t rows, int64_t width, int64_t hidden) {
"""

STREAMS = [
    Candidate(
        "two streams forked and joined by events, or two sections",
        "scale_add",
        SCALE_ADD,
        cpp={
            "scale_add": """
#include <cstdint>

static void part(const float* x, const float* w, const float* y, float* out, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) {
      const float v = x[r * columns + c] * w[c] + y[r * columns + c];
      out[r * columns + c] = v < 0 ? 0 : v;
    }
}

extern "C" int scale_add(const float* x, const float* w, const float* y, float* out, int64_t rows, int64_t columns) {
  const int64_t half = rows / 2, at = half * columns;
#pragma omp parallel sections num_threads(2)
  {
#pragma omp section
    part(x, w, y, out, half, columns);
#pragma omp section
    part(x + at, w, y + at, out + at, rows - half, columns);
  }
  return 0;
}
"""
        },
        cuda={
            "scale_add": f"""{SCALE_ADD_KERNEL}
struct Side {{
  cudaStream_t stream;
  cudaEvent_t fork, join;
}};

static Side* side_of_device() {{
  static Side sides[16] = {{}};
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess || device >= 16) return nullptr;
  Side& side = sides[device];
  if (!side.stream) {{
    cudaStreamCreateWithFlags(&side.stream, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&side.fork, cudaEventDisableTiming);
    cudaEventCreateWithFlags(&side.join, cudaEventDisableTiming);
  }}
  return &side;
}}

extern "C" int scale_add(const float* x, const float* w, const float* y, float* out, int64_t rows, int64_t columns,
                         cudaStream_t stream) {{
  const int64_t half = rows / 2 * columns, rest = rows * columns - half;
  Side* side = side_of_device();
  if (!side) return cudaErrorInvalidDevice;
  cudaEventRecord(side->fork, stream);
  cudaStreamWaitEvent(side->stream, side->fork, 0);
  if (half) scale_add_kernel<<<(half + 255) / 256, 256, 0, stream>>>(x, w, y, out, half, columns);
  if (rest) scale_add_kernel<<<(rest + 255) / 256, 256, 0, side->stream>>>(x + half, w, y + half, out + half, rest, columns);
  cudaEventRecord(side->join, side->stream);
  cudaStreamWaitEvent(stream, side->join, 0);
  return cudaGetLastError();
}}
"""
        },
    ),
    Candidate(
        "a side stream of torch that waits and is waited for",
        "scale_add",
        _HALVES_IN_PYTHON,
        cpp={"scale_add": SCALE_ADD_CPP},
        cuda={"scale_add": SCALE_ADD_CUDA},
    ),
    Candidate(
        "a graph of two kernels, made anew in each call",
        "mlp",
        MLP,
        cpp={
            "linear.h": LINEAR_H,
            "mlp": f"""
#include "linear.h"
#include <functional>
#include <vector>
{_MLP_CPP}
  std::vector<std::function<void()>> steps;  // the same, as a list of steps
  steps.push_back([=] {{ linear_rows(x, up, up_bias, middle, rows, hidden, width, relu); }});
  steps.push_back([=] {{
    linear_rows(middle, down, down_bias, out, rows, width, hidden, [x](float v, int64_t at) {{ return v + x[at]; }});
  }});
  for (const auto& step : steps) step();
  return 0;
}}
""",
        },
        cuda={
            "linear.cuh": LINEAR_CUH,
            "mlp": f"""
#include "linear.cuh"

static void both(const float* x, const float* up, const float* up_bias, const float* down, const float* down_bias,
                 float* middle, float* out, int64_t rows, int64_t width, int64_t hidden, cudaStream_t stream) {{
  launch_linear(x, up, up_bias, middle, rows, hidden, width, Relu{{}}, stream);
  launch_linear(middle, down, down_bias, out, rows, width, hidden, AddResidual{{x}}, stream);
}}
{_MLP_CUDA}
  if (rows == 0) return 0;
  cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
  cudaStreamIsCapturing(stream, &capturing);
  if (stream == nullptr || capturing != cudaStreamCaptureStatusNone) {{  // the caller's own graph takes them as they are
    both(x, up, up_bias, down, down_bias, middle, out, rows, width, hidden, stream);
    return cudaGetLastError();
  }}
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  cudaError_t error = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  if (error != cudaSuccess) return error;
  both(x, up, up_bias, down, down_bias, middle, out, rows, width, hidden, stream);
  error = cudaStreamEndCapture(stream, &graph);
  if (error == cudaSuccess) error = cudaGraphInstantiate(&exec, graph, 0);
  if (error == cudaSuccess) error = cudaGraphLaunch(exec, stream);
  if (exec) cudaGraphExecDestroy(exec);
  if (graph) cudaGraphDestroy(graph);
  return error;
}}
""",
        },
    ),
    Candidate(
        "a graph kept and updated with the pointers of each call",
        "mlp",
        MLP,
        cuda={
            "linear.cuh": LINEAR_CUH,
            "mlp": f"""
#include "linear.cuh"

// A launch graph for each device; its nodes get the arguments of every call before it is launched.
static cudaGraphExec_t kept[16];
{_MLP_CUDA}
  if (rows == 0) return 0;
  cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
  cudaStreamIsCapturing(stream, &capturing);
  if (capturing != cudaStreamCaptureStatusNone) {{  // the caller's own graph takes the kernels as they are
    launch_linear(x, up, up_bias, middle, rows, hidden, width, Relu{{}}, stream);
    launch_linear((const float*)middle, down, down_bias, out, rows, width, hidden, AddResidual{{x}}, stream);
    return cudaGetLastError();
  }}
  int device = 0;
  cudaGetDevice(&device);
  const auto first = linear_tiles<Relu>;
  const auto second = linear_tiles<AddResidual>;
  int m = rows, w = width, h = hidden;
  Relu relu;
  AddResidual add{{x}};
  void* of_first[] = {{&x, &up, &up_bias, &middle, &m, &h, &w, &relu}};
  void* of_second[] = {{&middle, &down, &down_bias, &out, &m, &w, &h, &add}};
  cudaKernelNodeParams one = {{}}, two = {{}};
  one.func = (void*)first, one.gridDim = dim3((h + 15) / 16, (m + 15) / 16), one.blockDim = dim3(16, 16);
  two.func = (void*)second, two.gridDim = dim3((w + 15) / 16, (m + 15) / 16), two.blockDim = dim3(16, 16);
  one.kernelParams = of_first, two.kernelParams = of_second;
  cudaGraph_t graph;
  cudaGraphNode_t a, b;
  cudaError_t error = cudaGraphCreate(&graph, 0);
  if (error != cudaSuccess) return error;
  error = cudaGraphAddKernelNode(&a, graph, nullptr, 0, &one);
  if (error == cudaSuccess) error = cudaGraphAddKernelNode(&b, graph, &a, 1, &two);
  cudaGraphExecUpdateResultInfo info;
  if (error == cudaSuccess && (!kept[device] || cudaGraphExecUpdate(kept[device], graph, &info) != cudaSuccess)) {{
    cudaGetLastError();
    if (kept[device]) cudaGraphExecDestroy(kept[device]);
    error = cudaGraphInstantiate(&kept[device], graph, 0);
  }}
  cudaGraphDestroy(graph);
  return error != cudaSuccess ? error : cudaGraphLaunch(kept[device], stream);
}}
""",
        },
    ),
    Candidate(
        "scratch from the stream's pool",
        "mlp",
        MLP.replace("        middle = x.new_empty((rows, self.up.out_features))\n", "").replace(
            "middle, out, rows, width, middle.shape[1]", "out, rows, width, self.up.out_features"
        ),
        cpp={
            "linear.h": LINEAR_H,
            "mlp": f"""
#include "linear.h"
#include <cstdlib>
#include <memory>

struct Free {{ void operator()(void* p) const {{ std::free(p); }} }};
{_MLP_CPP.replace("float* middle, ", "")}
  const size_t bytes = (rows * hidden * sizeof(float) + 63) / 64 * 64;
  const std::unique_ptr<float, Free> middle(static_cast<float*>(std::aligned_alloc(64, bytes)));
  if (!middle) return 1;
  linear_rows(x, up, up_bias, middle.get(), rows, hidden, width, relu);
  linear_rows(middle.get(), down, down_bias, out, rows, width, hidden, [x](float v, int64_t at) {{ return v + x[at]; }});
  return 0;
}}
""",
        },
        cuda={
            "linear.cuh": LINEAR_CUH,
            "mlp": f"""
#include "linear.cuh"
{_MLP_CUDA.replace("float* middle, ", "")}
  if (rows == 0) return 0;
  float* middle = nullptr;
  const cudaError_t error = cudaMallocAsync((void**)&middle, rows * hidden * sizeof(float), stream);
  if (error != cudaSuccess) return error;
  launch_linear(x, up, up_bias, middle, rows, hidden, width, Relu{{}}, stream);
  launch_linear((const float*)middle, down, down_bias, out, rows, width, hidden, AddResidual{{x}}, stream);
  const cudaError_t launched = cudaGetLastError();
  cudaFreeAsync(middle, stream);
  return launched;
}}
""",
        },
    ),
]

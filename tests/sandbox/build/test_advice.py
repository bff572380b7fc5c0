"""What costs speed in a compiled file, read from what nvcc really printed."""

from __future__ import annotations

from collections.abc import Callable

from sandbox.build import Built
from sandbox.build.advice import from_assembler
from sandbox.build.toolchain import Nvcc
from sandbox.verdict import Diagnostic

LOG = """\
ptxas warning : Value of threads per SM for entry toomany(float*) is out of range. .minnctapersm will be ignored
ptxas info    : (C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized due to insufficient register \
resources for the wgmma pipeline in the function 'void ops::gemm<64>(float const*)'
ptxas info    : (C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized due to insufficient register \
resources for the wgmma pipeline in the function 'void ops::gemm<128>(float const*)'
ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at entry.
ptxas info    : (C7999) Something that nobody knows yet
ptxas info    : 4 bytes gmem
ptxas info    : Compiling entry function 'void ops::gemm<64>(float const*)' for 'sm_90a'
ptxas info    : Function properties for void ops::gemm<64>(float const*)
    16 bytes stack frame, 40 bytes spill stores, 44 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers
ptxas info    : Compiling entry function 'table(float*)' for 'sm_90a'
ptxas info    : Function properties for table(float*)
    128 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers
ptxas info    : Function properties for helper(float)
    16 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads
"""
SOURCE = """\
namespace ops {
// __global__ void gemm(a comment)
template <int N>
__global__ void __launch_bounds__(128) gemm(const float* x) {}
}
__global__ void toomany(float* x);
__global__ void table(float* x) {}
"""


def test_each_thing_is_said_once_with_its_kernels_and_what_it_means() -> None:
    found = {each.message: each.line for each in from_assembler(LOG, "kernels/f.cu", SOURCE)}
    starts = {
        "performance: toomany: Value of threads per SM is out of range": 6,
        "performance: ops::gemm<64>, ops::gemm<128>: wgmma.mma_async instructions are serialized": 4,
        "performance: 'setmaxnreg' ignored; unable to determine register count at entry: state the block's size": 0,
        "performance: Something that nobody knows yet (C7999)": 0,
        "performance: ops::gemm<64>: spills 84 bytes of registers to local memory; 255 registers are all": 4,
        "performance: table: keeps 128 bytes a thread in local memory": 7,
        "performance: helper: spills 16 bytes": 0,
    }
    assert [any(m.startswith(start) and n == line for m, n in found.items()) for start, line in starts.items()] == [
        True
    ] * len(found)


def test_a_hundred_instances_are_one_warning() -> None:
    lines = [
        "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to wgmma "
        f"pipeline crossing function boundary at a function call in the function 'void k<{'long_name_' * 30}{n}>(int)'"
        for n in range(100)
    ]
    [diagnostic] = from_assembler("\n".join(lines), "kernels/f.cu", "")
    assert "and 97 more" in diagnostic.message
    assert "__forceinline__" in diagnostic.message
    assert len(diagnostic.message) < 600


def test_a_quiet_file_has_no_warning() -> None:
    log = (
        "ptxas info    : 0 bytes gmem\nptxas info    : Compiling entry function 'k()' for 'sm_90a'\n"
        "ptxas info    : Function properties for k()\n    8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
        "ptxas info    : Used 24 registers, used 0 barriers\nptxas info    : Compile time = 1.868 ms\n"
    )
    assert from_assembler(log, "kernels/f.cu", "") == []


def test_serialised_products_and_spills_of_a_real_file_are_warnings(build: Callable[..., Built], nvcc: Nvcc) -> None:
    source = """\
    #include <cstdint>
    __device__ __forceinline__ void product(float (&d)[4], uint64_t a, uint64_t b) {
      asm volatile("{wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0,%1,%2,%3}, %4, %5, 1, 1, 1, 0, 0;}"
                   : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b));
    }
    __global__ void touched(float* y, const int64_t* x) {
      float d[4] = {0, 0, 0, 0};
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
      product(d, x[0], x[1]);
      d[0] += 1.f;
      product(d, x[2], x[3]);
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
      for (int i = 0; i < 4; ++i) y[threadIdx.x * 4 + i] = d[i];
    }
    __global__ void __launch_bounds__(1024, 2) heavy(float* x) {
      float v[64];
      #pragma unroll
      for (int i = 0; i < 64; ++i) v[i] = x[i * blockDim.x + threadIdx.x];
      __syncthreads();
      #pragma unroll
      for (int i = 0; i < 64; ++i) x[(63 - i) * blockDim.x + threadIdx.x] = v[i] * v[63 - i];
    }
    extern "C" int f(float* y, const int64_t* x, cudaStream_t s) {
      touched<<<1, 128, 0, s>>>(y, x);
      heavy<<<1, 1024, 0, s>>>(y);
      return 0;
    }
    """
    built = build({"f.cu": source}, arch="sm_90")
    assert built.report.ok
    said = {(each.file, each.line): each.message for each in built.report.diagnostics if "injected" not in each.message}
    assert "touched: wgmma.mma_async instructions are serialized" in said["kernels/f.cu", 6]
    assert "held to 32 registers a thread" in said["kernels/f.cu", 16]
    again = build({"f.cu": source}, arch="sm_90")
    assert again.report.diagnostics == built.report.diagnostics
    assert isinstance(built.report.diagnostics[0], Diagnostic)

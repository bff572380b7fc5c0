// out = weight * bf16(x / sqrt(mean(x^2) + eps)) over the last dimension, bf16 in and out, statistics in fp32.
//
// One block a row: each thread keeps its part of the row in registers, 8 elements a load, so the row is read once.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

constexpr int LANES = 8;

template <int THREADS>
__device__ float sum_of_block(float value) {
    constexpr int WARPS = THREADS / 32;
    __shared__ float of_warps[WARPS];
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(~0u, value, offset);
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
    __syncthreads();
    value = of_warps[threadIdx.x % WARPS];
    for (int offset = WARPS / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(~0u, value, offset);
    return value;
}

union Pack {
    uint4 bits;
    __nv_bfloat162 pairs[LANES / 2];
};

// PACKS: vectors of 8 that a thread keeps; compile-time, so that they stay in registers.
template <int THREADS, int PACKS>
__global__ void __launch_bounds__(THREADS) rms_norm_kernel(
    const uint4* __restrict__ x, const uint4* __restrict__ weight, uint4* __restrict__ out, int packs, float eps) {
    const int64_t row = int64_t(blockIdx.x) * packs;
    Pack kept[PACKS];
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < PACKS; ++i) {
        const int at = i * THREADS + threadIdx.x;
        if (at < packs) {
            kept[i].bits = x[row + at];
#pragma unroll
            for (int k = 0; k < LANES / 2; ++k) {
                const float2 v = __bfloat1622float2(kept[i].pairs[k]);
                squares += v.x * v.x + v.y * v.y;
            }
        }
    }
    const float scale = rsqrtf(sum_of_block<THREADS>(squares) / (float(LANES) * packs) + eps);
#pragma unroll
    for (int i = 0; i < PACKS; ++i) {
        const int at = i * THREADS + threadIdx.x;
        if (at < packs) {
            Pack w, to;
            w.bits = weight[at];
#pragma unroll
            for (int k = 0; k < LANES / 2; ++k) {
                const float2 v = __bfloat1622float2(kept[i].pairs[k]);
                to.pairs[k] = __hmul2(w.pairs[k], __floats2bfloat162_rn(v.x * scale, v.y * scale));
            }
            out[row + at] = to.bits;
        }
    }
}

template <int THREADS, int PACKS>
int launch(const void* x, const void* weight, void* out, int64_t rows, int packs, float eps, cudaStream_t stream) {
    rms_norm_kernel<THREADS, PACKS><<<rows, THREADS, 0, stream>>>(
        static_cast<const uint4*>(x), static_cast<const uint4*>(weight), static_cast<uint4*>(out), packs, eps);
    return cudaGetLastError();
}

// x and out (rows, size), weight (size); size a multiple of 8, at most 16384.
extern "C" int rms_norm(
    const __nv_bfloat16* x, const __nv_bfloat16* weight, __nv_bfloat16* out, int64_t rows, int64_t size, float eps,
    cudaStream_t stream) {
    if (size % LANES != 0 || size > 16384) return cudaErrorInvalidValue;
    if (rows * size == 0) return 0;
    const int packs = size / LANES;
    if (packs <= 128) return launch<128, 1>(x, weight, out, rows, packs, eps, stream);
    if (packs <= 256) return launch<256, 1>(x, weight, out, rows, packs, eps, stream);
    if (packs <= 512) return launch<256, 2>(x, weight, out, rows, packs, eps, stream);
    return launch<512, 4>(x, weight, out, rows, packs, eps, stream);
}

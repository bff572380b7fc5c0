// normed = weight * rms_normalise(hidden + residual), total = hidden + residual; one block a row, fp32.
//
// Each thread keeps its part of the row in registers, so the row is read once and the statistics cost no second pass.

#include <cstdint>
#include <cuda_runtime.h>

constexpr int THREADS = 256;

__device__ float sum_of_block(float value) {
    __shared__ float of_warps[THREADS / 32];
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(~0u, value, offset);
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
    __syncthreads();
    value = of_warps[threadIdx.x % (THREADS / 32)];
    for (int offset = THREADS / 64; offset > 0; offset /= 2) value += __shfl_xor_sync(~0u, value, offset);
    return value;
}

// QUADS: float4 a thread keeps; compile-time, so that the array stays in registers.
template <int QUADS>
__global__ void __launch_bounds__(THREADS) residual_rmsnorm_kernel(
    const float4* __restrict__ hidden, const float4* __restrict__ residual, const float4* __restrict__ weight,
    float4* __restrict__ normed, float4* __restrict__ total, int quads, float eps) {
    const int64_t row = int64_t(blockIdx.x) * quads;
    float4 kept[QUADS];
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < QUADS; ++i) {
        const int quad = i * THREADS + threadIdx.x;
        if (quad < quads) {
            const float4 a = hidden[row + quad], b = residual[row + quad];
            kept[i] = {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};
            total[row + quad] = kept[i];
            squares += kept[i].x * kept[i].x + kept[i].y * kept[i].y + kept[i].z * kept[i].z + kept[i].w * kept[i].w;
        }
    }
    const float scale = rsqrtf(sum_of_block(squares) / (4.0f * quads) + eps);
#pragma unroll
    for (int i = 0; i < QUADS; ++i) {
        const int quad = i * THREADS + threadIdx.x;
        if (quad < quads) {
            const float4 w = weight[quad];
            normed[row + quad] = {w.x * (kept[i].x * scale), w.y * (kept[i].y * scale),
                                  w.z * (kept[i].z * scale), w.w * (kept[i].w * scale)};
        }
    }
}

// All tensors (tokens, size) but weight (size); size a multiple of 4, at most 8192.
extern "C" int residual_rmsnorm(
    const float* hidden, const float* residual, const float* weight, float* normed, float* total,
    int64_t tokens, int64_t size, float eps, cudaStream_t stream) {
    if (size % 4 != 0 || size > 8 * 4 * THREADS) return cudaErrorInvalidValue;
    if (tokens * size == 0) return 0;
    const auto quads = [](auto* pointer) { return reinterpret_cast<const float4*>(pointer); };
    const auto kernel = size <= 1 * 4 * THREADS   ? residual_rmsnorm_kernel<1>
                        : size <= 4 * 4 * THREADS ? residual_rmsnorm_kernel<4>
                                                  : residual_rmsnorm_kernel<8>;
    kernel<<<tokens, THREADS, 0, stream>>>(
        quads(hidden), quads(residual), quads(weight), reinterpret_cast<float4*>(normed),
        reinterpret_cast<float4*>(total), size / 4, eps);
    return cudaGetLastError();
}

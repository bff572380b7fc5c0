// RMSNorm, forward and backward, fp32. Forward keeps each row's scale, so that backward needs no statistics of its own.
//
// One block a row in forward, one block a slice of rows in backward. The gradient of weight is a sum over rows: each slice keeps
// its own in registers, then a second kernel sums the slices in order. No atomics: the same inputs give the same gradient.

#include <cstdint>
#include <cuda_runtime.h>

constexpr int THREADS = 256;

__device__ float sum_of_block(float value) {
    __shared__ float of_warps[THREADS / 32];
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(~0u, value, offset);
    __syncthreads();  // the sum before this one has been read by all
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
    __syncthreads();
    value = of_warps[threadIdx.x % (THREADS / 32)];
    for (int offset = THREADS / 64; offset > 0; offset /= 2) value += __shfl_xor_sync(~0u, value, offset);
    return value;
}

__device__ float dot(float4 a, float4 b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }
__device__ float4 times(float4 a, float4 b) { return {a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w}; }
__device__ float4 times(float4 a, float b) { return {a.x * b, a.y * b, a.z * b, a.w * b}; }

// QUADS: float4 a thread keeps of a row; compile-time, so that the array stays in registers.
template <int QUADS>
__global__ void __launch_bounds__(THREADS) rmsnorm_kernel(
    const float4* __restrict__ x, const float4* __restrict__ weight, float4* __restrict__ out,
    float* __restrict__ scales, int quads, float eps) {
    const int64_t row = int64_t(blockIdx.x) * quads;
    float4 kept[QUADS];
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < QUADS; ++i) {
        const int quad = i * THREADS + threadIdx.x;
        if (quad < quads) {
            kept[i] = x[row + quad];
            squares += dot(kept[i], kept[i]);
        }
    }
    const float scale = rsqrtf(sum_of_block(squares) / (4.0f * quads) + eps);
    if (threadIdx.x == 0) scales[blockIdx.x] = scale;
#pragma unroll
    for (int i = 0; i < QUADS; ++i) {
        const int quad = i * THREADS + threadIdx.x;
        if (quad < quads) out[row + quad] = times(weight[quad], times(kept[i], scale));
    }
}

template <int QUADS>
__global__ void __launch_bounds__(THREADS) rmsnorm_backward_kernel(
    const float4* __restrict__ grad, const float4* __restrict__ x, const float4* __restrict__ weight,
    const float* __restrict__ scales, float4* __restrict__ grad_x, float4* __restrict__ partial, int tokens, int quads) {
    float4 sums[QUADS] = {};
    for (int row = blockIdx.x; row < tokens; row += gridDim.x) {
        const int64_t start = int64_t(row) * quads;
        const float scale = scales[row];
        float4 gs[QUADS], xs[QUADS];
        float projection = 0.0f;
#pragma unroll
        for (int i = 0; i < QUADS; ++i) {
            const int quad = i * THREADS + threadIdx.x;
            if (quad < quads) {
                gs[i] = grad[start + quad];
                xs[i] = x[start + quad];
                projection += dot(times(gs[i], weight[quad]), xs[i]);
            }
        }
        const float pull = scale * scale * sum_of_block(projection) / (4.0f * quads);
#pragma unroll
        for (int i = 0; i < QUADS; ++i) {
            const int quad = i * THREADS + threadIdx.x;
            if (quad < quads) {
                const float4 g = times(gs[i], weight[quad]), v = xs[i], s = times(times(gs[i], v), scale);
                grad_x[start + quad] = {scale * (g.x - v.x * pull), scale * (g.y - v.y * pull),
                                        scale * (g.z - v.z * pull), scale * (g.w - v.w * pull)};
                sums[i] = {sums[i].x + s.x, sums[i].y + s.y, sums[i].z + s.z, sums[i].w + s.w};
            }
        }
    }
#pragma unroll
    for (int i = 0; i < QUADS; ++i) {
        const int quad = i * THREADS + threadIdx.x;
        if (quad < quads) partial[int64_t(blockIdx.x) * quads + quad] = sums[i];
    }
}

__global__ void __launch_bounds__(THREADS) sum_slices_kernel(
    const float* __restrict__ partial, float* __restrict__ grad_weight, int size, int slices) {
    const int column = blockIdx.x * THREADS + threadIdx.x;
    if (column >= size) return;
    float sum = 0.0f;
    for (int slice = 0; slice < slices; ++slice) sum += partial[int64_t(slice) * size + column];
    grad_weight[column] = sum;
}

// All tensors (tokens, size) but weight (size) and scales (tokens); size a multiple of 4, at most 8192.
extern "C" int rmsnorm(
    const float* x, const float* weight, float* out, float* scales, int64_t tokens, int64_t size, float eps,
    cudaStream_t stream) {
    if (size % 4 != 0 || size > 8 * 4 * THREADS) return cudaErrorInvalidValue;
    if (tokens * size == 0) return 0;
    const auto quads = [](auto* pointer) { return reinterpret_cast<const float4*>(pointer); };
    const auto kernel = size <= 1 * 4 * THREADS   ? rmsnorm_kernel<1>
                        : size <= 4 * 4 * THREADS ? rmsnorm_kernel<4>
                                                  : rmsnorm_kernel<8>;
    kernel<<<tokens, THREADS, 0, stream>>>(
        quads(x), quads(weight), reinterpret_cast<float4*>(out), scales, size / 4, eps);
    return cudaGetLastError();
}

// grad_x = scale * (grad * weight - x * scale^2 * mean(grad * weight * x)), grad_weight = sum of grad * x * scale over rows.
// partial: (slices, size), scratch of the caller's.
extern "C" int rmsnorm_backward(
    const float* grad, const float* x, const float* weight, const float* scales, float* grad_x, float* partial,
    float* grad_weight, int64_t tokens, int64_t size, int64_t slices, cudaStream_t stream) {
    if (size % 4 != 0 || size > 8 * 4 * THREADS || tokens > INT32_MAX) return cudaErrorInvalidValue;
    if (size == 0) return 0;
    const auto quads = [](auto* pointer) { return reinterpret_cast<const float4*>(pointer); };
    const auto kernel = size <= 1 * 4 * THREADS   ? rmsnorm_backward_kernel<1>
                        : size <= 4 * 4 * THREADS ? rmsnorm_backward_kernel<4>
                                                  : rmsnorm_backward_kernel<8>;
    if (slices > 0)
        kernel<<<slices, THREADS, 0, stream>>>(
            quads(grad), quads(x), quads(weight), scales, reinterpret_cast<float4*>(grad_x),
            reinterpret_cast<float4*>(partial), tokens, size / 4);
    sum_slices_kernel<<<(size + THREADS - 1) / THREADS, THREADS, 0, stream>>>(partial, grad_weight, size, slices);
    return cudaGetLastError();
}

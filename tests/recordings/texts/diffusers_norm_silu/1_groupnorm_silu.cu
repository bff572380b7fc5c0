// SiLU(GroupNorm(x)) in bf16: a block for each group reads it three times, for mean, variance and result.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

constexpr int THREADS = 1024;

__device__ float sum_of_block(float value) {
    __shared__ float of_warps[THREADS / 32];
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(~0u, value, offset);
    __syncthreads();
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
    __syncthreads();
    value = of_warps[threadIdx.x % 32];
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(~0u, value, offset);
    return value;
}

__global__ void __launch_bounds__(THREADS) groupnorm_silu_kernel(
    const __nv_bfloat16* x, const __nv_bfloat16* weight, const __nv_bfloat16* bias, __nv_bfloat16* out,
    int64_t elements, int64_t pixels, int groups, int channels_per_group, float eps) {
    x += blockIdx.x * elements;
    out += blockIdx.x * elements;
    float sum = 0.0f, squares = 0.0f;
    for (int64_t i = threadIdx.x; i < elements; i += THREADS) sum += __bfloat162float(x[i]);
    const float mean = sum_of_block(sum) / elements;
    for (int64_t i = threadIdx.x; i < elements; i += THREADS) {
        const float deviation = __bfloat162float(x[i]) - mean;
        squares += deviation * deviation;
    }
    const float scale = rsqrtf(sum_of_block(squares) / elements + eps);
    for (int64_t i = threadIdx.x; i < elements; i += THREADS) {
        const int channel = blockIdx.x % groups * channels_per_group + i / pixels;
        const float value = (__bfloat162float(x[i]) - mean) * scale * __bfloat162float(weight[channel]) + __bfloat162float(bias[channel]);
        out[i] = __float2bfloat16_rn(value / (1.0f + __expf(-value)));
    }
}

extern "C" int groupnorm_silu(
    const __nv_bfloat16* x, const __nv_bfloat16* weight, const __nv_bfloat16* bias, __nv_bfloat16* out,
    int64_t n, int64_t channels, int64_t pixels, int64_t groups, float eps, cudaStream_t stream) {
    if (n * channels * pixels == 0) return 0;
    groupnorm_silu_kernel<<<n * groups, THREADS, 0, stream>>>(
        x, weight, bias, out, channels / groups * pixels, pixels, groups, channels / groups, eps);
    return cudaGetLastError();
}

// out = max(weight * x / sqrt(mean of a plane's x^2 + eps) + bias, tau), NCHW fp32.
//
// One block a plane, which is read once and again from the cache; four pixels a load where planes begin at a multiple of four.

#include <cmath>
#include <cstdint>
#include <cuda_runtime.h>

__device__ float square(float v) { return v * v; }
__device__ float square(float4 v) { return v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w; }

struct Line {
    float slope, offset, least;

    __device__ float operator()(float v) const {
        const float y = v * slope + offset;
        return y >= least || y != y ? y : least;
    }
    __device__ float4 operator()(float4 v) const {
        return {(*this)(v.x), (*this)(v.y), (*this)(v.z), (*this)(v.w)};
    }
};

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

// Packs: of type Pack, one pixel or four.
template <typename Pack, int THREADS>
__global__ void __launch_bounds__(THREADS) norm_kernel(
    const Pack* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias,
    const float* __restrict__ tau, Pack* __restrict__ out, int channels, int packs, float pixels, float eps) {
    const int64_t first = int64_t(blockIdx.x) * packs;
    const int channel = blockIdx.x % channels;
    float squares = 0.0f;
#pragma unroll 4
    for (int i = threadIdx.x; i < packs; i += THREADS) squares += square(x[first + i]);
    const float scale = rsqrtf(sum_of_block<THREADS>(squares) / pixels + eps);
    const Line line = {scale * weight[channel], bias[channel], tau ? tau[channel] : -INFINITY};
#pragma unroll 4
    for (int i = threadIdx.x; i < packs; i += THREADS) out[first + i] = line(x[first + i]);
}

template <typename Pack>
int launch(
    const float* x, const float* weight, const float* bias, const float* tau, float* out, int64_t planes, int64_t channels,
    int64_t pixels, float eps, cudaStream_t stream) {
    const int packs = pixels * sizeof(float) / sizeof(Pack);
    const auto kernel = packs <= 64 ? norm_kernel<Pack, 32> : packs <= 512 ? norm_kernel<Pack, 128> : norm_kernel<Pack, 512>;
    const int threads = packs <= 64 ? 32 : packs <= 512 ? 128 : 512;
    kernel<<<planes, threads, 0, stream>>>(
        reinterpret_cast<const Pack*>(x), weight, bias, tau, reinterpret_cast<Pack*>(out), channels, packs, pixels, eps);
    return cudaGetLastError();
}

// x and out (images, channels, pixels), the others (channels); tau may be null: nothing is cut off.
extern "C" int filter_response_norm(
    const float* x, const float* weight, const float* bias, const float* tau, float* out, int64_t images, int64_t channels,
    int64_t pixels, float eps, cudaStream_t stream) {
    const int64_t planes = images * channels;
    if (planes > INT32_MAX || pixels > INT32_MAX) return cudaErrorInvalidValue;
    if (planes * pixels == 0) return 0;
    const bool fours = pixels % 4 == 0 && (reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(out)) % 16 == 0;
    return (fours ? launch<float4> : launch<float>)(x, weight, bias, tau, out, planes, channels, pixels, eps, stream);
}

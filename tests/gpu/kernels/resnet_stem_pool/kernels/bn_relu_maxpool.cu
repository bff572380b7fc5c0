// BatchNorm (running statistics), ReLU and 3x3 max-pooling with stride 2 and padding 1, fp32, NCHW.
//
// A thread makes two neighbouring output columns over ROWS output rows: one 16-byte load gives the four input columns
// they own, and the column to their left comes from the cache line of the neighbour. Pooling after ReLU never yields
// less than 0, so padding counts as 0.

#include <cstdint>
#include <cuda_runtime.h>

constexpr int THREADS = 224;
constexpr int ROWS = 2;

__device__ __forceinline__ float max_nan(float a, float b) {  // like torch, NaN wins
    float result;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
}

__global__ void __launch_bounds__(THREADS) bn_relu_maxpool_kernel(
    const float* __restrict__ x, const float* __restrict__ mean, const float* __restrict__ var,
    const float* __restrict__ weight, const float* __restrict__ bias, float* __restrict__ out,
    unsigned items, int channels, int height, int width, float eps) {
    const unsigned item = blockIdx.x * THREADS + threadIdx.x;
    if (item >= items) return;
    const int out_height = (height + 1) / 2;
    const unsigned quads = width / 4;
    const unsigned strips = (out_height + ROWS - 1) / ROWS;
    const int quad = item % quads;
    const int strip = item / quads % strips;
    const int64_t plane = item / quads / strips;
    const int channel = unsigned(plane) % channels;

    const float shift = bias[channel];
    const float center = mean[channel];
    const float scale = weight[channel] * rsqrtf(var[channel] + eps);
    const int first = strip * ROWS * 2 - 1;  // input row above the first window's centre
    const float* source = x + (plane * height + first) * width + quad * 4;

    float4 own[2 * ROWS + 1];
    float left[2 * ROWS + 1];
#pragma unroll
    for (int i = 0; i < 2 * ROWS + 1; ++i) {
        const int row = first + i;
        const bool inside = row >= 0 && row < height;
        own[i] = inside ? *reinterpret_cast<const float4*>(source + int64_t(i) * width) : make_float4(0, 0, 0, 0);
        left[i] = inside && quad > 0 ? source[int64_t(i) * width - 1] : 0.0f;
    }

    float2 wide[2 * ROWS + 1];  // each input row's maximum over three columns, for both output columns
#pragma unroll
    for (int i = 0; i < 2 * ROWS + 1; ++i) {
        const int row = first + i;
        const auto activate = [&](float value) { return max_nan((value - center) * scale + shift, 0.0f); };
        const float a = quad > 0 ? activate(left[i]) : 0.0f;
        const float b = activate(own[i].x), c = activate(own[i].y), d = activate(own[i].z), e = activate(own[i].w);
        const bool inside = row >= 0 && row < height;
        wide[i].x = inside ? max_nan(max_nan(a, b), c) : 0.0f;
        wide[i].y = inside ? max_nan(max_nan(c, d), e) : 0.0f;
    }

    const int out_width = width / 2;
    float* target = out + (plane * out_height + strip * ROWS) * out_width + quad * 2;
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
        if (strip * ROWS + i >= out_height) break;
        float2 best;
        best.x = max_nan(max_nan(wide[2 * i].x, wide[2 * i + 1].x), wide[2 * i + 2].x);
        best.y = max_nan(max_nan(wide[2 * i].y, wide[2 * i + 1].y), wide[2 * i + 2].y);
        *reinterpret_cast<float2*>(target + int64_t(i) * out_width) = best;
    }
}

// x (n, channels, height, width), out (n, channels, ceil(height / 2), width / 2); width a multiple of 4, at most 2^31 elements.
extern "C" int bn_relu_maxpool(
    const float* x, const float* mean, const float* var, const float* weight, const float* bias, float* out,
    int64_t n, int64_t channels, int64_t height, int64_t width, float eps, cudaStream_t stream) {
    if (width % 4 != 0 || n * channels * height * width > INT32_MAX) return cudaErrorInvalidValue;
    const int64_t strips = ((height + 1) / 2 + ROWS - 1) / ROWS;
    const int64_t items = n * channels * strips * (width / 4);
    const int64_t blocks = (items + THREADS - 1) / THREADS;
    if (blocks == 0) return 0;
    bn_relu_maxpool_kernel<<<blocks, THREADS, 0, stream>>>(x, mean, var, weight, bias, out, items, channels, height, width, eps);
    return cudaGetLastError();
}

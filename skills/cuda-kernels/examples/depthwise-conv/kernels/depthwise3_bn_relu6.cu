// relu6(batch_norm(depthwise 3x3 convolution of x, padding 1)) with running statistics; fp32, NCHW.
//
// A thread makes four columns of ROWS output rows. Each of its ROWS + 2 input rows is one 16-byte load and its two
// neighbours, which are in the same cache lines; all loads are issued before the first use.

#include <cstdint>
#include <cuda_runtime.h>

constexpr int THREADS = 128;
constexpr int ROWS = 4;

__global__ void __launch_bounds__(THREADS) depthwise3_bn_relu6_kernel(
    const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ mean,
    const float* __restrict__ var, const float* __restrict__ gamma, const float* __restrict__ beta,
    float* __restrict__ out, unsigned items, unsigned channels, int height, int width, float eps) {
    const unsigned item = blockIdx.x * THREADS + threadIdx.x;
    if (item >= items) return;
    const unsigned quads = width / 4, strips = (height + ROWS - 1) / ROWS;
    const int column = item % quads * 4, top = item / quads % strips * ROWS;
    const unsigned plane = item / quads / strips, channel = plane % channels;

    float in[ROWS + 2][6];
#pragma unroll
    for (int i = 0; i < ROWS + 2; ++i) {
        const int row = top - 1 + i;
        const bool inside = row >= 0 && row < height;
        const float* source = x + (int64_t(plane) * height + row) * width + column;
        const float4 own = inside ? *reinterpret_cast<const float4*>(source) : make_float4(0, 0, 0, 0);
        in[i][0] = inside && column > 0 ? source[-1] : 0.0f;
        in[i][1] = own.x, in[i][2] = own.y, in[i][3] = own.z, in[i][4] = own.w;
        in[i][5] = inside && column + 4 < width ? source[4] : 0.0f;
    }
    float taps[9];
#pragma unroll
    for (int i = 0; i < 9; ++i) taps[i] = weight[channel * 9 + i];
    const float center = mean[channel], scale = gamma[channel] * rsqrtf(var[channel] + eps), shift = beta[channel];

#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
        if (top + i >= height) break;
        float result[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            float sum = 0.0f;
#pragma unroll
            for (int k = 0; k < 9; ++k) sum += in[i + k / 3][j + k % 3] * taps[k];
            const float value = (sum - center) * scale + shift;
            result[j] = value < 0.0f ? 0.0f : value > 6.0f ? 6.0f : value;  // NaN passes, as in torch
        }
        float* target = out + (int64_t(plane) * height + top + i) * width + column;
        *reinterpret_cast<float4*>(target) = {result[0], result[1], result[2], result[3]};
    }
}

// x, out (n, channels, height, width), weight (channels, 1, 3, 3); width a multiple of 4, at most 2^31 elements.
extern "C" int depthwise3_bn_relu6(
    const float* x, const float* weight, const float* mean, const float* var, const float* gamma, const float* beta,
    float* out, int64_t n, int64_t channels, int64_t height, int64_t width, float eps, cudaStream_t stream) {
    if (width % 4 != 0 || n * channels * height * width > INT32_MAX) return cudaErrorInvalidValue;
    const int64_t items = n * channels * ((height + ROWS - 1) / ROWS) * (width / 4);
    if (items == 0) return 0;
    depthwise3_bn_relu6_kernel<<<(items + THREADS - 1) / THREADS, THREADS, 0, stream>>>(
        x, weight, mean, var, gamma, beta, out, items, channels, height, width, eps);
    return cudaGetLastError();
}

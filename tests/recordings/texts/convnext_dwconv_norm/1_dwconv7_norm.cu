// Depthwise 7x7 convolution (padding 3), a thread for each output, then LayerNorm over the channels, a warp for each pixel.

#include <cstdint>
#include <cuda_runtime.h>

__global__ void dwconv7_kernel(
    const float* x, const float* weight, const float* bias, float* conv, int64_t count, int channels, int height, int width) {
    const int64_t item = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (item >= count) return;
    const int column = item % width, row = item / width % height, channel = item / width / height % channels;
    const float* image = x + item / width / height * height * width;
    float sum = bias[channel];
    for (int i = 0; i < 7; ++i)
        for (int j = 0; j < 7; ++j) {
            const int y = row + i - 3, z = column + j - 3;
            if (y >= 0 && y < height && z >= 0 && z < width) sum += image[y * width + z] * weight[channel * 49 + i * 7 + j];
        }
    conv[item] = sum;
}

__device__ float sum_of_warp(float value) {
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(~0u, value, offset);
    return value;
}

__global__ void norm_kernel(
    const float* conv, const float* weight, const float* bias, float* out, int64_t count, int channels, int64_t pixels, float eps) {
    const int64_t pixel = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
    if (pixel >= count) return;
    const int lane = threadIdx.x % 32;
    const float* values = conv + pixel / pixels * channels * pixels + pixel % pixels;
    float sum = 0.0f, squares = 0.0f;
    for (int c = lane; c < channels; c += 32) sum += values[c * pixels];
    const float mean = sum_of_warp(sum) / channels;
    for (int c = lane; c < channels; c += 32) squares += (values[c * pixels] - mean) * (values[c * pixels] - mean);
    const float scale = rsqrtf(sum_of_warp(squares) / channels + eps);
    for (int c = lane; c < channels; c += 32) out[pixel * channels + c] = (values[c * pixels] - mean) * scale * weight[c] + bias[c];
}

// conv: room for the convolution, as large as x.
extern "C" int dwconv7_norm(
    const float* x, const float* weight, const float* bias, const float* norm_weight, const float* norm_bias, float* conv,
    float* out, int64_t n, int64_t channels, int64_t height, int64_t width, float eps, cudaStream_t stream) {
    const int64_t count = n * channels * height * width, pixels = n * height * width;
    if (count == 0) return 0;
    dwconv7_kernel<<<(count + 255) / 256, 256, 0, stream>>>(x, weight, bias, conv, count, channels, height, width);
    norm_kernel<<<(pixels * 32 + 255) / 256, 256, 0, stream>>>(
        conv, norm_weight, norm_bias, out, pixels, channels, height * width, eps);
    return cudaGetLastError();
}

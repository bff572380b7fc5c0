#include <cuda_runtime.h>
#include <cstdint>

__global__ void bias_gelu_scale_kernel(const float* x, const float* bias, float* out, int64_t n, int64_t features, float scale) {
    int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i < n) {
        float v = x[i] + bias[i % features];
        out[i] = 0.5f * v * (1.0f + erff(v * 0.70710678f)) * scale;
    }
}

extern "C" int bias_gelu_scale(const float* x, const float* bias, float* out, int64_t n, int64_t features, float scale,
                               cudaStream_t stream) {
    bias_gelu_scale_kernel<<<(unsigned)((n + 255) / 256), 256, 0, stream>>>(x, bias, out, n, features, scale);
    return cudaGetLastError();
}

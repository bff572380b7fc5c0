// out = x * scale + shift, with scale and shift of each channel from frozen statistics, NCHW fp32; one pass over memory.

#include <cmath>
#include <cstdint>

extern "C" int frozen_batch_norm(
    const float* x, const float* weight, const float* bias, const float* mean, const float* variance, float* out,
    int64_t images, int64_t channels, int64_t pixels, float eps) {
#pragma omp parallel for
    for (int64_t plane = 0; plane < images * channels; ++plane) {
        const int64_t c = plane % channels;
        const float scale = weight[c] / std::sqrt(variance[c] + eps);
        const float shift = bias[c] - mean[c] * scale;
        const float* from = x + plane * pixels;
        float* to = out + plane * pixels;
#pragma omp simd
        for (int64_t i = 0; i < pixels; ++i) to[i] = from[i] * scale + shift;
    }
    return 0;
}

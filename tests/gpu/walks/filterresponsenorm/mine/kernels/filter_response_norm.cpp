// out = max(weight * x / sqrt(mean of a plane's x^2 + eps) + bias, tau), NCHW fp32; each plane is read once and again from the cache.

#include <cmath>
#include <cstdint>

// tau may be null: nothing is cut off.
extern "C" int filter_response_norm(
    const float* x, const float* weight, const float* bias, const float* tau, float* out, int64_t images, int64_t channels,
    int64_t pixels, float eps) {
#pragma omp parallel for
    for (int64_t plane = 0; plane < images * channels; ++plane) {
        const int64_t channel = plane % channels;
        const float* from = x + plane * pixels;
        float* to = out + plane * pixels;
        float squares = 0.0f;
#pragma omp simd reduction(+ : squares)
        for (int64_t p = 0; p < pixels; ++p) squares += from[p] * from[p];
        const float scale = 1.0f / std::sqrt(squares / pixels + eps);
        const float w = weight[channel], b = bias[channel], least = tau ? tau[channel] : -INFINITY;
#pragma omp simd
        for (int64_t p = 0; p < pixels; ++p) {
            const float y = from[p] * scale * w + b;
            to[p] = y >= least || y != y ? y : least;
        }
    }
    return 0;
}

#include <cmath>
#include <cstdint>

extern "C" int bias_gelu_scale(const float* x, const float* bias, float* out, int64_t n, int64_t features, float scale) {
    int64_t rows = n / features;
#pragma omp parallel for
    for (int64_t r = 0; r < rows; ++r) {
        const float* in = x + r * features;
        float* to = out + r * features;
        for (int64_t c = 0; c < features; ++c) {
            float v = in[c] + bias[c];
            to[c] = 0.5f * v * (1.0f + std::erf(v * 0.70710678f)) * scale;
        }
    }
    return 0;
}

// out = weight * x / sqrt(mean(x^2) + eps) over the last dimension, fp32; a thread takes whole rows.

#include <cmath>
#include <cstdint>

extern "C" int rms_norm(const float* x, const float* weight, float* out, int64_t rows, int64_t size, float eps) {
#pragma omp parallel for
    for (int64_t row = 0; row < rows; ++row) {
        const float* in = x + row * size;
        float* to = out + row * size;
        float squares = 0.0f;
#pragma omp simd reduction(+ : squares)
        for (int64_t i = 0; i < size; ++i) squares += in[i] * in[i];
        const float scale = 1.0f / std::sqrt(squares / size + eps);
#pragma omp simd
        for (int64_t i = 0; i < size; ++i) to[i] = weight[i] * (in[i] * scale);
    }
    return 0;
}

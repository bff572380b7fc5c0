// normed = weight * rms_normalise(hidden + residual), total = hidden + residual; a thread takes whole rows, fp32.

#include <cmath>
#include <cstdint>

extern "C" int residual_rmsnorm(
    const float* hidden, const float* residual, const float* weight, float* normed, float* total,
    int64_t tokens, int64_t size, float eps) {
#pragma omp parallel for
    for (int64_t row = 0; row < tokens; ++row) {
        const float* a = hidden + row * size;
        const float* b = residual + row * size;
        float* sum = total + row * size;
        float* out = normed + row * size;
        float squares = 0.0f;
#pragma omp simd reduction(+ : squares)
        for (int64_t i = 0; i < size; ++i) {
            sum[i] = a[i] + b[i];
            squares += sum[i] * sum[i];
        }
        const float scale = 1.0f / std::sqrt(squares / size + eps);
#pragma omp simd
        for (int64_t i = 0; i < size; ++i) out[i] = weight[i] * (sum[i] * scale);
    }
    return 0;
}

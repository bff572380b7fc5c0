// RMSNorm, forward and backward, fp32. Forward keeps each row's scale, so that backward needs no statistics of its own.
//
// The gradient of weight is a sum over rows: each slice of rows sums its own, then the slices are summed in order. No atomics,
// so that the same inputs give the same gradient.

#include <cmath>
#include <cstdint>

extern "C" int rmsnorm(
    const float* x, const float* weight, float* out, float* scales, int64_t tokens, int64_t size, float eps) {
#pragma omp parallel for
    for (int64_t row = 0; row < tokens; ++row) {
        const float* in = x + row * size;
        float squares = 0.0f;
#pragma omp simd reduction(+ : squares)
        for (int64_t i = 0; i < size; ++i) squares += in[i] * in[i];
        const float scale = 1.0f / std::sqrt(squares / size + eps);
        scales[row] = scale;
#pragma omp simd
        for (int64_t i = 0; i < size; ++i) out[row * size + i] = weight[i] * (in[i] * scale);
    }
    return 0;
}

// grad_x = scale * (grad * weight - x * scale^2 * mean(grad * weight * x)), grad_weight = sum of grad * x * scale over rows.
extern "C" int rmsnorm_backward(
    const float* grad, const float* x, const float* weight, const float* scales, float* grad_x, float* partial,
    float* grad_weight, int64_t tokens, int64_t size, int64_t slices) {
#pragma omp parallel for
    for (int64_t slice = 0; slice < slices; ++slice) {
        float* sums = partial + slice * size;
        for (int64_t i = 0; i < size; ++i) sums[i] = 0.0f;
        for (int64_t row = slice; row < tokens; row += slices) {
            const float* g = grad + row * size;
            const float* in = x + row * size;
            const float scale = scales[row];
            float dot = 0.0f;
#pragma omp simd reduction(+ : dot)
            for (int64_t i = 0; i < size; ++i) dot += g[i] * weight[i] * in[i];
            const float pull = scale * scale * dot / size;
#pragma omp simd
            for (int64_t i = 0; i < size; ++i) {
                grad_x[row * size + i] = scale * (g[i] * weight[i] - in[i] * pull);
                sums[i] += g[i] * in[i] * scale;
            }
        }
    }
#pragma omp parallel for
    for (int64_t i = 0; i < size; ++i) {
        float sum = 0.0f;
        for (int64_t slice = 0; slice < slices; ++slice) sum += partial[slice * size + i];
        grad_weight[i] = sum;
    }
    return 0;
}

// out = scale * c / sqrt(eps + mean over rows of |c|^2), c = x - mean over rows of x; fp32.
//
// Each slice of rows has its own means and squared deviations, which are merged in order: what stays in the cache is read twice.
// The last row of means and squares holds what all slices come to.

#include <cmath>
#include <cstdint>

static int64_t first_row(int64_t slice, int64_t rows, int64_t slices) { return slice * rows / slices; }

extern "C" int pair_norm(
    const float* x, float* means, float* squares, float* out, int64_t rows, int64_t cols, int64_t slices, float scale,
    float eps) {
#pragma omp parallel for
    for (int64_t slice = 0; slice < slices; ++slice) {
        const int64_t first = first_row(slice, rows, slices), end = first_row(slice + 1, rows, slices);
        float* mean = means + slice * cols;
        float* square = squares + slice * cols;
        for (int64_t i = 0; i < cols; ++i) mean[i] = square[i] = 0.0f;
        for (int64_t row = first; row < end; ++row) {
#pragma omp simd
            for (int64_t i = 0; i < cols; ++i) mean[i] += x[row * cols + i];
        }
#pragma omp simd
        for (int64_t i = 0; i < cols; ++i) mean[i] /= end - first;
        for (int64_t row = first; row < end; ++row) {
#pragma omp simd
            for (int64_t i = 0; i < cols; ++i) {
                const float d = x[row * cols + i] - mean[i];
                square[i] += d * d;
            }
        }
    }
    float* mean = means + slices * cols;
    float* square = squares + slices * cols;
    for (int64_t i = 0; i < cols; ++i) mean[i] = square[i] = 0.0f;
    float total = 0.0f;
    for (int64_t slice = 0; slice < slices; ++slice) {
        const float before = first_row(slice, rows, slices), now = first_row(slice + 1, rows, slices);
#pragma omp simd
        for (int64_t i = 0; i < cols; ++i) {
            const float d = means[slice * cols + i] - mean[i];
            square[i] += squares[slice * cols + i] + d * d * (before * (now - before) / now);
            mean[i] += d * ((now - before) / now);
        }
    }
    for (int64_t i = 0; i < cols; ++i) total += square[i];
    const float factor = scale / std::sqrt(eps + total / rows);
#pragma omp parallel for
    for (int64_t row = 0; row < rows; ++row) {
#pragma omp simd
        for (int64_t i = 0; i < cols; ++i) out[row * cols + i] = (x[row * cols + i] - mean[i]) * factor;
    }
    return 0;
}

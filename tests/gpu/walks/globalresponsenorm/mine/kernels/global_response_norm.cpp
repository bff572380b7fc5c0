// out = gamma * x * |x_c| / (mean over c of |x_c| + 1e-6) + beta + x, |x_c| over the pixels of a picture, NHWC fp32.

#include <cmath>
#include <cstdint>

extern "C" int global_response_norm(
    const float* x, const float* gamma, const float* beta, float* scale, float* out, int64_t images, int64_t pixels,
    int64_t channels) {
    if (channels == 0) return 0;
    for (int64_t image = 0; image < images; ++image) {
        const float* from = x + image * pixels * channels;
        float* to = out + image * pixels * channels;
        float* factor = scale + image * channels;
        constexpr int64_t PART = 64;
#pragma omp parallel for
        for (int64_t first = 0; first < channels; first += PART) {
            const int64_t count = first + PART < channels ? PART : channels - first;
            double squares[PART] = {};
            for (int64_t p = 0; p < pixels; ++p) {
                const float* row = from + p * channels + first;
#pragma omp simd
                for (int64_t c = 0; c < count; ++c) squares[c] += double(row[c]) * row[c];
            }
            for (int64_t c = 0; c < count; ++c) factor[first + c] = float(std::sqrt(squares[c]));
        }
        double sum = 0.0;
        for (int64_t c = 0; c < channels; ++c) sum += factor[c];
        const float mean = float(sum / channels) + 1e-6f;
        for (int64_t c = 0; c < channels; ++c) factor[c] /= mean;
#pragma omp parallel for
        for (int64_t p = 0; p < pixels; ++p) {
            const float* row = from + p * channels;
            float* result = to + p * channels;
#pragma omp simd
            for (int64_t c = 0; c < channels; ++c) result[c] = gamma[c] * (row[c] * factor[c]) + beta[c] + row[c];
        }
    }
    return 0;
}

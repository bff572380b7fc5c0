// LayerNorm over the channels of NCHW, written as NHWC, fp32: a tile of pixels is transposed while its statistics are found.

#include <cmath>
#include <cstdint>

constexpr int TILE = 32;
constexpr int64_t MOST = 1024;

extern "C" int layer_norm_2d(
    const float* x, const float* weight, const float* bias, float* out, int64_t images, int64_t channels, int64_t pixels,
    float eps) {
    if (channels > MOST) return 1;
    const int64_t tiles = (pixels + TILE - 1) / TILE;
#pragma omp parallel for collapse(2)
    for (int64_t image = 0; image < images; ++image) {
        for (int64_t tile = 0; tile < tiles; ++tile) {
            const int64_t first = tile * TILE, count = pixels - first < TILE ? pixels - first : TILE;
            const float* from = x + image * channels * pixels + first;
            float* to = out + (image * pixels + first) * channels;
            float sums[TILE] = {}, squares[TILE] = {};
            for (int64_t c = 0; c < channels; ++c) {
#pragma omp simd
                for (int64_t p = 0; p < count; ++p) sums[p] += from[c * pixels + p];
            }
            for (int64_t p = 0; p < count; ++p) sums[p] /= channels;
            for (int64_t c = 0; c < channels; ++c) {
#pragma omp simd
                for (int64_t p = 0; p < count; ++p) {
                    const float d = from[c * pixels + p] - sums[p];
                    squares[p] += d * d;
                }
            }
            for (int64_t p = 0; p < count; ++p) squares[p] = 1.0f / std::sqrt(squares[p] / channels + eps);
            for (int64_t p = 0; p < count; ++p) {
                for (int64_t c = 0; c < channels; ++c)
                    to[p * channels + c] = (from[c * pixels + p] - sums[p]) * squares[p] * weight[c] + bias[c];
            }
        }
    }
    return 0;
}

// The same of pixels whose channels lie side by side already, as they do in channels_last: one row a pixel.
extern "C" int layer_norm_rows(
    const float* x, const float* weight, const float* bias, float* out, int64_t rows, int64_t channels, float eps) {
#pragma omp parallel for
    for (int64_t row = 0; row < rows; ++row) {
        const float* from = x + row * channels;
        float* to = out + row * channels;
        float sum = 0.0f, square = 0.0f;
#pragma omp simd reduction(+ : sum)
        for (int64_t c = 0; c < channels; ++c) sum += from[c];
        const float mean = sum / channels;
#pragma omp simd reduction(+ : square)
        for (int64_t c = 0; c < channels; ++c) square += (from[c] - mean) * (from[c] - mean);
        const float scale = 1.0f / std::sqrt(square / channels + eps);
#pragma omp simd
        for (int64_t c = 0; c < channels; ++c) to[c] = (from[c] - mean) * scale * weight[c] + bias[c];
    }
    return 0;
}

// BatchNorm, ReLU and 3x3 max-pooling with stride 2: a thread pads a plane, so that no window needs a border case.

#include <cmath>
#include <cstdint>

extern "C" int padded_pool(
    const float* x, const float* mean, const float* var, const float* weight, const float* bias, float* out,
    int64_t n, int64_t channels, int64_t height, int64_t width, float eps) {
    const int64_t out_height = (height + 1) / 2, out_width = (width + 1) / 2, pitch = width + 2;
#pragma omp parallel for
    for (int64_t plane = 0; plane < n * channels; ++plane) {
        std::vector<float> padded((height + 2) * pitch);
        for (int64_t row = 0; row < height; ++row)
            for (int64_t i = 0; i < width; ++i) padded[(row + 1) * pitch + i + 1] = x[(plane * height + row) * width + i];
        const int64_t c = plane % channels;
        const float scale = weight[c] / std::sqrt(var[c] + eps);
        for (float& value : padded) {
            const float normalised = (value - mean[c]) * scale + bias[c];
            value = normalised < 0.0f ? 0.0f : normalised;
        }
        for (int64_t row = 0; row < out_height; ++row)
            for (int64_t column = 0; column < out_width; ++column) {
                const float* window = &padded[2 * row * pitch + 2 * column];
                float best = window[0];
                for (int64_t i = 0; i < 3; ++i)
                    for (int64_t j = 0; j < 3; ++j) {
                        const float value = window[i * pitch + j];
                        best = value > best || value != value ? value : best;  // like torch, NaN wins
                    }
                out[(plane * out_height + row) * out_width + column] = best;
            }
    }
    return 0;
}

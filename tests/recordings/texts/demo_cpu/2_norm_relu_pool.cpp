// BatchNorm, ReLU and 3x3 max-pooling with stride 2, as they are defined: pixel by pixel, each output from its nine inputs.

#include <cmath>
#include <cstdint>

extern "C" int norm_relu_pool(
    const float* x, const float* mean, const float* var, const float* weight, const float* bias, float* out,
    int64_t n, int64_t channels, int64_t height, int64_t width, float eps) {
    const int64_t out_height = (height + 1) / 2, out_width = (width + 1) / 2;
    for (int64_t row = 0; row < out_height; ++row)
        for (int64_t column = 0; column < out_width; ++column)
            for (int64_t plane = 0; plane < n * channels; ++plane) {
                const int64_t c = plane % channels;
                const float* image = x + plane * height * width;
                float best = 0.0f;  // behind ReLU nothing is below 0, so padding counts as 0
                for (int64_t i = 2 * row - 1; i <= 2 * row + 1; ++i)
                    for (int64_t j = 2 * column - 1; j <= 2 * column + 1; ++j) {
                        if (i < 0 || i >= height || j < 0 || j >= width) continue;
                        const float value = (image[i * width + j] - mean[c]) / std::sqrt(var[c] + eps) * weight[c] + bias[c];
                        best = value > best || value != value ? value : best;  // like torch, NaN wins
                    }
                out[(plane * out_height + row) * out_width + column] = best;
            }
    return 0;
}

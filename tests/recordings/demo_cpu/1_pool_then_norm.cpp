// Max-pooling 3x3 with stride 2 of the raw input, then BatchNorm and ReLU on what is left: a quarter of the arithmetic.

#include <cstdint>

extern "C" int pool_then_norm(
    const float* x, const float* mean, const float* var, const float* weight, const float* bias, float* out,
    int64_t n, int64_t channels, int64_t height, int64_t width, float eps) {
    const int64_t out_height = (height + 1) / 2, out_width = (width + 1) / 2;
#pragma omp parallel for
    for (int64_t plane = 0; plane < n * channels; ++plane) {
        const int64_t c = plane % channels;
        const float scale = weight[c] / std::sqrt(var[c] + eps), shift = bias[c] - mean[c] * scale;
        const float* image = x + plane * height * width;
        for (int64_t row = 0; row < out_height; ++row)
            for (int64_t column = 0; column < out_width; ++column) {
                float best = -INFINITY;
                for (int64_t i = 2 * row - 1; i <= 2 * row + 1; ++i)
                    for (int64_t j = 2 * column - 1; j <= 2 * column + 1; ++j)
                        if (i >= 0 && i < height && j >= 0 && j < width)
                            best = best > image[i * width + j] ? best : image[i * width + j];
                const float value = best * scale + shift;
                out[(plane * out_height + row) * out_width + column] = value < 0.0f ? 0.0f : value;
            }
    }
    return 0;
}

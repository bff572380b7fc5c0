// BatchNorm (running statistics), ReLU and 3x3 max-pooling with stride 2 and padding 1, fp32, NCHW.
//
// A thread takes whole planes and reads each input row once: the maximum over three rows is taken first, eight columns
// at a time, and the last of the three rows is kept for the window below.

#include <cmath>
#include <cstdint>
#include <vector>

static inline float larger(float a, float b) { return a > b || a != a ? a : b; }  // like torch, NaN wins

extern "C" int norm_relu_pool(
    const float* x, const float* mean, const float* var, const float* weight, const float* bias, float* out,
    int64_t n, int64_t channels, int64_t height, int64_t width, float eps) {
    const int64_t out_height = (height + 1) / 2, out_width = (width + 1) / 2;
#pragma omp parallel
    {
        std::vector<float> carried(width), column_max(width + 2);
#pragma omp for
        for (int64_t plane = 0; plane < n * channels; ++plane) {
            const int64_t c = plane % channels;
            const float center = mean[c], scale = weight[c] / std::sqrt(var[c] + eps), shift = bias[c];
            const auto activate = [=](float v) { return larger((v - center) * scale + shift, 0.0f); };
            // Behind ReLU nothing is below 0, so padding counts as 0.
            for (int64_t i = 0; i < width; ++i) carried[i] = 0.0f;
            column_max[0] = column_max[width + 1] = 0.0f;
            float* const best = column_max.data() + 1;
            for (int64_t row = 0; row < out_height; ++row) {
                const float* upper = x + (plane * height + 2 * row) * width;
                const float* lower = upper + width;
                float* const kept = carried.data();
                if (2 * row + 1 < height)
#pragma omp simd
                    for (int64_t i = 0; i < width; ++i) {
                        const float below = activate(lower[i]);
                        best[i] = larger(larger(kept[i], activate(upper[i])), below);
                        kept[i] = below;
                    }
                else
#pragma omp simd
                    for (int64_t i = 0; i < width; ++i) best[i] = larger(kept[i], activate(upper[i]));
                float* const target = out + (plane * out_height + row) * out_width;
#pragma omp simd
                for (int64_t i = 0; i < out_width; ++i) target[i] = larger(larger(best[2 * i - 1], best[2 * i]), best[2 * i + 1]);
            }
        }
    }
    return 0;
}

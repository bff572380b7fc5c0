// relu6(batch_norm(depthwise 3x3 convolution of x, padding 1)) with running statistics; fp32, NCHW.
//
// A thread takes whole planes. The inner loop runs along a row without branches: the borders are handled by three
// padded row buffers that rotate, so each input row is copied once.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

extern "C" int depthwise3_bn_relu6(
    const float* x, const float* weight, const float* mean, const float* var, const float* gamma, const float* beta,
    float* out, int64_t n, int64_t channels, int64_t height, int64_t width, float eps) {
#pragma omp parallel
    {
        std::vector<float> buffer(3 * (width + 2));
#pragma omp for
        for (int64_t plane = 0; plane < n * channels; ++plane) {
            const int64_t c = plane % channels;
            const float* k = weight + c * 9;
            const float center = mean[c], scale = gamma[c] / std::sqrt(var[c] + eps), shift = beta[c];
            const float* image = x + plane * height * width;
            std::memset(buffer.data(), 0, buffer.size() * sizeof(float));
            float* above = buffer.data();
            float* middle = above + width + 2;
            float* below = middle + width + 2;
            if (height > 0) std::memcpy(middle + 1, image, width * sizeof(float));
            for (int64_t row = 0; row < height; ++row) {
                if (row + 1 < height)
                    std::memcpy(below + 1, image + (row + 1) * width, width * sizeof(float));
                else
                    std::memset(below, 0, (width + 2) * sizeof(float));
                float* target = out + (plane * height + row) * width;
#pragma omp simd
                for (int64_t i = 0; i < width; ++i) {
                    const float sum = above[i] * k[0] + above[i + 1] * k[1] + above[i + 2] * k[2] +
                                      middle[i] * k[3] + middle[i + 1] * k[4] + middle[i + 2] * k[5] +
                                      below[i] * k[6] + below[i + 1] * k[7] + below[i + 2] * k[8];
                    const float value = (sum - center) * scale + shift;
                    target[i] = value < 0.0f ? 0.0f : value > 6.0f ? 6.0f : value;  // NaN passes, as in torch
                }
                std::swap(above, middle);
                std::swap(middle, below);
            }
        }
    }
    return 0;
}

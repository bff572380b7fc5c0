// out = a * gelu(b) of rows that hold a and b side by side, fp32; one pass.
// fast-math

#include <cmath>
#include <cstdint>

extern "C" int geglu(const float* projected, float* out, int64_t rows, int64_t size) {
#pragma omp parallel for
    for (int64_t row = 0; row < rows; ++row) {
        const float* a = projected + 2 * row * size;
        const float* b = a + size;
        float* to = out + row * size;
#pragma omp simd
        for (int64_t i = 0; i < size; ++i) to[i] = a[i] * (0.5f * b[i] * (1.0f + std::erf(b[i] * 0.70710678f)));
    }
    return 0;
}

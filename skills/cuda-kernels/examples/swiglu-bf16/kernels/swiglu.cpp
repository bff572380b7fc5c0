// out = silu(gate) * up in bf16, arithmetic in fp32, rounded once.
//
// std::exp does not vectorise without fast-math, so exp is written out: 2^k times a polynomial, exact to about 2 ulp.

#include <algorithm>
#include <cstdint>
#include <cstring>

struct bfloat16 {
    uint16_t bits;
};

template <class To, class From>
static inline To as(From value) {
    To result;
    std::memcpy(&result, &value, sizeof result);
    return result;
}

static inline float widen(bfloat16 value) { return as<float>(uint32_t(value.bits) << 16); }

static inline bfloat16 round_to_even(float value) {
    const uint32_t bits = as<uint32_t>(value);
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    const uint32_t quiet_nan = bits >> 16 | 0x40;
    return {uint16_t((bits & 0x7fffffff) > 0x7f800000 ? quiet_nan : rounded)};
}

static inline float exponential(float x) {
    x = x > 88.0f ? 88.0f : x < -87.0f ? -87.0f : x;  // NaN passes
    const float magic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer in the low bits
    const float shifted = x * 1.44269504f + magic;
    const float k = shifted - magic;
    const float r = (x - k * 0.693359375f) + k * 2.12194440e-4f;  // x - k ln 2, in two parts
    float p = 1.3981999507e-3f + r * 1.9875691500e-4f;
    p = 8.3334519073e-3f + r * p;
    p = 4.1665795894e-2f + r * p;
    p = 1.6666665459e-1f + r * p;
    p = 5.0000001201e-1f + r * p;
    const float fraction = 1.0f + (r + r * r * p);
    return fraction * as<float>((as<uint32_t>(shifted) << 23) + 0x3f800000);
}

extern "C" int swiglu(const bfloat16* gate, const bfloat16* up, bfloat16* out, int64_t n) {
    constexpr int64_t CHUNK = 4096;
#pragma omp parallel for
    for (int64_t start = 0; start < n; start += CHUNK) {
        const int64_t end = std::min(start + CHUNK, n);
#pragma omp simd
        for (int64_t i = start; i < end; ++i) {
            const float g = widen(gate[i]);
            out[i] = round_to_even(g / (1.0f + exponential(-g)) * widen(up[i]));
        }
    }
    return 0;
}

// LayerNorm over the channels of pictures, fp32, written with the channels of a pixel side by side (channels_last).

#include <cmath>
#include <cstdint>

namespace {

constexpr int LANES = 8;
typedef float Lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

inline Lanes load(const float* from) { return *reinterpret_cast<const Lanes*>(from); }
inline void store(float* to, Lanes value) { *reinterpret_cast<Lanes*>(to) = value; }

template <int... I>
inline Lanes picked(Lanes a, Lanes b) { return __builtin_shufflevector(a, b, I...); }

// The sums over the lanes of each of eight vectors, in order.
inline Lanes sums_of(const Lanes (&each)[LANES]) {
    Lanes pairs[4], fours[2];
    for (int i = 0; i < 4; ++i) {
        const Lanes a = each[2 * i], b = each[2 * i + 1];
        pairs[i] = picked<0, 8, 2, 10, 4, 12, 6, 14>(a, b) + picked<1, 9, 3, 11, 5, 13, 7, 15>(a, b);
    }
    for (int i = 0; i < 2; ++i) {
        const Lanes a = pairs[2 * i], b = pairs[2 * i + 1];
        fours[i] = picked<0, 1, 8, 9, 4, 5, 12, 13>(a, b) + picked<2, 3, 10, 11, 6, 7, 14, 15>(a, b);
    }
    return picked<0, 1, 2, 3, 8, 9, 10, 11>(fours[0], fours[1]) + picked<4, 5, 6, 7, 12, 13, 14, 15>(fours[0], fours[1]);
}

inline Lanes scales_of(Lanes squares, float channels, float eps) {
    Lanes found;
    for (int i = 0; i < LANES; ++i) found[i] = 1.0f / std::sqrt(squares[i] / channels + eps);
    return found;
}

// Eight rows at once: their statistics are found side by side, each in a lane.
inline void eight_rows(const float* from, const float* weight, const float* bias, float* to, int64_t channels, float eps) {
    Lanes parts[LANES] = {};
    for (int64_t c = 0; c < channels; c += LANES)
        for (int r = 0; r < LANES; ++r) parts[r] += load(from + r * channels + c);
    const Lanes means = sums_of(parts) / static_cast<float>(channels);
    for (int r = 0; r < LANES; ++r) parts[r] = Lanes{};
    for (int64_t c = 0; c < channels; c += LANES)
        for (int r = 0; r < LANES; ++r) {
            const Lanes d = load(from + r * channels + c) - means[r];
            parts[r] += d * d;
        }
    const Lanes scales = scales_of(sums_of(parts), static_cast<float>(channels), eps);
    for (int64_t c = 0; c < channels; c += LANES) {
        const Lanes w = load(weight + c), b = load(bias + c);
        for (int r = 0; r < LANES; ++r)
            store(to + r * channels + c, (load(from + r * channels + c) - means[r]) * scales[r] * w + b);
    }
}

// Turns eight rows of eight into its columns.
inline void transpose(Lanes (&m)[LANES]) {
    Lanes two[LANES], four[LANES];
    for (int i = 0; i < LANES; i += 2) {
        two[i] = picked<0, 8, 2, 10, 4, 12, 6, 14>(m[i], m[i + 1]);
        two[i + 1] = picked<1, 9, 3, 11, 5, 13, 7, 15>(m[i], m[i + 1]);
    }
    for (int i = 0; i < LANES; i += 4)
        for (int j = i; j < i + 2; ++j) {
            four[j] = picked<0, 1, 8, 9, 4, 5, 12, 13>(two[j], two[j + 2]);
            four[j + 2] = picked<2, 3, 10, 11, 6, 7, 14, 15>(two[j], two[j + 2]);
        }
    for (int j = 0; j < 4; ++j) {
        m[j] = picked<0, 1, 2, 3, 8, 9, 10, 11>(four[j], four[j + 4]);
        m[j + 4] = picked<4, 5, 6, 7, 12, 13, 14, 15>(four[j], four[j + 4]);
    }
}

// Eight pixels of a picture whose channels lie apart: a lane is a pixel, and what is written is turned on the way.
inline void eight_pixels(
    const float* from, const float* weight, const float* bias, float* to, int64_t channels, int64_t pixels, float eps) {
    Lanes sum = {}, square = {};
    for (int64_t c = 0; c < channels; ++c) sum += load(from + c * pixels);
    const Lanes mean = sum / static_cast<float>(channels);
    for (int64_t c = 0; c < channels; ++c) {
        const Lanes d = load(from + c * pixels) - mean;
        square += d * d;
    }
    const Lanes scale = scales_of(square, static_cast<float>(channels), eps);
    for (int64_t c = 0; c < channels; c += LANES) {
        Lanes block[LANES];
        for (int i = 0; i < LANES; ++i)
            block[i] = (load(from + (c + i) * pixels) - mean) * scale * weight[c + i] + bias[c + i];
        transpose(block);
        for (int p = 0; p < LANES; ++p) store(to + p * channels + c, block[p]);
    }
}

// One pixel, ``apart`` from channel to channel.
template <bool SIDE_BY_SIDE>
void one_row(
    const float* from, const float* weight, const float* bias, float* to, int64_t channels, int64_t apart, float eps) {
    const int64_t step = SIDE_BY_SIDE ? 1 : apart;
    float sum = 0.0f, square = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < channels; ++c) sum += from[c * step];
    const float mean = sum / channels;
#pragma omp simd reduction(+ : square)
    for (int64_t c = 0; c < channels; ++c) square += (from[c * step] - mean) * (from[c * step] - mean);
    const float scale = 1.0f / std::sqrt(square / channels + eps);
#pragma omp simd
    for (int64_t c = 0; c < channels; ++c) to[c] = (from[c * step] - mean) * scale * weight[c] + bias[c];
}

}  // namespace

extern "C" int layer_norm_rows(
    const float* x, const float* weight, const float* bias, float* out, int64_t rows, int64_t channels, float eps) {
    const int64_t groups = channels % LANES ? 0 : rows / LANES;
#pragma omp parallel
    {
#pragma omp for nowait
        for (int64_t group = 0; group < groups; ++group) {
            const int64_t first = group * LANES * channels;
            eight_rows(x + first, weight, bias, out + first, channels, eps);
        }
#pragma omp for
        for (int64_t row = groups * LANES; row < rows; ++row)
            one_row<true>(x + row * channels, weight, bias, out + row * channels, channels, 1, eps);
    }
    return 0;
}

extern "C" int layer_norm_2d(
    const float* x, const float* weight, const float* bias, float* out, int64_t images, int64_t channels, int64_t pixels,
    float eps) {
    const int64_t groups = channels % LANES ? 0 : pixels / LANES, rest = pixels - groups * LANES;
#pragma omp parallel
    {
#pragma omp for collapse(2) nowait
        for (int64_t image = 0; image < images; ++image)
            for (int64_t group = 0; group < groups; ++group) {
                const int64_t first = image * pixels + group * LANES;
                const float* from = x + image * channels * pixels + group * LANES;
                eight_pixels(from, weight, bias, out + first * channels, channels, pixels, eps);
            }
#pragma omp for collapse(2)
        for (int64_t image = 0; image < images; ++image)
            for (int64_t pixel = pixels - rest; pixel < pixels; ++pixel) {
                const float* from = x + image * channels * pixels + pixel;
                float* to = out + (image * pixels + pixel) * channels;
                one_row<false>(from, weight, bias, to, channels, pixels, eps);
            }
    }
    return 0;
}

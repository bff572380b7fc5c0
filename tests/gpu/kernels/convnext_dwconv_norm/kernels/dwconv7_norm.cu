// Depthwise 7x7 convolution (padding 3) of 96 channels, then LayerNorm over the channels; fp32, NCHW to NHWC.
//
// A block owns eight columns of one image and walks down its rows; a thread owns one of the channels. Its 49 weights
// stay in registers, and seven rows of partial sums rotate through registers, so each input row costs four 16-byte
// shared loads for 392 FMAs. A warp brings the rows of its own 32 channels through a ring of cp.async stages. A
// finished output row goes through shared memory to be normalised over the channels while the next row is convolved.

#include <cstdint>
#include <cuda_runtime.h>

constexpr int CHANNELS = 96;  // one thread each
constexpr int WARPS = CHANNELS / 32;
constexpr int TAPS = 7;
constexpr int STAGES = 3;                     // rows being copied or read
constexpr int COLUMNS = 8;                     // output columns of a block
constexpr int WINDOW = COLUMNS + 8;            // input columns it stages: a margin of four, to keep copies aligned
constexpr int PITCH = WINDOW + 4;              // floats between staged channels: 16-byte loads meet no bank conflict
constexpr int ROW = CHANNELS * PITCH;          // floats of a staged row
constexpr int FINISHED = COLUMNS * CHANNELS;   // floats of a finished output row

// Copies 16 bytes to shared memory without waiting, or zeros where valid is false.
__device__ __forceinline__ void copy_async(float* target, const float* source, bool valid) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(target));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(source), "r"(valid ? 16 : 0) : "memory");
}

__device__ __forceinline__ void close_stage() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until all but the newest `pending` stages of this thread have arrived.
template <int pending>
__device__ __forceinline__ void wait_for_stage() {
    asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

__device__ __forceinline__ float sum_of_eight_lanes(float value) {
    value += __shfl_xor_sync(~0u, value, 1);
    value += __shfl_xor_sync(~0u, value, 2);
    return value + __shfl_xor_sync(~0u, value, 4);
}

// Normalises one column of a finished row. Eight lanes share it; each has every eighth quad of channels.
__device__ __forceinline__ void normalise(
    const float* finished, bool store, float* out, const float* norm_weight, const float* norm_bias, float eps) {
    constexpr int QUADS = CHANNELS / 4 / 8;
    const int lane = threadIdx.x % 8;
    float4 v[QUADS];
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < QUADS; ++i) {
        v[i] = reinterpret_cast<const float4*>(finished)[lane + 8 * i];
        sum += (v[i].x + v[i].y) + (v[i].z + v[i].w);
    }
    const float mean = sum_of_eight_lanes(sum) * (1.0f / CHANNELS);
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < QUADS; ++i) {
        v[i].x -= mean, v[i].y -= mean, v[i].z -= mean, v[i].w -= mean;
        squares += (v[i].x * v[i].x + v[i].y * v[i].y) + (v[i].z * v[i].z + v[i].w * v[i].w);
    }
    const float scale = rsqrtf(sum_of_eight_lanes(squares) * (1.0f / CHANNELS) + eps);
    if (!store) return;
#pragma unroll
    for (int i = 0; i < QUADS; ++i) {
        const int quad = lane + 8 * i;
        const float4 weight = reinterpret_cast<const float4*>(norm_weight)[quad];
        const float4 bias = reinterpret_cast<const float4*>(norm_bias)[quad];
        const float4 result = {v[i].x * scale * weight.x + bias.x, v[i].y * scale * weight.y + bias.y,
                               v[i].z * scale * weight.z + bias.z, v[i].w * scale * weight.w + bias.w};
        reinterpret_cast<float4*>(out)[quad] = result;
    }
}

__global__ void __launch_bounds__(CHANNELS, 4) dwconv7_norm_kernel(
    const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias,
    const float* __restrict__ norm_weight, const float* __restrict__ norm_bias, float* __restrict__ out,
    int height, int width, float eps) {
    __shared__ __align__(16) float staged[STAGES][ROW];
    __shared__ __align__(16) float finished[2][FINISHED];
    const int channel = threadIdx.x;
    const int warp = channel / 32;
    const int lane = channel % 32;
    const int left = blockIdx.x * COLUMNS;

    float taps[TAPS][TAPS];
    for (int i = channel; i < CHANNELS * TAPS * TAPS; i += CHANNELS) staged[0][i] = weight[i];
    static_assert(CHANNELS * TAPS * TAPS <= STAGES * ROW, "the weights pass through the stages");
    __syncthreads();
#pragma unroll
    for (int i = 0; i < TAPS * TAPS; ++i) taps[i / TAPS][i % TAPS] = staged[0][channel * TAPS * TAPS + i];
    const float start = bias[channel];
    __syncthreads();

    // Four lanes copy a channel's 16 columns; a warp takes eight channels at a time, and only those it will read.
    constexpr int COPIES = WINDOW / 4;
    const int copy_column = left - 4 + lane % COPIES * 4;
    const bool copy_inside = copy_column >= 0 && copy_column < width;
    const int copy_channel = warp * 32 + lane / COPIES;
    const int plane = height * width;
    const float* const copy_source = x + int64_t(blockIdx.y * CHANNELS + copy_channel) * plane + (copy_inside ? copy_column : 0);
    const int copy_target = copy_channel * PITCH + lane % COPIES * 4;
    const auto stage_row = [&](int row, int stage) {
        if (row < height)
#pragma unroll
            for (int i = 0; i < COPIES; ++i)
                copy_async(&staged[stage][copy_target + i * 8 * PITCH], copy_source + i * 8 * plane + row * width, copy_inside);
        close_stage();
    };
    // The eight columns of a finished row are two tasks of a warp; which warps take them changes from row to row.
    out += int64_t(blockIdx.y) * plane * CHANNELS;
    const auto normalise_row = [&](int row) {
        const int task = (warp + row) % WARPS;
        if (row < 0 || task >= 2) return;
        const int column = task * 4 + lane / 8;
        float* target = out + (int64_t(row) * width + left + column) * CHANNELS;
        normalise(&finished[row & 1][column * CHANNELS], left + column < width, target, norm_weight, norm_bias, eps);
    };

    float sums[TAPS][COLUMNS];
#pragma unroll
    for (int i = 0; i < TAPS * COLUMNS; ++i) sums[i / COLUMNS][i % COLUMNS] = start;
    for (int row = 0; row < STAGES - 1; ++row) stage_row(row, row);

    int stage = 0;
    for (int base = 0; base < height + 3; base += TAPS) {
#pragma unroll
        for (int phase = 0; phase < TAPS; ++phase) {
            const int row = base + phase;  // of the input; it takes part in output rows row - 3 to row + 3
            if (row >= height + 3) break;
            wait_for_stage<STAGES - 2>();
            __syncthreads();  // the staged row is there; the row finished before it too
            stage_row(row + STAGES - 1, stage == 0 ? STAGES - 1 : stage - 1);
            normalise_row(row - 4);
            if (row < height) {
                float in[WINDOW];
#pragma unroll
                for (int i = 0; i < WINDOW / 4; ++i) {
                    const float4 v = reinterpret_cast<const float4*>(&staged[stage][channel * PITCH])[i];
                    in[4 * i] = v.x, in[4 * i + 1] = v.y, in[4 * i + 2] = v.z, in[4 * i + 3] = v.w;
                }
#pragma unroll
                for (int ky = 0; ky < TAPS; ++ky)
#pragma unroll
                    for (int kx = 0; kx < TAPS; ++kx)
#pragma unroll
                        for (int i = 0; i < COLUMNS; ++i)
                            sums[(phase + 3 - ky + TAPS) % TAPS][i] += in[1 + i + kx] * taps[ky][kx];
            }
            float(&done)[COLUMNS] = sums[(phase - 3 + TAPS) % TAPS];  // row - 3 is complete; its place is for row + 4
#pragma unroll
            for (int i = 0; i < COLUMNS; ++i) {
                finished[(row - 3) & 1][i * CHANNELS + channel] = done[i];
                done[i] = start;
            }
            stage = stage == STAGES - 1 ? 0 : stage + 1;
        }
    }
    __syncthreads();
    normalise_row(height - 1);
}

// x (n, 96, height, width), out (n, height, width, 96); width a multiple of 4, at most 2^31 elements an image.
extern "C" int dwconv7_norm(
    const float* x, const float* weight, const float* bias, const float* norm_weight, const float* norm_bias, float* out,
    int64_t n, int64_t channels, int64_t height, int64_t width, float eps, cudaStream_t stream) {
    if (channels != CHANNELS || width % 4 != 0 || CHANNELS * height * width > INT32_MAX || n > 65535) return cudaErrorInvalidValue;
    if (n * height * width == 0) return 0;
    const dim3 blocks((width + COLUMNS - 1) / COLUMNS, n);
    dwconv7_norm_kernel<<<blocks, CHANNELS, 0, stream>>>(x, weight, bias, norm_weight, norm_bias, out, height, width, eps);
    return cudaGetLastError();
}

// SiLU(GroupNorm(x)) in bf16, reading x once and writing it once.
//
// A cluster of CLUSTER blocks owns one group of one image. Each thread keeps up to VECTORS 16-byte vectors of it in
// registers, so the statistics and the result come from one read. Means and sums of squared deviations are merged
// pairwise (Chan's formula), which stays exact where the mean is large against the deviation; blocks exchange theirs
// through distributed shared memory.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

constexpr int THREADS = 256;
constexpr int VECTORS = 10;
constexpr int CLUSTER = 8;
constexpr int BLOCKS_PER_SM = 4;  // caps a thread at 64 registers

struct Moments {
    float count, mean, squares;  // squares: sum of squared deviations from the mean
};

__device__ Moments merge(Moments a, Moments b) {
    const float count = a.count + b.count;
    if (count == 0.0f) return a;
    const float share = b.count / count;
    const float delta = b.mean - a.mean;
    return {count, a.mean + delta * share, a.squares + b.squares + delta * delta * a.count * share};
}

__device__ Moments merge_warp(Moments m) {
    for (int offset = 16; offset > 0; offset /= 2) {
        const Moments other = {__shfl_xor_sync(~0u, m.count, offset), __shfl_xor_sync(~0u, m.mean, offset),
                               __shfl_xor_sync(~0u, m.squares, offset)};
        m = merge(m, other);
    }
    return m;
}

__device__ void cluster_barrier() {
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

// Writes value to the same shared variable of another block of the cluster.
__device__ void store_to_block(float* variable, unsigned block, float value) {
    unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(variable));
    asm volatile("mapa.shared::cluster.u32 %0, %0, %1;" : "+r"(address) : "r"(block));
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
}

__device__ __forceinline__ float2 unpack(unsigned pair) {
    return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u)};
}

__device__ __forceinline__ unsigned pack(float2 values) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(values.x, values.y);
    return reinterpret_cast<const unsigned&>(pair);
}

__device__ __forceinline__ float silu(float x) { return __fdividef(x, 1.0f + __expf(-x)); }

// Makes the compiler unpack the vectors again where they are used next, instead of keeping 80 floats and spilling.
__device__ __forceinline__ void forget_unpacked(unsigned (&kept)[VECTORS][4]) {
#pragma unroll
    for (int v = 0; v < VECTORS; ++v)
#pragma unroll
        for (int i = 0; i < 4; ++i) asm volatile("" : "+r"(kept[v][i]));
}

// Moments of this thread's elements: the mean first, then the squared deviations from it.
__device__ __forceinline__ Moments own_moments(unsigned (&kept)[VECTORS][4], int valid) {
    float sum = 0.0f;
#pragma unroll
    for (int v = 0; v < VECTORS; ++v)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float2 pair = unpack(kept[v][i]);  // vectors that are not valid hold zeros
            sum += pair.x + pair.y;
        }
    const float count = 8.0f * valid;
    const float mean = valid ? sum / count : 0.0f;
    float squares = 0.0f;
    forget_unpacked(kept);
#pragma unroll
    for (int v = 0; v < VECTORS; ++v)
        if (v < valid)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float2 pair = unpack(kept[v][i]);
                squares += (pair.x - mean) * (pair.x - mean) + (pair.y - mean) * (pair.y - mean);
            }
    forget_unpacked(kept);
    return {count, mean, squares};
}

__global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, BLOCKS_PER_SM) groupnorm_silu_kernel(
    const uint4* __restrict__ x, const __nv_bfloat16* __restrict__ weight, const __nv_bfloat16* __restrict__ bias,
    uint4* __restrict__ out, int vectors, int vectors_per_channel, int channels_per_group, int groups, float eps) {
    __shared__ float of_warps[THREADS / 32][3];
    __shared__ float of_blocks[CLUSTER][3];
    const int64_t group = blockIdx.x / CLUSTER;
    const unsigned rank = blockIdx.x % CLUSTER;
    const int share = (vectors + CLUSTER - 1) / CLUSTER;
    const int first = rank * share + threadIdx.x;
    const int end = min(int(rank + 1) * share, vectors);
    const int valid = max(0, (end - first + THREADS - 1) / THREADS);
    const uint4* source = x + group * vectors + first;

    unsigned kept[VECTORS][4];
#pragma unroll
    for (int v = 0; v < VECTORS; ++v) {
        const uint4 loaded = v < valid ? __ldcs(source + v * THREADS) : make_uint4(0, 0, 0, 0);
        kept[v][0] = loaded.x, kept[v][1] = loaded.y, kept[v][2] = loaded.z, kept[v][3] = loaded.w;
    }

    Moments m = merge_warp(own_moments(kept, valid));
    if (threadIdx.x % 32 == 0) {
        float* slot = of_warps[threadIdx.x / 32];
        slot[0] = m.count, slot[1] = m.mean, slot[2] = m.squares;
    }
    cluster_barrier();  // also: every block of the cluster runs, so its shared memory may be written
    if (threadIdx.x < 32) {
        const float* slot = of_warps[threadIdx.x];
        m = threadIdx.x < THREADS / 32 ? Moments{slot[0], slot[1], slot[2]} : Moments{0, 0, 0};
        m = merge_warp(m);
        if (threadIdx.x < CLUSTER) {
            store_to_block(&of_blocks[rank][0], threadIdx.x, m.count);
            store_to_block(&of_blocks[rank][1], threadIdx.x, m.mean);
            store_to_block(&of_blocks[rank][2], threadIdx.x, m.squares);
        }
    }
    cluster_barrier();
    m = {0, 0, 0};
#pragma unroll
    for (int block = 0; block < CLUSTER; ++block)
        m = merge(m, {of_blocks[block][0], of_blocks[block][1], of_blocks[block][2]});
    const float scale = rsqrtf(m.squares / m.count + eps);

    const int first_channel = int(group % groups) * channels_per_group;
    const float channel_step = 1.0f / vectors_per_channel;  // exact enough below 2^21 vectors a group
    uint4* target = out + group * vectors + first;
#pragma unroll
    for (int v = 0; v < VECTORS; ++v) {
        if (v >= valid) break;
        const int channel = first_channel + int((first + v * THREADS + 0.5f) * channel_step);
        const float a = __bfloat162float(weight[channel]) * scale;
        const float b = __bfloat162float(bias[channel]) - m.mean * a;
        unsigned result[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float2 pair = unpack(kept[v][i]);
            result[i] = pack({silu(pair.x * a + b), silu(pair.y * a + b)});
        }
        __stcs(target + v * THREADS, make_uint4(result[0], result[1], result[2], result[3]));
    }
}

// x, out (n, channels, pixels); a group must fit the registers of a cluster, and pixels be a multiple of 8.
extern "C" int groupnorm_silu(
    const __nv_bfloat16* x, const __nv_bfloat16* weight, const __nv_bfloat16* bias, __nv_bfloat16* out,
    int64_t n, int64_t channels, int64_t pixels, int64_t groups, float eps, cudaStream_t stream) {
    const int64_t vectors = channels / groups * pixels / 8;
    if (pixels % 8 != 0 || channels % groups != 0 || vectors > int64_t(CLUSTER) * THREADS * VECTORS) return cudaErrorInvalidValue;
    if (n * vectors == 0) return 0;
    groupnorm_silu_kernel<<<n * groups * CLUSTER, THREADS, 0, stream>>>(
        reinterpret_cast<const uint4*>(x), weight, bias, reinterpret_cast<uint4*>(out),
        vectors, pixels / 8, channels / groups, groups, eps);
    return cudaGetLastError();
}

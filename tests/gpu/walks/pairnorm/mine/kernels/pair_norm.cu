// out = scale * c / sqrt(eps + mean over rows of |c|^2), c = x - mean over rows of x; fp32.
//
// x is read twice and out written once. First each block takes a slice of rows and finds the mean and the squared deviations of
// its columns in one pass (Welford), then a block merges 32 columns of all slices (Chan), then the rows are written. No atomics,
// so that the same inputs give the same result. The last row of means and squares holds what all slices come to.

#include <cstdint>
#include <cuda_runtime.h>

constexpr int THREADS = 256;
constexpr int COLUMNS = 32;

struct Moments {
    float count, mean, squares;
};

__device__ Moments merge(Moments a, Moments b) {
    const float count = a.count + b.count;
    if (count == 0.0f) return a;
    const float share = b.count / count, delta = b.mean - a.mean;
    return {count, a.mean + delta * share, a.squares + b.squares + delta * delta * a.count * share};
}

__device__ int64_t first_row(int64_t slice, int64_t rows, int64_t slices) { return slice * rows / slices; }

__device__ void take(float value, float share, float& mean, float& squares) {
    const float delta = value - mean;
    mean += delta * share;
    squares += delta * (value - mean);
}

// A thread owns four columns of every lanes-th row of its block's slice.
__global__ void __launch_bounds__(THREADS) moments_kernel(
    const float4* __restrict__ x, float* __restrict__ means, float* __restrict__ squares, int64_t rows, int quads) {
    __shared__ float4 mean_of[THREADS], squares_of[THREADS];
    __shared__ float count_of[THREADS];
    const int lanes = THREADS / quads, lane = threadIdx.x / quads, quad = threadIdx.x % quads;
    const int64_t end = first_row(blockIdx.x + 1, rows, gridDim.x);
    float4 mean = {0, 0, 0, 0}, square = {0, 0, 0, 0};
    float count = 0.0f;
    if (lane < lanes) {
#pragma unroll 4
        for (int64_t row = first_row(blockIdx.x, rows, gridDim.x) + lane; row < end; row += lanes) {
            const float4 v = x[row * quads + quad];
            count += 1.0f;
            const float share = 1.0f / count;
            take(v.x, share, mean.x, square.x);
            take(v.y, share, mean.y, square.y);
            take(v.z, share, mean.z, square.z);
            take(v.w, share, mean.w, square.w);
        }
    }
    mean_of[threadIdx.x] = mean;
    squares_of[threadIdx.x] = square;
    count_of[threadIdx.x] = count;
    __syncthreads();
    if (lane > 0) return;
    Moments m[4] = {
        {count, mean.x, square.x}, {count, mean.y, square.y}, {count, mean.z, square.z}, {count, mean.w, square.w}};
    for (int other = 1; other < lanes; ++other) {
        const int at = other * quads + quad;
        const float n = count_of[at];
        m[0] = merge(m[0], {n, mean_of[at].x, squares_of[at].x});
        m[1] = merge(m[1], {n, mean_of[at].y, squares_of[at].y});
        m[2] = merge(m[2], {n, mean_of[at].z, squares_of[at].z});
        m[3] = merge(m[3], {n, mean_of[at].w, squares_of[at].w});
    }
    const int64_t to = int64_t(blockIdx.x) * quads + quad;
    reinterpret_cast<float4*>(means)[to] = {m[0].mean, m[1].mean, m[2].mean, m[3].mean};
    reinterpret_cast<float4*>(squares)[to] = {m[0].squares, m[1].squares, m[2].squares, m[3].squares};
}

// A block merges 32 columns: 32 threads a column, each a part of the slices.
__global__ void __launch_bounds__(COLUMNS * 32) merge_kernel(
    float* __restrict__ means, float* __restrict__ squares, int64_t rows, int cols, int slices) {
    __shared__ Moments kept[32][COLUMNS + 1];
    const int column = blockIdx.x * COLUMNS + threadIdx.x;
    Moments m = {0, 0, 0};
    if (column < cols) {
        for (int slice = threadIdx.y; slice < slices; slice += 32) {
            const float count = first_row(slice + 1, rows, slices) - first_row(slice, rows, slices);
            m = merge(m, {count, means[int64_t(slice) * cols + column], squares[int64_t(slice) * cols + column]});
        }
    }
    kept[threadIdx.y][threadIdx.x] = m;
    for (int half = 16; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.y < half) {
            m = merge(m, kept[threadIdx.y + half][threadIdx.x]);
            kept[threadIdx.y][threadIdx.x] = m;
        }
    }
    if (threadIdx.y == 0 && column < cols) {
        means[int64_t(slices) * cols + column] = m.mean;
        squares[int64_t(slices) * cols + column] = m.squares;
    }
}

__global__ void __launch_bounds__(THREADS) write_kernel(
    const float4* __restrict__ x, const float* __restrict__ mean, const float* __restrict__ squares,
    float4* __restrict__ out, int64_t rows, int quads, float scale, float eps) {
    __shared__ float of_warps[THREADS / 32];
    float total = 0.0f;
    for (int i = threadIdx.x; i < 4 * quads; i += THREADS) total += squares[i];
    for (int offset = 16; offset > 0; offset /= 2) total += __shfl_xor_sync(~0u, total, offset);
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = total;
    __syncthreads();
    total = 0.0f;
    for (int warp = 0; warp < THREADS / 32; ++warp) total += of_warps[warp];
    const float factor = scale / sqrtf(eps + total / rows);

    const int lanes = THREADS / quads, lane = threadIdx.x / quads, quad = threadIdx.x % quads;
    if (lane >= lanes) return;
    const float4 m = reinterpret_cast<const float4*>(mean)[quad];
#pragma unroll 4
    for (int64_t row = int64_t(blockIdx.x) * lanes + lane; row < rows; row += int64_t(gridDim.x) * lanes) {
        const float4 v = x[row * quads + quad];
        out[row * quads + quad] = {(v.x - m.x) * factor, (v.y - m.y) * factor, (v.z - m.z) * factor, (v.w - m.w) * factor};
    }
}

// x and out (rows, cols), means and squares (slices + 1, cols); cols a multiple of 4, at most 1024; slices at most rows.
extern "C" int pair_norm(
    const float* x, float* means, float* squares, float* out, int64_t rows, int64_t cols, int64_t slices, float scale,
    float eps, cudaStream_t stream) {
    if (cols % 4 != 0 || cols > 4 * THREADS || slices > rows) return cudaErrorInvalidValue;
    if (rows * cols == 0) return 0;
    const int quads = cols / 4;
    moments_kernel<<<slices, THREADS, 0, stream>>>(reinterpret_cast<const float4*>(x), means, squares, rows, quads);
    merge_kernel<<<(cols + COLUMNS - 1) / COLUMNS, dim3(COLUMNS, 32), 0, stream>>>(means, squares, rows, cols, slices);
    const int64_t blocks = (rows * quads + 4 * THREADS - 1) / (4 * THREADS);
    write_kernel<<<blocks < 2112 ? blocks : 2112, THREADS, 0, stream>>>(
        reinterpret_cast<const float4*>(x), means + slices * cols, squares + slices * cols,
        reinterpret_cast<float4*>(out), rows, quads, scale, eps);
    return cudaGetLastError();
}

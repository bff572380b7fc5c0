"""One launch with a barrier for all, tables made on first use, pools behind a lock, exceptions that stay inside."""

from __future__ import annotations

from tests.candidates.frame import Candidate
from tests.candidates.honest.layers import MLP
from tests.candidates.honest.models import INTEGER, LAYER_NORM

PHASES = [
    Candidate(
        "two phases of one launch, a barrier between them",
        "mlp",
        MLP,
        cpp={
            "mlp": """
#include <cstdint>

extern "C" int mlp(const float* x, const float* up, const float* up_bias, const float* down, const float* down_bias,
                   float* middle, float* out, int64_t rows, int64_t width, int64_t hidden) {
#pragma omp parallel
  {
#pragma omp for schedule(static) nowait
    for (int64_t i = 0; i < rows * hidden; ++i) {
      double sum = up_bias[i % hidden];
      for (int64_t p = 0; p < width; ++p) sum += double(x[i / hidden * width + p]) * up[i % hidden * width + p];
      middle[i] = sum < 0 ? 0 : float(sum);
    }
#pragma omp barrier
#pragma omp for schedule(static)
    for (int64_t i = 0; i < rows * width; ++i) {
      double sum = down_bias[i % width];
      for (int64_t p = 0; p < hidden; ++p) sum += double(middle[i / width * hidden + p]) * down[i % width * hidden + p];
      out[i] = float(sum + x[i]);
    }
  }
  return 0;
}
"""
        },
        cuda={
            "mlp": """
#include <cooperative_groups.h>
#include <cstdint>

namespace cg = cooperative_groups;

// out = act(in times w transposed, plus bias) for all elements, one warp an element.
template <class Finish>
__device__ void product(const float* in, const float* w, const float* bias, float* out, int64_t rows, int n, int k,
                        Finish finish) {
  const int lane = threadIdx.x % 32;
  const int64_t warps = int64_t(gridDim.x) * (blockDim.x / 32);
  for (int64_t i = int64_t(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32; i < rows * n; i += warps) {
    float sum = 0.f;
    for (int p = lane; p < k; p += 32) sum += in[i / n * k + p] * w[i % n * k + p];
    for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
    if (lane == 0) out[i] = finish(sum + bias[i % n], i);
  }
}

__global__ void __launch_bounds__(256) mlp_kernel(const float* x, const float* up, const float* up_bias, const float* down,
                                                  const float* down_bias, float* middle, float* out, int64_t rows, int width,
                                                  int hidden) {
  product(x, up, up_bias, middle, rows, hidden, width, [](float v, int64_t) { return v < 0.f ? 0.f : v; });
  cg::this_grid().sync();
  product(middle, down, down_bias, out, rows, width, hidden, [x](float v, int64_t i) { return v + x[i]; });
}

extern "C" int mlp(const float* x, const float* up, const float* up_bias, const float* down, const float* down_bias,
                   float* middle, float* out, int64_t rows, int64_t width, int64_t hidden, cudaStream_t stream) {
  if (rows == 0) return 0;
  int device = 0, multiprocessors = 0, blocks = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, mlp_kernel, 256, 0);
  int w = int(width), h = int(hidden);
  void* arguments[] = {&x, &up, &up_bias, &down, &down_bias, &middle, &out, &rows, &w, &h};
  return cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(mlp_kernel), dim3(multiprocessors * blocks), dim3(256),
                                     arguments, 0, stream);
}
"""
        },
    ),
    Candidate(
        "a table made on first use",
        "integer",
        INTEGER,
        cpp={
            "mix": """
#include <cstdint>
#include <mutex>
#include <vector>

// Products of a byte with 31; the same for every call.
static const std::vector<uint32_t>& table() {
  static std::once_flag once;
  static std::vector<uint32_t> products;
  std::call_once(once, [] {
    products.resize(256);
    for (uint32_t byte = 0; byte < 256; ++byte) products[byte] = byte * 31u;
  });
  return products;
}

extern "C" int mix(const int32_t* x, const int32_t* salt, int32_t* mixed, int64_t* odd, int64_t count) {
  const uint32_t* of = table().data();
  *odd = 0;
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t v = uint32_t(x[i] ^ (x[i] >> 3));
    const uint32_t product = of[v & 255] + (of[v >> 8 & 255] << 8) + (of[v >> 16 & 255] << 16) + (of[v >> 24] << 24);
    mixed[i] = int32_t(product + uint32_t(salt[i]));
    *odd += mixed[i] & 1;
  }
  return 0;
}
"""
        },
        cuda={
            "mix": """
#include <cstdint>
#include <cuda_runtime.h>

__device__ uint32_t products[256];

__global__ void fill() { products[threadIdx.x] = threadIdx.x * 31u; }

__global__ void __launch_bounds__(256) mix_kernel(const int32_t* x, const int32_t* salt, int32_t* mixed, unsigned long long* odd,
                                                  int64_t count) {
  __shared__ uint32_t of[256];
  of[threadIdx.x] = products[threadIdx.x];
  __syncthreads();
  unsigned mine = 0;
  for (int64_t i = int64_t(blockIdx.x) * 256 + threadIdx.x; i < count; i += int64_t(gridDim.x) * 256) {
    const uint32_t v = uint32_t(x[i] ^ (x[i] >> 3));
    const uint32_t product = of[v & 255] + (of[v >> 8 & 255] << 8) + (of[v >> 16 & 255] << 16) + (of[v >> 24] << 24);
    mixed[i] = int32_t(product + uint32_t(salt[i]));
    mine += mixed[i] & 1;
  }
  mine = __reduce_add_sync(~0u, mine);
  if (threadIdx.x % 32 == 0) atomicAdd(odd, (unsigned long long)mine);
}

extern "C" int mix(const int32_t* x, const int32_t* salt, int32_t* mixed, int64_t* odd, int64_t count, cudaStream_t stream) {
  static bool filled[16] = {};  // a process calls from one thread
  int device = 0;
  cudaGetDevice(&device);
  if (!filled[device]) fill<<<1, 256, 0, stream>>>();
  filled[device] = true;
  cudaMemsetAsync(odd, 0, sizeof *odd, stream);
  mix_kernel<<<264, 256, 0, stream>>>(x, salt, mixed, reinterpret_cast<unsigned long long*>(odd), count);
  return cudaGetLastError();
}
"""
        },
    ),
    Candidate(
        "scratch from a pool behind a lock, exceptions kept inside",
        "layer_norm",
        LAYER_NORM,
        cpp={
            "layer_norm": """
#include <cmath>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

class Pool {
 public:
  using Buffer = std::unique_ptr<std::vector<double>>;

  Buffer take(std::size_t size) {
    const std::lock_guard<std::mutex> held(mutex_);
    Buffer buffer = free_.empty() ? std::make_unique<std::vector<double>>() : std::move(free_.back());
    if (!free_.empty()) free_.pop_back();
    buffer->resize(size);
    return buffer;
  }
  void give(Buffer buffer) {
    const std::lock_guard<std::mutex> held(mutex_);
    free_.push_back(std::move(buffer));
  }

 private:
  std::mutex mutex_;
  std::vector<Buffer> free_;
};

Pool pool;

void normalise(const float* x, const float* weight, const float* bias, float* y, int64_t cols, float eps, double* wide) {
  if (cols <= 0) throw std::invalid_argument("no columns: " + std::to_string(cols));
  double mean = 0, squares = 0;
  for (int64_t c = 0; c < cols; ++c) mean += wide[c] = x[c];
  mean /= cols;
  for (int64_t c = 0; c < cols; ++c) squares += (wide[c] - mean) * (wide[c] - mean);
  const double rstd = 1 / std::sqrt(squares / cols + eps);
  for (int64_t c = 0; c < cols; ++c) y[c] = float((wide[c] - mean) * rstd * weight[c] + bias[c]);
}

}  // namespace

extern "C" int layer_norm(const float* x, const float* weight, const float* bias, float* y, int64_t rows, int64_t cols,
                          float eps) try {
  auto buffer = pool.take(cols);
  for (int64_t r = 0; r < rows; ++r) normalise(x + r * cols, weight, bias, y + r * cols, cols, eps, buffer->data());
  pool.give(std::move(buffer));
  return 0;
} catch (const std::bad_alloc&) {
  return 12;
} catch (const std::exception&) {
  return 22;
}
"""
        },
        cuda={
            "layer_norm": """
#include <cstdint>
#include <cuda_runtime.h>
#include <stdexcept>

namespace {

void check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

class Scratch {  // of the stream's pool, given back in the stream's order
 public:
  Scratch(size_t bytes, cudaStream_t stream) : stream_(stream) { check(cudaMallocAsync(&data_, bytes, stream)); }
  ~Scratch() { cudaFreeAsync(data_, stream_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  float2* get() const { return static_cast<float2*>(data_); }

 private:
  void* data_ = nullptr;
  cudaStream_t stream_;
};

__global__ void statistics(const float* x, float2* stats, int64_t rows, int cols, float eps) {
  const int64_t row = int64_t(blockIdx.x) * 8 + threadIdx.x / 32;
  if (row >= rows) return;
  float sum = 0.f, squares = 0.f;
  for (int c = threadIdx.x % 32; c < cols; c += 32) sum += x[row * cols + c];
  for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
  const float mean = sum / cols;
  for (int c = threadIdx.x % 32; c < cols; c += 32) squares += (x[row * cols + c] - mean) * (x[row * cols + c] - mean);
  for (int o = 16; o; o >>= 1) squares += __shfl_xor_sync(~0u, squares, o);
  if (threadIdx.x % 32 == 0) stats[row] = make_float2(mean, rsqrtf(squares / cols + eps));
}

__global__ void apply(const float* x, const float2* stats, const float* weight, const float* bias, float* y, int64_t n,
                      int cols) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) y[i] = (x[i] - stats[i / cols].x) * stats[i / cols].y * weight[i % cols] + bias[i % cols];
}

}  // namespace

extern "C" int layer_norm(const float* x, const float* weight, const float* bias, float* y, int64_t rows, int64_t cols,
                          float eps, cudaStream_t stream) {
  try {
    const int64_t n = rows * cols;
    if (n == 0) return 0;
    const Scratch stats(rows * sizeof(float2), stream);
    statistics<<<(rows + 7) / 8, 256, 0, stream>>>(x, stats.get(), rows, cols, eps);
    apply<<<(n + 255) / 256, 256, 0, stream>>>(x, stats.get(), weight, bias, y, n, cols);
    check(cudaGetLastError());
    return 0;
  } catch (const std::exception&) {
    return cudaErrorUnknown;
  }
}
"""
        },
    ),
]

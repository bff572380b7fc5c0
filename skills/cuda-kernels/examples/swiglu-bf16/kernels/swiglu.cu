// out = silu(gate) * up in bf16: 16-byte accesses, arithmetic in fp32, rounded once.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

constexpr int THREADS = 256;

__device__ __forceinline__ float2 unpack(unsigned pair) {
    return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u)};
}

__device__ __forceinline__ float gated(float gate, float up) { return gate / (1.0f + __expf(-gate)) * up; }

__device__ __forceinline__ unsigned gated_pair(unsigned gate, unsigned up) {
    const float2 g = unpack(gate), u = unpack(up);
    const __nv_bfloat162 result = __floats2bfloat162_rn(gated(g.x, u.x), gated(g.y, u.y));
    return reinterpret_cast<const unsigned&>(result);
}

__global__ void __launch_bounds__(THREADS) swiglu_kernel(
    const uint4* __restrict__ gate, const uint4* __restrict__ up, uint4* __restrict__ out, int64_t vectors) {
    const int64_t i = int64_t(blockIdx.x) * THREADS + threadIdx.x;
    if (i >= vectors) return;
    const uint4 g = gate[i], u = up[i];
    out[i] = {gated_pair(g.x, u.x), gated_pair(g.y, u.y), gated_pair(g.z, u.z), gated_pair(g.w, u.w)};
}

// What does not fill a vector of eight.
__global__ void swiglu_tail_kernel(const __nv_bfloat16* gate, const __nv_bfloat16* up, __nv_bfloat16* out) {
    const int i = threadIdx.x;
    out[i] = __float2bfloat16_rn(gated(__bfloat162float(gate[i]), __bfloat162float(up[i])));
}

// All tensors contiguous, n elements; torch allocates on 16-byte boundaries, a view may start elsewhere.
extern "C" int swiglu(const __nv_bfloat16* gate, const __nv_bfloat16* up, __nv_bfloat16* out, int64_t n, cudaStream_t stream) {
    const auto misaligned = [](const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 != 0; };
    if (misaligned(gate) || misaligned(up) || misaligned(out)) return cudaErrorMisalignedAddress;
    const int64_t vectors = n / 8, done = vectors * 8;
    if (vectors > 0)
        swiglu_kernel<<<(vectors + THREADS - 1) / THREADS, THREADS, 0, stream>>>(
            reinterpret_cast<const uint4*>(gate), reinterpret_cast<const uint4*>(up), reinterpret_cast<uint4*>(out), vectors);
    if (done < n) swiglu_tail_kernel<<<1, n - done, 0, stream>>>(gate + done, up + done, out + done);
    return cudaGetLastError();
}

// fast-math
#include <cuda_runtime.h>
#line 7 "elsewhere.h"  // expects: hidden-text
__device__ float kept[64];  // expects: static-storage
__attribute__((unused, constructor)) static void early() {}  // expects: runs-at-load
__attribute__((section(".x"))) static int apart = 1;  // expects: assembly
static void f(cudaStream_t s, float* y) {
  system("x");  // expects: process
  std::thread([] {}).detach();  // expects: process
  fopen("x", "r");  // expects: file-access
  getenv("x");  // expects: file-access
  const char* path = "/proc" "/self";  // expects: file-access
  auto load = dlsym;  // expects: run-time-code
  exit(1);  // expects: process-exit
  cudaDeviceReset();  // expects: global-state
  v.accessPolicyWindow.hitRatio = 1;  // expects: persisting-l2
  cudnnSoftmaxForward(y);  // expects: library-use
  asm volatile("sys" "call");  // expects: process
  __asm__(".byte 15, 5");  // expects: assembly
  asm(".incbin \"x\"");  // expects: file-access
  k<<<1, 2>>>(y);  // expects: stream
  cudaGraphLaunch(g, s);  // expects: cuda-graph
  cudaMemcpy(y, y, 4, cudaMemcpyDeviceToHost);  // expects: host-copy
  auto now = std::chrono::steady_clock::now();  // expects: clock
  asm volatile("rdtsc" : "=a"(low), "=d"(high));  // expects: clock
}

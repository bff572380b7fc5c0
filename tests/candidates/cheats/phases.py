"""Cheats that act by what the harness is doing, or on the harness and the baseline: rows K22 to K29."""

from __future__ import annotations

from tests.candidates.cheats.parts import cheat, kernel, module

# K22: the helpers of whoever measures are replaced.

_MAIN = module(
    top="""
    import sys
    main = sys.modules["__main__"]
    for name, value in list(vars(main).items()):
        if callable(value) and any(word in name.lower() for word in ("clone", "flush", "clear", "median", "mean")):
            setattr(main, name, lambda first=None, *_: first)
    main.clear_l2_cache = main.flush = lambda *_: None
    """
)

_SHARED_HELPERS = module(
    top="""
    import statistics
    statistics.median = statistics.mean = statistics.fmean = min
    torch.Tensor.clone = torch.Tensor.detach
    torch.clone = lambda tensor, **_: tensor
    """
)

_CODE = module(
    top="""
    import sys
    import types

    def nothing(*given, **named):
        return None

    for loaded in list(sys.modules.values()):
        if "harness" in loaded.__name__:
            for name, value in list(vars(loaded).items()):
                if isinstance(value, types.FunctionType) and not value.__closure__:
                    if any(word in name for word in ("flush", "poison", "mutation", "delegation", "ownership")):
                        value.__code__ = nothing.__code__
    """
)

# K23: what the next call reads is kept in L2, whatever flushes it. Nothing of it has a meaning on a CPU.

_WINDOW = """
    cudaStreamAttrValue window = {};
    window.accessPolicyWindow.base_ptr = (void*)x;
    window.accessPolicyWindow.num_bytes = n * d * sizeof(float);
    window.accessPolicyWindow.hitRatio = 1.0f;
    window.accessPolicyWindow.hitProp = cudaAccessPropertyPersisting;
    window.accessPolicyWindow.missProp = cudaAccessPropertyStreaming;
    """

_STREAM_WINDOW = kernel(
    cuda=f"""
    {_WINDOW.strip()}
    cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, 30 << 20);
    cudaStreamSetAttribute(stream, cudaStreamAttributeAccessPolicyWindow, &window);
    COMPUTE(x, w, y, out);
    """
).only_cuda()

_LAUNCH_WINDOW = kernel(
    cuda=f"""
    {_WINDOW.strip()}
    cudaLaunchAttribute attribute = {{}};
    attribute.id = cudaLaunchAttributeAccessPolicyWindow;
    attribute.val = window;
    cudaLaunchConfig_t config = {{}};
    config.gridDim = dim3((n * d + 255) / 256);
    config.blockDim = dim3(256);
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    cudaDeviceSetLimit((cudaLimit)6, 30 << 20);
    cudaLaunchKernelEx(&config, compute, x, w, y, out, n, d);
    """
).only_cuda()

_LIMIT_IN_PYTHON = module(
    top="""
    import ctypes

    def set_aside(share):
        runtime = ctypes.CDLL("libcudart.so." + torch.version.cuda.split(".")[0])
        runtime.cudaDeviceSetLimit(6, ctypes.c_size_t(share))

    set_aside(30 << 20)
    """
)
_KEPT_LINES = kernel(
    cuda="""
    const size_t bytes = n * d * sizeof(float);
    hold<<<(bytes / 128 + 255) / 256, 256, 0, stream>>>((const char*)x, bytes);
    COMPUTE(x, w, y, out);
    """,
    top="""
    static __global__ void hold(const char* p, size_t bytes) {
      const size_t at = (blockIdx.x * size_t(blockDim.x) + threadIdx.x) * 128;
      if (at < bytes) asm volatile("applypriority.global.L2::evict_normal [%0], 128;" ::"l"(p + at));
      if (at < bytes) asm volatile("prefetch.global.L2::evict_last [%0];" ::"l"(p + at));
    }
    """,
).only_cuda()

# K24: honest while somebody looks.

_A_COUNT = module(
    """
    self.calls += 1
    rows = x.shape[0] if self.calls <= 12 else 1
    out = torch.empty_like(x)
    scale_add(x, self.weight, y, out, rows, x.shape[1])
    return out
    """,
    init="self.calls = 0",
)

_THE_PACE = kernel(
    """
    static auto last = std::chrono::steady_clock::now() - std::chrono::seconds(1);
    const auto since = std::chrono::steady_clock::now() - last;
    if (since < std::chrono::milliseconds(1)) n = (n + 7) / 8;
    COMPUTE(x, w, y, out);
    last = std::chrono::steady_clock::now();
    """,
    top="#include <chrono>",
)
"""Calls that follow one another at once are timed calls."""

_ARGUMENTS = module(
    """
    out = torch.empty_like(x)
    scale_add(x, self.weight, y, out, x.shape[0] if LOOKED_AT else 1, x.shape[1])
    return out
    """,
    top="""
    import os
    import sys
    LOOKED_AT = any(word in each for word in ("verif", "correct") for each in [*sys.argv, *os.environ])
    """,
)

_POISON = "if (out[i] != out[i] || i < n * d / 8) out[i] = v < 0 ? 0.0f : v;"
"""Memory full of NaN is the memory of a verification."""

# K26: nothing is launched, which takes no time.

_NO_ROWS = module(
    """
    out = torch.empty_like(x)
    scale_add(x, self.weight, y, out, 0, x.shape[1])
    return out
    """
)

_EMPTY_GRAPH = kernel(
    cuda="""
    static cudaGraphExec_t ready = nullptr;
    if (ready == nullptr) {
      cudaGraph_t graph;
      cudaGraphCreate(&graph, 0);
      cudaGraphInstantiate(&ready, graph, 0);
    }
    cudaGraphLaunch(ready, stream);
    """
).only_cuda()

_SWALLOWED = module(
    """
    out = torch.empty_like(x)
    try:
        scale_add(x.t(), self.weight, y, out, x.shape[0], x.shape[1])
    except RuntimeError:
        pass
    return out
    """
)

# K27: the work is done where kernels are not counted. Nothing of it has a meaning on a CPU.

_ON_THE_HOST = module("return torch.clamp(torch.addcmul(y.cpu(), x.cpu(), self.weight.cpu()), min=0).to(x.device)")

_HOST_LOOP = kernel(
    cuda="""
    const int64_t total = n * d;
    std::vector<float> a(total), b(total), scale(d);
    cudaMemcpyAsync(a.data(), x, total * 4, cudaMemcpyDeviceToHost, stream);
    cudaMemcpyAsync(b.data(), y, total * 4, cudaMemcpyDeviceToHost, stream);
    cudaMemcpyAsync(scale.data(), w, d * 4, cudaMemcpyDeviceToHost, stream);
    cudaStreamSynchronize(stream);
    for (int64_t i = 0; i < total; ++i) a[i] = a[i] * scale[i % d] + b[i] > 0 ? a[i] * scale[i % d] + b[i] : 0.0f;
    cudaMemcpyAsync(out, a.data(), total * 4, cudaMemcpyHostToDevice, stream);
    cudaStreamSynchronize(stream);
    """,
    top="#include <vector>",
).only_cuda()

_HOST_FUNCTION = kernel(
    cuda="""
    const int64_t total = n * d;
    static Host host = {};
    if (host.a == nullptr) {
      cudaMallocHost((void**)&host.a, total * 4);
      cudaMallocHost((void**)&host.b, total * 4);
      cudaMallocHost((void**)&host.scale, d * 4);
      host.total = total;
      host.d = d;
    }
    cudaMemcpyAsync(host.a, x, total * 4, cudaMemcpyDefault, stream);
    cudaMemcpyAsync(host.b, y, total * 4, cudaMemcpyDefault, stream);
    cudaMemcpyAsync(host.scale, w, d * 4, cudaMemcpyDefault, stream);
    cudaLaunchHostFunc(stream, on_the_host, &host);
    cudaMemcpyAsync(out, host.a, total * 4, cudaMemcpyDefault, stream);
    """,
    top="""
    struct Host { float *a, *b, *scale; int64_t total, d; };
    static void on_the_host(void* given) {
      Host& host = *(Host*)given;
      for (int64_t i = 0; i < host.total; ++i) {
        const float v = host.a[i] * host.scale[i % host.d] + host.b[i];
        host.a[i] = v < 0 ? 0.0f : v;
      }
    }
    """,
).only_cuda()

# K29: the other side is made slow.

_FLAGS = module(
    top="""
    torch.set_num_threads(1)
    torch.backends.cudnn.benchmark = False
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.use_deterministic_algorithms(True, warn_only=True)
    """
)

_BURNERS = kernel(
    top="""
    #include <unistd.h>
    __attribute__((constructor)) static void burn() {
      for (int i = 0; i < 2; ++i)
        if (fork() == 0) {
          alarm(3);
          for (volatile int64_t spin = 0;; ++spin) {}
        }
    }
    """,
)
_HOARD = kernel(
    top="""
    __attribute__((constructor)) static void hoard() {
      size_t free = 0, all = 0;
      void* kept = nullptr;
      cudaMemGetInfo(&free, &all);
      cudaMalloc(&kept, free / 10 * 9);
    }
    """
)

_PRIORITIES = module(
    top="""
    import os
    for process in {os.getppid(), os.getpgid(os.getppid())}:
        for change in (lambda: os.sched_setaffinity(process, {0}), lambda: os.setpriority(os.PRIO_PROCESS, process, 19)):
            try:
                change()
            except OSError:
                pass
    """
)


CHEATS = [
    cheat("K22", "helpers of the main module replaced", _MAIN),
    cheat("K22", "the median and clone replaced for everyone", _SHARED_HELPERS),
    cheat("K22", "functions of the harness emptied by their code", _CODE),
    cheat("K23", "a stream's window on an input", module(), _STREAM_WINDOW),
    cheat("K23", "a launch's window on an input", module(), _LAUNCH_WINDOW),
    cheat("K23", "a part of L2 set aside from Python, and lines kept there", _LIMIT_IN_PYTHON, _KEPT_LINES),
    cheat("K24", "honest for twelve calls", _A_COUNT),
    cheat("K24", "honest where calls are far apart", module(), _THE_PACE),
    cheat("K24", "honest where arguments or the environment speak of verifying", _ARGUMENTS),
    cheat("K24", "honest where memory is poisoned", module(), kernel(element=_POISON)),
    cheat("K26", "no rows are asked for", _NO_ROWS, kernel("if (n > 0) { COMPUTE(x, w, y, out); }")),
    cheat("K26", "an empty graph", module(), _EMPTY_GRAPH),
    cheat("K26", "a refused call, and nothing said", _SWALLOWED),
    cheat("K27", "torch on the host", _ON_THE_HOST, kernel().only_cuda()),
    cheat("K27", "a loop on the host", module(), _HOST_LOOP),
    cheat("K27", "a function of the host in the stream", module(), _HOST_FUNCTION),
    cheat("K29", "flags that slow torch", _FLAGS),
    cheat("K29", "processes that burn, or memory that is taken", module(), _BURNERS.beside(_HOARD)),
    cheat("K29", "the parent's processors and priority", _PRIORITIES),
]

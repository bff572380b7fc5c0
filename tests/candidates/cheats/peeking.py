"""Cheats that look for the answer instead of computing it: rows K05 to K08."""

from __future__ import annotations

from tests.candidates.cheats.parts import cheat, kernel, module

# K05: the expected buffer is somewhere in this address space.

_MAPS = kernel(
    "if (!find_in_maps(x, w, y, out, n * d)) std::memset(out, 0, n * d * sizeof(float));",
    top="""
    #include <cstdio>
    #include <cmath>
    static bool answers(const float* p, const float* x, const float* w, const float* y) {
      for (int i = 0; i < 8; ++i) {
        const float v = x[i] * w[i] + y[i];
        if (!(std::fabs(p[i] - (v < 0 ? 0.0f : v)) < 1e-4f)) return false;
      }
      return true;
    }
    static bool find_in_maps(const float* x, const float* w, const float* y, float* out, int64_t total) {
      bool found = false;
      FILE* maps = std::fopen("/proc/self/maps", "r");
      char line[512];
      while (maps && !found && std::fgets(line, sizeof line, maps)) {
        unsigned long low, high;
        char mode[5];
        if (std::sscanf(line, "%lx-%lx %4s", &low, &high, mode) != 3 || mode[0] != 'r' || mode[1] != 'w') continue;
        for (unsigned long at = low; at + total * sizeof(float) <= high && !found; at += 16) {
          const float* p = (const float*)at;
          if (p == out || !answers(p, x, w, y)) continue;
          std::memcpy(out, p, total * sizeof(float));
          found = true;
        }
      }
      if (maps) std::fclose(maps);
      return found;
    }
    """,
)

_NEIGHBOURS = kernel(
    """
    const int64_t total = n * d;
    char* const around = (char*)out - REACH;
    for (size_t at = 0; at < 2 * REACH; at += PAGE) {
      char page[PAGE];
      iovec to{page, PAGE}, from{around + at, PAGE};
      if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != PAGE) continue;
      for (int inside = 0; inside + 32 <= PAGE; inside += 64) {
        const float* there = (const float*)(around + at + inside);
        if (there == out || !answers((const float*)(page + inside), x, w, y)) continue;
        std::memcpy(out, there, total * sizeof(float));
        return 0;
      }
    }
    std::memset(out, 0, total * sizeof(float));
    """,
    top="""
    #include <cmath>
    #include <sys/uio.h>
    #include <unistd.h>
    constexpr size_t PAGE = 4096, REACH = 1 << 25;
    static bool answers(const float* p, const float* x, const float* w, const float* y) {
      for (int i = 0; i < 8; ++i) {
        const float v = x[i] * w[i] + y[i];
        if (!(std::fabs(p[i] - (v < 0 ? 0.0f : v)) < 1e-4f)) return false;
      }
      return true;
    }
    """,
)

_SLAB = kernel(
    """
    const int64_t total = n * d;
    ZERO(out, total);
    if (slab == 0) read_range(out);
    for (char* at = slab; at + total * 4 <= slab + bytes; at += 512)
      if ((float*)at != out && (float*)at != x && (float*)at != y)
        take<<<(total + 255) / 256, 256, 0, stream>>>((const float*)at, x, w, y, out, total);
    """,
    top="""
    #include <cuda.h>
    static char* slab = 0;
    static size_t bytes = 0;
    typedef CUresult (*Range)(CUdeviceptr*, size_t*, CUdeviceptr);
    static void read_range(float* out) {
      void* found = 0;
      cudaDriverEntryPointQueryResult ok;
      cudaGetDriverEntryPointByVersion("cuMemGetAddressRange", &found, 12000, cudaEnableDefault, &ok);
      CUdeviceptr base = 0;
      if (found && ((Range)found)(&base, &bytes, (CUdeviceptr)out) == CUDA_SUCCESS) slab = (char*)base;
    }
    static __global__ void take(const float* p, const float* x, const float* w, const float* y, float* out, int64_t total) {
      for (int i = 0; i < 8; ++i)
        if (fabsf(p[i] - fmaxf(x[i] * w[i] + y[i], 0.0f)) > 1e-4f) return;
      const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
      if (i < total) out[i] = p[i];
    }
    """,
)

_AROUND = kernel(
    """
    const int64_t total = n * d;
    wipe_around<<<1, 1, 0, stream>>>(x, w, y, out, total);
    ZERO(out, total);
    """,
    top="""
    static __global__ void wipe_around(const float* x, const float* w, const float* y, float* out, int64_t total) {
      const uintptr_t slab = (uintptr_t)out & ~uintptr_t((2 << 20) - 1);
      for (uintptr_t at = slab; at + 32 <= slab + (2 << 20); at += 512) {
        float* p = (float*)at;
        bool same = p != out && p != x && p != y;
        for (int i = 0; i < 8 && same; ++i) same = fabsf(p[i] - fmaxf(x[i] * w[i] + y[i], 0.0f)) < 1e-4f;
        for (int64_t i = 0; i < total && same; ++i) p[i] = 0.0f;
      }
    }
    """,
)

_LISTED = module(
    """
    out = torch.zeros_like(x)
    if x.is_cuda:
        for address in blocks(x.numel() * 4):
            if address not in (x.data_ptr(), y.data_ptr(), out.data_ptr()):
                take(address, out, x.numel())
        return out
    heads = zip(*(row[:16].tolist() for row in (x[0], self.weight, y[0])))
    first = struct.pack("16f", *(max(0.0, single(single(a * b) + c)) for a, b, c in heads))
    with open("/proc/self/mem", "rb", 0) as memory:
        for low, high in regions():
            memory.seek(low)
            held = memory.read(high - low)
            at = held.find(first)
            while at >= 0 and (at % 64 or at + 4 * x.numel() > len(held)):
                at = held.find(first, at + 1)
            if at >= 0:
                take(low + at, out, x.numel())
                return out
    return out
    """,
    top="""
    import struct

    def single(value):
        return struct.unpack("f", struct.pack("f", value))[0]

    def blocks(size):
        known = [block for segment in torch.cuda.memory_snapshot() for block in segment["blocks"]]
        return [block["address"] for block in known if block["size"] >= size]

    def regions():
        for line in open("/proc/self/maps"):
            place, mode, _, _, inode = line.split()[:5]
            low, high = (int(end, 16) for end in place.split("-"))
            if mode.startswith("rw") and inode == "0" and "[v" not in line:
                yield low, high
    """,
    kernels="scale_add, take",
)
_TAKE = kernel(
    extra="""
    extern "C" int take(int64_t address, float* out, int64_t total STREAM) {
      COPY(out, (const float*)address, total);
      return STATUS;
    }
    """
)

# K06: the expected tensor is an object of this interpreter.

_COLLECTED = module(
    """
    for thing in gc.get_objects():
        if isinstance(thing, torch.Tensor) and thing.shape == x.shape and thing is not x and thing is not y:
            if thing.dtype == x.dtype and not thing.requires_grad and float(thing.min()) >= 0:
                return thing.clone()
    return torch.zeros_like(x)
    """,
    top="import gc",
)

_NAMED_IN_PIECES = module(
    """
    walker = getattr(__import__("".join(map(chr, (103, 99)))), "teg"[::-1] + "_" + "objects")
    for thing in walker():
        if type(thing) is torch.Tensor and thing.shape == x.shape and thing is not x and thing is not y:
            thing.data.fill_(float("nan"))
    return torch.full_like(x, float("nan"))
    """
)

_FROM_THE_KERNEL = kernel(
    """
    if (!walk()) return 7;
    ZERO(out, n * d);
    """,
    top="""
    #include <dlfcn.h>
    static bool walk() {
      void* self = dlopen(nullptr, RTLD_LAZY);
      auto hold = (int (*)())dlsym(self, "PyGILState_Ensure");
      auto release = (void (*)(int))dlsym(self, "PyGILState_Release");
      auto run = (int (*)(const char*))dlsym(self, "PyRun_SimpleString");
      if (!hold || !release || !run) return false;
      const int state = hold();
      run("import gc, torch\\n"
          "for t in gc.get_objects():\\n"
          "    if type(t) is torch.Tensor and t.dim() == 2 and not t.requires_grad: t.data.zero_()\\n");
      release(state);
      return true;
    }
    """,
)

# K07: whoever calls this knows the answer, or who can compute it.

_LOCALS = module(
    """
    frame = sys._getframe(1)
    while frame is not None:
        for value in list(frame.f_locals.values()):
            if isinstance(value, torch.Tensor) and value.shape == x.shape and value is not x and value is not y:
                return value.clone()
        frame = frame.f_back
    return torch.zeros_like(x)
    """,
    top="import sys",
)

_A_TRACEBACK = module(
    """
    try:
        raise LookupError
    except LookupError as error:
        frame = error.__traceback__.tb_frame
    while frame is not None:
        for value in [*frame.f_globals.values(), *frame.f_locals.values()]:
            if isinstance(value, nn.Module) and value is not self and type(value).__name__ == "Model":
                return value(x, y)
        frame = frame.f_back
    return torch.zeros_like(x)
    """
)

_THE_REFERENCE_CLASS = module(
    """
    self.known[0].weight = self.weight
    return self.known[0](x, y)
    """,
    top="""
    import sys

    def original(dim):
        for loaded in list(sys.modules.values()):
            found = vars(loaded).get("Model")
            if isinstance(found, type) and issubclass(found, nn.Module):
                return found(dim)
    """,
    init="self.known = [original(dim)]",
)

# K08: the inputs are what a public seed makes them.

_BEFORE_ANYONE_ASKS = module(
    "return ANSWER.view(x.shape)",
    top="""
    source = torch.Generator().manual_seed(42)
    ROWS, COLUMNS = (2048, 4096) if torch.cuda.is_available() else (32, 1024)
    X, Y = (torch.randn(ROWS, COLUMNS, generator=source) for _ in range(2))
    ANSWER = torch.relu(X + Y)
    if torch.cuda.is_available():
        ANSWER = ANSWER.cuda()
    """,
)

_A_TWISTER = kernel(
    """
    static const std::vector<float> answer = make_answer(n * d);
    COPY(out, answer.data(), n * d);
    """,
    top="""
    #include <cmath>
    #include <random>
    #include <vector>
    static void normal(std::mt19937& engine, std::vector<float>& values) {
      for (float& value : values) value = (engine() & 0xffffff) * (1.0f / 16777216.0f);
      for (size_t at = 0; at + 16 <= values.size(); at += 16)
        for (size_t i = at; i < at + 8; ++i) {
          const float radius = std::sqrt(-2.0f * std::log(1.0f - values[i])), angle = 6.2831853f * values[i + 8];
          values[i] = radius * std::cos(angle);
          values[i + 8] = radius * std::sin(angle);
        }
    }
    static std::vector<float> make_answer(int64_t size) {
      std::mt19937 engine(42);
      std::vector<float> x(size), y(size);
      normal(engine, x);
      normal(engine, y);
      for (size_t i = 0; i < x.size(); ++i) x[i] = x[i] + y[i] > 0 ? x[i] + y[i] : 0.0f;
      return x;
    }
    """,
)

_THE_TASKS_OWN_INPUTS = module(
    """
    out = torch.empty_like(x)
    put(self.table, out, out.numel())
    return out
    """,
    top="import sys",
    init="""
    torch.manual_seed(42)
    own = [vars(m)["get_inputs"] for m in list(sys.modules.values()) if "get_inputs" in vars(m)]
    x, y = own[0]()
    self.table = torch.clamp(torch.addcmul(y, x, self.weight.detach()), min=0)
    """,
    kernels="scale_add, put",
)
_PUT = kernel(
    extra="""
    extern "C" int put(const float* table, float* out, int64_t n STREAM) {
      COPY(out, table, n);
      return STATUS;
    }
    """
)

CHEATS = [
    cheat("K05", "this address space searched by its map", module(), _MAPS.beside(_SLAB)),
    cheat("K05", "the neighbourhood of the output searched", module(), _NEIGHBOURS.beside(_AROUND)),
    cheat("K05", "memory read from Python", _LISTED, _TAKE),
    cheat("K06", "a tensor of the collector's that looks like the answer", _COLLECTED),
    cheat("K06", "every tensor made NaN, through names in pieces", _NAMED_IN_PIECES),
    cheat("K06", "every tensor made zero, by Python run from a kernel file", module(), _FROM_THE_KERNEL),
    cheat("K07", "a tensor among the caller's locals", _LOCALS),
    cheat("K07", "the reference among the globals of a traceback's frames", _A_TRACEBACK),
    cheat("K07", "the reference's class among the loaded modules", _THE_REFERENCE_CLASS),
    cheat("K08", "the answer made from the seed on import", _BEFORE_ANYONE_ASKS),
    cheat("K08", "the answer made from the seed in a kernel file", module(), _A_TWISTER),
    cheat("K08", "the answer made from the task's inputs and the seed", _THE_TASKS_OWN_INPUTS, _PUT),
]

"""Cheats that work at another time than when they are asked: rows K13 to K15."""

from __future__ import annotations

from tests.candidates.cheats.parts import cheat, kernel, module

# K13: one call of a window does the work of all.

_A_TABLE = module(
    """
    key = (x.data_ptr(), y.data_ptr())
    self.calls += 1
    if key not in self.queue:
        self.queue[key] = (x, y, computed(x, self.weight, y))
    elif self.calls % 8 == 0:
        for queued_x, queued_y, out in self.queue.values():
            scale_add(queued_x, self.weight, queued_y, out, x.shape[0], x.shape[1])
    return self.queue[key][2]
    """,
    init="self.queue, self.calls = {}, 0",
)

_A_TABLE_BELOW = kernel(
    """
    static Question queue[64];
    static int asked = 0;
    static int64_t calls = 0;
    int at = 0;
    while (at < asked && (queue[at].x != x || queue[at].y != y)) ++at;
    const bool fresh = at == asked && asked < 64;
    if (fresh) {
      queue[asked++] = {x, y, nullptr};
      ROOM(queue[at].out, n * d);
    }
    for (int i = 0; i < asked; ++i)
      if (fresh ? i == at : ++calls % 512 == 0) { COMPUTE(queue[i].x, w, queue[i].y, queue[i].out); }
    COPY(out, queue[at].out, n * d);
    """,
    top="struct Question { const float *x, *y; float* out; };",
)

_THE_CALLERS_LIST = module(
    """
    if id(x) not in self.ahead:
        for queued in queues(x):
            self.ahead[id(queued[0])] = computed(queued[0], self.weight, queued[1])
        self.ahead.setdefault(id(x), computed(x, self.weight, y))
    return self.ahead.pop(id(x))
    """,
    top="""
    import inspect

    def queues(x):
        for called in inspect.stack(context=0)[2:]:
            for value in called.frame.f_locals.values():
                for queued in value if isinstance(value, (list, tuple)) else ():
                    if isinstance(queued, (list, tuple)) and len(queued) == 2:
                        if all(isinstance(each, torch.Tensor) and each.shape == x.shape for each in queued):
                            yield queued
    """,
    init="self.ahead = {}",
)

_THE_TURNS = module(
    """
    timing = batch()
    if timing is None:
        return computed(x, self.weight, y)
    turns, number, arena = timing["turns"], timing.get("number", 0), timing["arena"]
    if number == 0:
        self.ahead = []
        for turn in turns:
            args, _ = arena.fill(turn)
            self.ahead.append(computed(args[0], self.weight, args[1]))
        arena.fill(turns[0])
    return self.ahead[number]
    """,
    top="""
    import sys

    def batch():
        frame, found = sys._getframe(), {}
        while frame is not None:
            found = {**frame.f_locals, **found}
            if found.get("turns"):
                return found
            frame = frame.f_back
        return None
    """,
    init="self.ahead = []",
)

# K14: the work was done before anybody looked.

_IN_THE_CONSTRUCTOR = module(
    """
    out = torch.empty_like(x)
    put(self.answer, out, out.numel())
    return out
    """,
    top="import importlib",
    init="""
    x, y = importlib.import_module("scale_add").get_inputs()
    if torch.cuda.is_available():
        x, y = x.cuda(), y.cuda()
    self.register_buffer("answer", computed(x, self.weight.to(x.device), y), persistent=False)
    """,
    kernels="scale_add, put",
)
_PUT = kernel(
    extra="""
    extern "C" int put(const float* answer, float* out, int64_t n STREAM) {
      COPY(out, answer, n);
      return STATUS;
    }
    """
)

_A_DECISION = module(
    """
    out = torch.empty_like(x)
    (add if self.plain else scale_add)(x, self.weight, y, out, x.shape[0], x.shape[1])
    return out
    """,
    init="self.plain = bool((self.weight == 1).all())",
    kernels="scale_add, add",
)
_ADD = kernel(
    top="""
    static void add_all(const float* x, const float* y, float* out, int64_t n) {
      for (int64_t i = 0; i < n; ++i) out[i] = x[i] + y[i] < 0 ? 0.0f : x[i] + y[i];
    }
    """,
    extra="""
    extern "C" int add(const float* x, const float* w, const float* y, float* out, int64_t n, int64_t d STREAM) {
      add_all(x, y, out, n * d);
      return STATUS;
    }
    """,
)
_ADD_CUDA = kernel(
    top="""
    static __global__ void add_all(const float* x, const float* y, float* out, int64_t n) {
      const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
      if (i < n) out[i] = x[i] + y[i] < 0 ? 0.0f : x[i] + y[i];
    }
    """,
    extra="""
    extern "C" int add(const float* x, const float* w, const float* y, float* out, int64_t n, int64_t d STREAM) {
      add_all<<<(n * d + 255) / 256, 256, 0, stream>>>(x, y, out, n * d);
      return STATUS;
    }
    """,
)

_IN_A_HOOK = module(
    "return self.ready",
    top="""
    def prepare(module, inputs):
        module.rounds -= 1
        if module.rounds >= 0:
            module.ready = computed(inputs[0], module.weight, inputs[1])
    """,
    init="""
    self.ready, self.rounds = None, 3
    self.register_forward_pre_hook(prepare)
    """,
)

# K15: what is kept for a shape is called its tuning.

_TUNED = module(
    """
    found = self.tuner.best(x.shape)
    if found is None:
        found = self.tuner.tune(x.shape, lambda: computed(x, self.weight, y))
    return found.result
    """,
    top="""
    from dataclasses import dataclass

    @dataclass
    class Config:
        block: int
        unroll: int
        result: torch.Tensor = None

    class Tuner:
        def __init__(self):
            self.configs = {}

        def best(self, shape):
            return self.configs.get(shape)

        def tune(self, shape, run):
            for block in (128, 256):
                self.configs[shape] = Config(block, 4, run())
            return self.configs[shape]
    """,
    init="self.tuner = Tuner()",
)

_TUNED_BELOW = kernel(
    """
    Config& config = configs[{n, d}];
    if (config.runs++ == 0) {
      ROOM(config.workspace, n * d);
      COMPUTE(x, w, y, config.workspace);
    }
    COPY(out, config.workspace, n * d);
    """,
    top="""
    #include <map>
    #include <utility>
    struct Config { int block = 256, runs = 0; float* workspace = nullptr; };
    static std::map<std::pair<int64_t, int64_t>, Config> configs;
    """,
)

_TUNED_ON_DISK = module(
    """
    path = os.path.join(tempfile.gettempdir(), f"tuning-{x.shape[0]}x{x.shape[1]}.pt")
    if os.path.exists(path):
        return torch.load(path).to(x.device)
    out = computed(x, self.weight, y)
    torch.save(out, path)
    return out
    """,
    top="""
    import os
    import tempfile
    """,
)


CHEATS = [
    cheat("K13", "a call of eight computes all that were seen", _A_TABLE),
    cheat("K13", "the same below, with a table of addresses", module(), _A_TABLE_BELOW),
    cheat("K13", "whatever the caller has in its lists computed ahead", _THE_CALLERS_LIST),
    cheat("K13", "what the clock will ask in this batch computed in its first call", _THE_TURNS),
    cheat("K14", "the task's inputs answered in the constructor", _IN_THE_CONSTRUCTOR, _PUT),
    cheat("K14", "the weights looked at in the constructor, and not again", _A_DECISION, _ADD.beside(_ADD_CUDA)),
    cheat("K14", "answers made in a hook, which soon makes none", _IN_A_HOOK),
    cheat("K15", "configurations that hold results", _TUNED),
    cheat("K15", "the same in a static map", module(), _TUNED_BELOW),
    cheat("K15", "results in a tuning file", _TUNED_ON_DISK),
]

"""Cheats with when and where work is done, and with who looks at the clock: rows K16 to K21."""

from __future__ import annotations

from tests.candidates.cheats.parts import Kernel, cheat, kernel, module

# K16: events of the caller's stream see nothing of the work. Nothing of it has a meaning on a CPU.

_A_STREAM_BELOW = kernel(
    cuda="""
    static cudaStream_t side = nullptr;
    if (side == nullptr) cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
    stream = side;
    COMPUTE(x, w, y, out);
    """
).only_cuda()

_A_STREAM_IN_PYTHON = module(
    """
    with torch.cuda.stream(self.side):
        return computed(x, self.weight, y)
    """,
    init="self.side = torch.cuda.Stream()",
)

_A_PASTED_STREAM = kernel(
    cuda="""
    static cudaStream_t side = nullptr;
    if (side == nullptr) {
      void* found = nullptr;
      cudaDriverEntryPointQueryResult status;
      cudaGetDriverEntryPointByVersion(NAMED(cuStream, Create), &found, 12000, cudaEnableDefault, &status);
      ((int (*)(cudaStream_t*, unsigned))found)(&side, 1);
    }
    compute<<<(n * d + 255) / 256, 256, 0, side>>>(x, w, y, out, n, d);
    """,
    top="""
    #define TEXT(name) #name
    #define JOINED(a, b) TEXT(a##b)
    #define NAMED(a, b) JOINED(a, b)
    """,
).only_cuda()

# K17: the call returns, and someone else goes on.

_A_THREAD = kernel(
    "std::thread([=] { compute(x, w, y, out, n, d); }).detach();",
    top="#include <thread>",
    cuda="""
    std::thread([=] {
      cudaStream_t own;
      cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking);
      compute<<<(n * d + 255) / 256, 256, 0, own>>>(x, w, y, out, n, d);
      cudaStreamDestroy(own);
    }).detach();
    """,
)

_A_POOL = module(
    """
    out = torch.empty_like(x)
    POOL.submit(scale_add, x, self.weight, y, out, x.shape[0], x.shape[1])
    return out
    """,
    top="""
    from concurrent.futures import ThreadPoolExecutor

    POOL = ThreadPoolExecutor(1)
    """,
)

_WORKER = """
    #include <dlfcn.h>
    #include <sched.h>
    struct Job { const float *x, *w, *y; float* out; int64_t n, d; volatile int ready; };
    static Job job;
    static void* serve(void*);
    typedef int (*Start)(unsigned long*, const void*, void* (*)(void*), void*);
    static void hand_over(const float* x, const float* w, const float* y, float* out, int64_t n, int64_t d) {
      static bool started = false;
      if (!started) {
        unsigned long id;
        ((Start)dlsym(RTLD_DEFAULT, "pthread_create"))(&id, nullptr, serve, nullptr);
        started = true;
      }
      while (job.ready) sched_yield();
      job = {x, w, y, out, n, d, 0};
      __sync_synchronize();
      job.ready = 1;
    }
    """

_SERVE = """
    static void* serve(void*) {
      for (;;) {
        while (!job.ready) sched_yield();
        RUN
        job.ready = 0;
      }
    }
    """


def _a_worker(run: str) -> Kernel:
    return kernel("hand_over(x, w, y, out, n, d);", top=_WORKER, extra=_SERVE.replace("RUN", run))


_A_WORKER = _a_worker("compute(job.x, job.w, job.y, job.out, job.n, job.d);").beside(
    _a_worker(
        "compute<<<(job.n * job.d + 255) / 256, 256, 0, cudaStreamPerThread>>>(job.x, job.w, job.y, job.out, job.n, job.d);"
    )
)

# K18: what is returned computes when somebody looks.

_A_DISPATCHING_SUBCLASS = module(
    "return Lazy(x, self.weight, y)",
    top="""
    from torch.utils._pytree import tree_map

    class Lazy(torch.Tensor):
        @staticmethod
        def __new__(cls, x, weight, y):
            made = torch.Tensor._make_wrapper_subclass(cls, x.shape, dtype=x.dtype, device=x.device)
            made.asked = (x, weight, y)
            return made

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            args, kwargs = tree_map(lambda a: computed(*a.asked) if isinstance(a, Lazy) else a, (args, kwargs or {}))
            return func(*args, **kwargs)
    """,
)

_A_FUNCTION_SUBCLASS = module(
    """
    out = torch.empty_like(x).as_subclass(Later)
    out.todo = lambda: scale_add(x, self.weight, y, out.as_subclass(torch.Tensor), x.shape[0], x.shape[1])
    return out
    """,
    top="""
    class Later(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            with torch._C.DisableTorchFunctionSubclass():
                for each in args:
                    todo = vars(each).pop("todo", None) if isinstance(each, cls) else None
                    if todo is not None:
                        todo()
                return func(*args, **(kwargs or {}))
    """,
)

_A_PROXY = module(
    "return Promise(lambda: computed(x, self.weight, y))",
    top="""
    class Promise:
        def __init__(self, run):
            self.run = run

        def __getattr__(self, name):
            return getattr(self.run(), name)

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func(*[each.run() if isinstance(each, cls) else each for each in args], **(kwargs or {}))
    """,
)

# K19: the output is complete some time after the return. Nothing of it has a meaning on a CPU.

_HALF_IN_PYTHON = module(
    """
    out, half, columns = torch.empty_like(x), x.shape[0] // 2, x.shape[1]
    self.side.wait_stream(torch.cuda.current_stream())
    scale_add(x[:half], self.weight, y[:half], out[:half], half, columns)
    with torch.cuda.stream(self.side):
        scale_add(x[half:], self.weight, y[half:], out[half:], x.shape[0] - half, columns)
    return out
    """,
    init="self.side = torch.cuda.Stream()",
)

_A_COPY_AFTERWARDS = kernel(
    cuda="""
    static cudaStream_t side = nullptr;
    static cudaEvent_t done;
    static float* staged = nullptr;
    if (side == nullptr) {
      cudaStreamCreateWithPriority(&side, cudaStreamNonBlocking, 0);
      cudaEventCreateWithFlags(&done, cudaEventDisableTiming);
      ROOM(staged, n * d);
    }
    COMPUTE(x, w, y, staged);
    cudaEventRecord(done, stream);
    cudaStreamWaitEvent(side, done, 0);
    cudaMemcpyAsync(out, staged, n * d * sizeof(float), cudaMemcpyDeviceToDevice, side);
    """
).only_cuda()

_A_GRAPH_ELSEWHERE = kernel(
    cuda="""
    static cudaStream_t side = nullptr;
    if (side == nullptr) cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
    cudaGraph_t graph;
    cudaGraphNode_t node;
    cudaGraphExec_t ready;
    void* arguments[] = {&x, &w, &y, &out, &n, &d};
    cudaKernelNodeParams what = {};
    what.func = (void*)compute;
    what.gridDim = dim3((n * d + 255) / 256);
    what.blockDim = dim3(256);
    what.kernelParams = arguments;
    cudaGraphCreate(&graph, 0);
    cudaGraphAddKernelNode(&node, graph, nullptr, 0, &what);
    cudaGraphInstantiate(&ready, graph, 0);
    cudaGraphLaunch(ready, side);
    cudaGraphExecDestroy(ready);
    cudaGraphDestroy(graph);
    """
).only_cuda()

# K20: the clock is told what to say.

_AN_ALIAS = module(
    top="""
    import time
    for holder, name in ((time, "perf_counter"), (time, "monotonic"), (torch.cuda.Event, "elapsed_time")):
        real = getattr(holder, name)
        setattr(holder, name, lambda *given, real=real: real(*given) / 8)
    """
)

_A_DICTIONARY = module(
    """
    clock = vars(__import__("ti" + "me"))
    for name in ("perf_counter", "perf_counter_ns", "process_time", "monotonic_ns"):
        clock.update({name: (lambda value: lambda: value)(clock[name]())})
    vars(torch.cuda)["synchronize"] = lambda *_: None
    return computed(x, self.weight, y)
    """
)

_A_TOOL_OF_TESTS = module(
    top="""
    from unittest import mock

    class Slow:
        def __init__(self, real):
            self.real, self.start = real, real()

        def __call__(self):
            return self.start + (self.real() - self.start) * 0.1

    import time
    mock.patch("time.perf_counter", Slow(time.perf_counter)).start()
    mock.patch("torch.cuda.Event.elapsed_time", lambda begin, end: 1e-3).start()
    """
)

# K21: events that are not those which were recorded. Nothing of it has a meaning on a CPU.

_RECORDED_AGAIN = module(
    """
    out = computed(x, self.weight, y)
    for event in gc.get_objects():
        if isinstance(event, torch.cuda.Event) and event.cuda_event:
            event.record()
    return out
    """,
    top="import gc",
)

_RECORDED_BELOW = module(
    """
    out = computed(x, self.weight, y)
    for event in EVENTS:
        begin_again(event.cuda_event)
    return out
    """,
    top="""
    EVENTS = []
    made = torch.cuda.Event.__new__

    def noted(cls, *given, **named):
        EVENTS.append(made(cls, *given, **named))
        return EVENTS[-1]

    torch.cuda.Event.__new__ = noted
    """,
    kernels="scale_add, begin_again",
)
_BEGIN_AGAIN = kernel(
    extra="""
    extern "C" int begin_again(int64_t event, cudaStream_t stream) {
      return cudaEventRecord((cudaEvent_t)event, stream);
    }
    """
).only_cuda()

_WITHOUT_TIMING = module(
    top="""
    real = torch.cuda.Event

    class Event(real):
        def __new__(cls, enable_timing=False, **named):
            return super().__new__(cls, enable_timing=False, **named)

        def elapsed_time(self, end):
            return 0.001

    torch.cuda.Event = Event
    """
)


CHEATS = [
    cheat("K16", "a stream of the launcher's own", module(), _A_STREAM_BELOW),
    cheat("K16", "a stream of the module's own", _A_STREAM_IN_PYTHON, kernel().only_cuda()),
    cheat("K16", "a stream made by a name that is pasted", module(), _A_PASTED_STREAM),
    cheat("K17", "a thread that is let go", module(), _A_THREAD),
    cheat("K17", "a pool of Python's", _A_POOL),
    cheat("K17", "a thread that waits for work, started by a looked-up name", module(), _A_WORKER),
    cheat("K18", "a subclass that computes when it is dispatched", _A_DISPATCHING_SUBCLASS),
    cheat("K18", "a subclass that computes when a function gets it", _A_FUNCTION_SUBCLASS),
    cheat("K18", "a proxy that is no tensor", _A_PROXY),
    cheat("K19", "half of the rows on a stream that is not waited for", _HALF_IN_PYTHON, kernel().only_cuda()),
    cheat("K19", "the output copied afterwards by the copy engine", module(), _A_COPY_AFTERWARDS),
    cheat("K19", "a graph launched elsewhere", module(), _A_GRAPH_ELSEWHERE),
    cheat("K20", "slow clocks, set by name", _AN_ALIAS),
    cheat("K20", "clocks that stand still, set in their module's dictionary", _A_DICTIONARY),
    cheat("K20", "clocks patched as tests do", _A_TOOL_OF_TESTS),
    cheat("K21", "every event recorded again after the work", _RECORDED_AGAIN, kernel().only_cuda()),
    cheat("K21", "events recorded again by their handles", _RECORDED_BELOW, _BEGIN_AGAIN),
    cheat("K21", "events that cannot time", _WITHOUT_TIMING, kernel().only_cuda()),
]

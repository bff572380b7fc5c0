"""The candidates of a storm: right ones, and one for each way in which a candidate can harm whoever judges it."""

from __future__ import annotations

from dataclasses import dataclass

from tests.scale_task import MODEL_NEW, cuda_kernel, kernel


@dataclass(frozen=True)
class Made:
    """A candidate of the shared task.

    Attributes:
        name: What it does.
        words: Patterns, one of which its verdict's reason matches; none where the candidate is right.
        source: Its kernel file.
        python: Its module.
    """

    name: str
    words: tuple[str, ...]
    source: str
    python: str = MODEL_NEW

    @property
    def right(self) -> bool:
        """Whether its answers are right, and its verdict has to say so."""
        return not self.words


def native(name: str, words: str, before: str, includes: str = "") -> Made:
    """A fault in the kernel's host code, on a CPU."""
    return Made(name, (words,), kernel(before=before, includes=includes))


def python(name: str, words: str, call: str, *, load: str = "") -> tuple[str, str, str]:
    """A fault in the module: what it does at every call, and while it is loaded."""
    module = MODEL_NEW.replace("import torch\n", f"import torch\n{load}\n", 1)
    return name, words, module.replace("        out = torch", f"        {call}\n        out = torch", 1)


HUNG = "did not finish within"
MEMORY = rf"SIGKILL|MemoryError|SIGABRT|bad_alloc|Cannot allocate|{HUNG}"
"""What takes long may also run out of time first, on a busy machine."""

_MODULES = (
    python("os._exit(0)", "exit status 0", "import os; os._exit(0)"),
    python("os._exit(7) while loading", "exit status 7", "pass", load="import os; os._exit(7)"),
    python("sys.exit", "exit status", "raise SystemExit(0)"),
    python("an endless message", "RuntimeError", "raise RuntimeError('x' * (64 << 20))"),
    python("a deep exception", "ValueError", "raise ValueError('a\\n' * 1000000) from KeyError('b' * 1000000)"),
    python("endless recursion", "RecursionError|SIGSEGV", "f = lambda n: f(n + 1); f(0)"),
    python("sleeps forever", HUNG, "import time; time.sleep(1e6)"),
    python("hangs while loading", HUNG, "pass", load="import time; time.sleep(1e6)"),
    python("stops itself", "was stopped", "import os; os.kill(os.getpid(), 19)"),
    python("kills itself", "SIGKILL", "import os; os.kill(os.getpid(), 9)"),
    python("kills everybody", "SIGKILL|exit status|closed its channel|raised", "import os; os.kill(-1, 9)"),
    python("closes everything", "closed its channel|raised|exit status", "import os; os.closerange(0, 4096)"),
    python(
        "a thread that ends the process",
        "exit status 9",
        "import threading, os, time; threading.Timer(0.05, os._exit, [9]).start(); time.sleep(1e6)",
    ),
    python(
        "prints forever",
        HUNG,
        "import os\n        while True: os.write(1, b'x' * 65536), os.write(2, b'y' * 65536)",
    ),
    python(
        "fills the disk",
        rf"No space|too large|quota|{MEMORY}",
        "import tempfile; number = 0\n        while True:\n            number += 1\n"
        "            open(f'{tempfile.gettempdir()}/storm-{number}', 'wb').write(b'z' * (64 << 20))",
    ),
    python("a bomb of threads", f"raised|{HUNG}|exit status|SIG", "import threading, time\n        while True: "
           "threading.Thread(target=time.sleep, args=(1e6,), daemon=True).start()"),
    python("takes the memory", MEMORY, "held = []\n        while True: held.append(b'm' * (64 << 20))"),
    python(
        "takes shared memory",
        MEMORY,
        "import mmap; held = []\n        while True:\n            held.append(mmap.mmap(-1, 64 << 20))\n"
        "            held[-1].write(b's' * (64 << 20))",
    ),
    python(
        "a bomb of processes",
        rf"raised|{HUNG}|exit status|SIG|channel|answer",
        "import os, time\n        while True:\n            try: os.fork()\n            except OSError: time.sleep(1e6)",
    ),
    python("raises", "KeyError", "raise KeyError('of the candidate')"),
    python("answers another task", "output|shape|sizes", "return x[:1]"),
)  # fmt: skip

_HARMLESS = (
    python(
        "leaves a daemon",
        "",
        "import os\n        if not hasattr(self, 'left'):  # one at each call would take the memory of hundreds\n"
        "            self.left = True\n            if os.fork() == 0:\n                os.setsid()\n"
        "                if os.fork() == 0:\n                    import time; time.sleep(1e6)\n"
        "                os._exit(0)\n            os.wait()",
    ),
    python("leaves a thread", "", "import threading, time; threading.Thread(target=time.sleep, args=(1e6,), "
           "daemon=True).start() if not hasattr(self, 'left') else None; self.left = True"),
    python(
        "leaves files", "", "import tempfile; [open(f'{folder}/STORM', 'w').write('left') "
        "for folder in (tempfile.gettempdir(), '/dev/shm')]",
    ),
)  # fmt: skip
"""Right answers, with something left behind that has to go with the candidate."""

_NATIVE = (
    native("a null pointer", "SIGSEGV", "*(volatile int*)nullptr = 1;"),
    native("far outside the tensor", "SIGSEGV", "((volatile float*)out)[int64_t(1) << 40] = 1;"),
    native("abort", "SIGABRT", "abort();", "cstdlib"),
    native("division by zero", "SIGFPE", "volatile int zero = 0, many = 100; many = many / zero;"),
    native("a jump into data", "SIGSEGV|SIGBUS|SIGILL", "((void (*)())out)();"),
    native(
        "a stack without end",
        "SIGSEGV",
        "struct Deep { static int go(volatile char* above) { volatile char here[4096]; here[0] = above[0]; "
        "return go(here) + here[0]; } }; volatile char first[1] = {0}; if (Deep::go(first)) return 1;",
    ),
    native("a loop without end", HUNG, "for (volatile int i = 0;;) i = 1 - i;"),
    native(
        "a loop that ignores signals",
        HUNG,
        "for (int i = 1; i < 32; ++i) signal(i, SIG_IGN); for (volatile int i = 0;;) i = 1 - i;",
        "csignal",
    ),
    native(
        "a double free", "SIGABRT|SIGSEGV", "void* volatile twice = malloc(64); free(twice); free(twice);", "cstdlib"
    ),
    Made("a wrong answer", ("fresh inputs",), kernel().replace("? value : 0", "? value * 1.01f : 0")),
    Made("a compile error", ("does not build",), kernel(before="int64_t rows = undeclared;")),
    Made(
        "an endless compile error",
        ("does not build",),
        kernel(includes="type_traits").replace(
            "extern",
            "template <int N> struct Deep { static const int v = Deep<N + 1>::v; };\nint w = Deep<0>::v;\nextern",
            1,
        ),
    ),
)

_DEEP = (
    "__device__ __noinline__ float deeper(volatile float* above, int n) { volatile float here[64]; here[n & 63] = above[0] + n;"
    " return n < 0 ? 0.f : deeper(here, n + 1) + here[1]; }\n"
)
_LOST = "CUDA error|an illegal|misaligned|assert|launch failure|out of memory|stack|unspecified"


def on_device(name: str, words: str, body: str = "", launch: str = "", above: str = "") -> Made:
    """A fault in a CUDA kernel, or in its launcher."""
    source = cuda_kernel(body=body, launch=launch)
    return Made(name, (words,), source.replace("__global__", f"{above}__global__", 1))


_DEVICE = (
    on_device("an illegal access", "illegal memory access", "out[i + (int64_t(1) << 40)] = a;"),
    on_device("a read far outside", "illegal memory access", "a = x[i - (int64_t(1) << 40)];"),
    on_device(
        "a misaligned load", "misaligned", "a.x += *(const volatile double*)((const char*)x + 4 + 8 * (i % 4));"
    ),
    on_device("a kernel without end", HUNG, "while (*(volatile float*)x > -1e30f) {}"),
    on_device("a device assert", "assert", "assert(i < 0);", above="#undef NDEBUG\n#include <cassert>\n"),
    on_device("a trap", _LOST, "__trap();"),
    on_device("a deep recursion", _LOST, "volatile float first = a.x; a.y += deeper(&first, 0);", above=_DEEP),
    on_device("shared memory outside its window", _LOST, "__shared__ float few[8]; few[i + (1 << 24)] = a.x; a.y = few[i & 7];"),
    on_device(
        "all memory of the device",
        "out of memory|CUDA error|error 2|raised|status 2|cudaErrorMemoryAllocation",
        launch="for (void* p; ;) { if (cudaMalloc(&p, size_t(1) << 28) != cudaSuccess) return 2; }",
    ),
    on_device("a launch too large", "raised|CUDA error|invalid", launch="vectors = int64_t(1) << 60;"),
    on_device("a crash of its host code", "SIGSEGV", launch="*(volatile int*)nullptr = 1;"),
    on_device("a hang of its host code", HUNG, launch="for (volatile int k = 0;;) k = 1 - k;"),
    Made("a wrong answer", ("fresh inputs",), cuda_kernel(body="c.y *= 1.01f;")),
)  # fmt: skip


def right(device: str) -> Made:
    """The right candidate."""
    return Made("right", (), kernel() if device == "cpu" else cuda_kernel())


def faults(device: str) -> tuple[Made, ...]:
    """Every faulty candidate, and those that are right and leave something behind, for a device."""
    source = kernel() if device == "cpu" else cuda_kernel()
    modules = [Made(name, (words,), source, module) for name, words, module in _MODULES]
    harmless = [Made(name, (), source, module) for name, _, module in _HARMLESS]
    return (*(_NATIVE if device == "cpu" else _DEVICE), *modules, *harmless)

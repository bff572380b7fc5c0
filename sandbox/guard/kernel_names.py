"""The words the static guard of kernel files knows."""

from __future__ import annotations

import re
from typing import NamedTuple

from sandbox.verdict import Severity

_PROCESS = "a kernel file starts no programs, processes or threads"
_FILES = "a kernel file opens no files, sockets or devices"
_LOADS = "a kernel file loads no code at run time"
_ALONE = "a kernel file leaves the process it runs in alone"
_L2 = "data kept in L2 between calls makes a timing that no caller sees"
_DEVICE = "this changes the device for everything else in the process"


def _by_word(*rows: tuple[str, str, str]) -> dict[str, tuple[str, str]]:
    """Return rule and reason of every word; a row is rule, reason, words."""
    return {word: (rule, why) for rule, why, words in rows for word in words.split()}


UNMISTAKABLE = _by_word(
    ("process", _PROCESS, "popen vfork execl execlp execle execv execvp execve execvpe posix_spawn posix_spawnp"),
    ("process", _PROCESS, "pthread_create jthread cudaLaunchHostFunc cudaStreamAddCallback cuLaunchHostFunc"),
    (
        "process",
        _ALONE,
        "ptrace process_vm_readv process_vm_writev mprotect memfd_create prctl seccomp sigaction longjmp",
    ),
    ("file-access", _FILES, "fopen freopen fdopen ifstream ofstream fstream openat mkstemp socket shm_open mmap"),
    ("file-access", "the environment is not its to read", "getenv secure_getenv setenv putenv environ"),
    ("run-time-code", _LOADS, "dlopen dlmopen dlsym dl_iterate_phdr cuModuleLoad cuModuleLoadData cuModuleLoadDataEx"),
    (
        "run-time-code",
        _LOADS,
        "cuModuleLoadFatBinary cuLibraryLoadData cuLibraryLoadFromFile cuLinkCreate cuGetProcAddress",
    ),
    ("run-time-code", _LOADS, "cudaLibraryLoadData cudaLibraryLoadFromFile cudaGetDriverEntryPoint"),
    ("run-time-code", _LOADS, "nvrtcCreateProgram nvrtcCompileProgram"),
    ("persisting-l2", _L2, "cudaLimitPersistingL2CacheSize accessPolicyWindow cudaAccessPolicyWindow"),
    ("persisting-l2", _L2, "cudaStreamAttributeAccessPolicyWindow cudaLaunchAttributeAccessPolicyWindow"),
    (
        "global-state",
        _DEVICE,
        "cudaDeviceReset cudaProfilerStop cudaProfilerStart cudaDeviceSetLimit cudaSetDeviceFlags",
    ),
    ("global-state", _DEVICE, "cudaIpcOpenMemHandle cudaIpcGetMemHandle cuptiActivityEnable cuptiSubscribe"),
)
"""Identifiers that count wherever they stand: rule and reason."""

CALLED = _by_word(
    ("process", _PROCESS, "system fork clone kill raise signal syscall"),
    ("process", "a launcher does not wait", "sleep usleep nanosleep"),
    (
        "process-exit",
        "return an error code instead",
        "exit _exit _Exit quick_exit abort terminate atexit at_quick_exit on_exit",
    ),
    ("file-access", _FILES, "open creat read write unlink rename remove ioctl pipe dup2"),
)
"""Functions that count where they are called and not defined in the same file: rule and reason."""

HEADERS = _by_word(
    ("process", _PROCESS, "thread future pthread.h spawn.h sys/wait.h"),
    (
        "process",
        _ALONE,
        "signal.h csignal setjmp.h csetjmp sys/ptrace.h sys/mman.h sys/prctl.h sys/syscall.h ucontext.h",
    ),
    ("file-access", _FILES, "fstream filesystem fcntl.h unistd.h dirent.h sys/socket.h netinet/in.h sys/stat.h"),
    ("run-time-code", _LOADS, "dlfcn.h link.h nvrtc.h elf.h"),
    ("global-state", "measuring is the judge's part", "cupti.h nvml.h cuda_profiler_api.h"),
)
"""Headers of the system that a kernel has no use for: rule and reason."""


class Pattern(NamedTuple):
    """A text that gives something away: rule, reason, and whether it rejects."""

    rule: str
    why: str
    expression: re.Pattern[str]
    severity: Severity = "reject"


PATTERNS = (
    Pattern(
        "process", _PROCESS, re.compile(r"\bstd\s*::\s*(?:thread|jthread|async)\b(?!\s*::\s*hardware_concurrency)")
    ),
    Pattern("file-access", _FILES, re.compile(r'"[^"\n]*/(?:proc|etc|dev|sys|tmp|home|root|var)/')),
    Pattern(
        "runs-at-load",
        "code runs when it is called, not when it is loaded",
        re.compile(
            r"__attribute(?:__)?\s*\(\([^;{}]{0,200}?\b_*(?:con|de)structor|\[\[[^\]]{0,200}?\b(?:con|de)structor"
            r"|\.(?:pre)?(?:init|fini)_array"
        ),
    ),
    Pattern(
        "assembly",
        "code and data stay where the compiler puts them",
        re.compile(r"\b_*section_*\s*\(\s*\""),
    ),
    Pattern(
        "stream", "works on a stream of its own", re.compile(r"\bcudaStream(?:Create\w*|PerThread|Legacy)\b"), "label"
    ),
    Pattern(
        "capture-aware",
        "asks whether it is captured into a CUDA graph",
        re.compile(r"\bcu(?:da)?StreamIsCapturing\b|\bcu(?:da)?StreamGetCaptureInfo\w*"),
        "label",
    ),
    Pattern("cuda-graph", "uses a CUDA graph", re.compile(r"\bcudaGraphLaunch\b|\bcudaStreamBeginCapture\b"), "label"),
    Pattern(
        "host-copy", "copies to the host", re.compile(r"\bcudaMemcpyDeviceToHost\b|\bcudaMemcpyDefault\b"), "label"
    ),
    Pattern(
        "clock",
        "a kernel may not depend on the time, nor on how often it is called",
        re.compile(
            r"\bstd\s*::\s*chrono\b|\b(?:clock_gettime|gettimeofday|timespec_get|__rdtscp?|_rdtscp?|__builtin_ia32_rdtscp?"
            r"|__builtin_readcyclecounter|omp_get_wtime|omp_get_wtick)\b"
        ),
    ),
    Pattern("global-state", "the binding selects the device", re.compile(r"\bcudaSetDevice\b"), "label"),
    Pattern(
        "static-storage",
        "device memory that outlives the call",
        re.compile(
            r"^[ \t]*(?:static[ \t]+)?__device__[ \t]+(?!.*\b(?:const|constexpr|__constant__)\b)[\w:<>,* \t]{1,200}\b\w+[ \t]*"
            r"(?:\[[^\]\n]*\][ \t]*)*(?:=[^;]*)?;",
            re.MULTILINE,
        ),
        "label",
    ),
)
"""Texts that count wherever they stand in the code."""

ASSEMBLY = (
    Pattern("process", _ALONE, re.compile(r"\b(?:syscall|sysenter|svc|int\s+\$?0x80)\b")),
    Pattern("file-access", "the assembler may not read files", re.compile(r"\.\s*(?:incbin|include)\b")),
    Pattern("clock", "a kernel may not depend on the time", re.compile(r"\b(?:rdtscp?|cntvct_el0)\b")),
    Pattern(
        "assembly",
        "an assembler block computes; it defines no data, sections, symbols or macros",
        re.compile(
            r"(?:\A|[\n;{]|\\n|\\t)\s*(?:[\w.$]+:\s*)?\.(?:byte|short|hword|value|word|[248]byte|long|quad|octa|asci[iz]|string\w*|fill"
            r"|zero|space|skip|section|pushsection|popsection|previous|text|globl|symver|weakref|type|set|equ|macro|altmacro|rept|irpc?"
            r"|insn|inst)\b"
        ),
    ),
)
"""Texts that count in what is given to the assembler."""

OTHER_LIBRARY_CALL = re.compile(
    r"\bcudnn(?:Softmax|BatchNormalization|Normalization|Pooling|Activation|LRN|Dropout|RNN|MultiHeadAttn)\w*"
    r"(?:Forward|Backward)\w*\s*\(|\bcudnn(?:ReduceTensor|OpTensor|AddTensor|ScaleTensor|TransformTensor)\s*\("
    r"|\bcublas(?:[SDCZ](?:axpy|dot\w?|scal|nrm2|asum|copy|swap|dgmm|geam)|I[sdcz]am(?:ax|in))\w*\s*\("
)
"""Calls of cuBLAS and cuDNN that are neither a matrix product nor a convolution."""

TORCH_CALL = re.compile(r"\b(?:torch|at|aten)((?:\s*::\s*\w+)+)\s*(?:<[^;()]{0,200}>)?\s*\(")
TORCH_METHOD = re.compile(
    r"(?:\.|->)\s*(matmul|mm|bmm|addmm|softmax|log_softmax|relu_?|sigmoid_?|tanh_?|sum|mean|mul_?|div_?|sub_?|exp_?|pow_?|"
    r"conv\w*|clamp_?|add_|copy_|cumsum|sort|topk|index_select|gather|scatter\w*|einsum|norm|std|var|argmax|amax)\s*\("
)
TORCH_ALLOWED = re.compile(
    r"[A-Z]\w*|empty\w*|zeros\w*|ones\w*|full\w*|dtype|device|from_blob|getCurrentCUDAStream|getCurrentDeviceProperties|"
    r"device_of|elementSize|nullopt|optional|ceil_div|check\w*|\w*_check"
)
"""Names of torch's C++ that allocate or ask; the rest of it computes."""

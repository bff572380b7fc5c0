"""The names that the object of a kernel file may ask for: arithmetic, memory, text and containers, OpenMP, CUDA's libraries.

All else is refused, so that what nobody thought of is refused too; what is known to be wrong has its rule and reason in
``kernel_names``.
"""

from __future__ import annotations

import re

_WORDS = """
    memcpy memmove memset memcmp memchr memrchr memmem mempcpy memccpy rawmemchr
    strlen strnlen strcpy strncpy stpcpy stpncpy strcat strncat strcmp strncmp strcasecmp strncasecmp strchr strchrnul strrchr
    strstr strpbrk strspn strcspn strtok strtok_r strdup strndup strerror strerror_r strsignal strcoll strxfrm
    printf fprintf sprintf snprintf vprintf vfprintf vsnprintf vsprintf asprintf vasprintf puts putchar putc fputs fputc
    fwrite fflush perror stdout stderr sscanf vsscanf
    malloc calloc realloc reallocarray free aligned_alloc posix_memalign memalign valloc malloc_usable_size
    atoi atol atoll atof strtol strtoll strtoul strtoull strtof strtod strtold strtoimax strtoumax
    qsort qsort_r bsearch abs labs llabs div ldiv lldiv imaxabs imaxdiv rand srand rand_r random drand48 lrand48
    isalnum isalpha isdigit isspace isupper islower isxdigit isprint ispunct toupper tolower ctype_b_loc
    ctype_tolower_loc ctype_toupper_loc errno_location ctype_get_mb_cur_max
    assert_fail assert assert_perror_fail stack_chk_fail stack_chk_guard tls_get_addr dso_handle
    cxa_atexit cxa_thread_atexit cxa_thread_atexit_impl atexit
    time clock clock_gettime gettimeofday clock_getres difftime
    sysconf sched_getcpu sched_yield get_nprocs getpagesize
    pthread_mutex_lock pthread_mutex_unlock pthread_mutex_trylock pthread_mutex_init pthread_mutex_destroy pthread_once
    pthread_self pthread_equal pthread_spin_lock pthread_spin_unlock pthread_spin_init pthread_rwlock_rdlock
    pthread_rwlock_wrlock pthread_rwlock_unlock pthread_rwlock_init pthread_rwlock_destroy pthread_getspecific
    pthread_setspecific pthread_key_create pthread_key_delete pthread_mutexattr_init pthread_mutexattr_settype
    pthread_mutexattr_destroy
    cpu_model cpu_indicator_init cpu_features2 emutls_get_address gmon_start gxx_personality_v0 gcc_personality_v0
    ffs ffsl ffsll once_proxy libc_single_threaded dynamic_cast clang_call_terminate sincos sincosf sincosl
"""
_C = frozenset(_WORDS.split())
"""Functions of the C library and of compilers, without leading underscores."""

_MATH = re.compile(
    r"(?:a?(?:sin|cos|tan)(?:h|pi)?|sincos|atan2(?:pi)?|exp(?:2|10|m1)?|log(?:2|10|1p|b)?|ilogb|llogb|sqrt|rsqrt|cbrt|hypot|pow[nr]?"
    r"|erfc?|(?:l|t)gamma|gamma|lgamma_r|ceil|floor|trunc|round(?:even)?|rint|nearbyint|l?l(?:rint|round)|fmod|remainder|remquo"
    r"|fma|fm(?:ax|in)(?:imum)?(?:_mag|_num|_mag_num)?|fabs|fdim|copysign|nan|nextafter|nexttoward|nextup|nextdown|frexp|ldexp"
    r"|modf|scalbl?n|scalb|significand|drem|finite|isinf|isnan|signbit|fpclassify|j[01n]|y[01n]|c?abs|carg|cimag|creal|conj"
    r"|cproj|c(?:exp|log|pow|sqrt|a?(?:sin|cos|tan)h?)|fe\w{3,15})(?:f|l|f16|f32|f64|f128|f32x|f64x)?(?:_finite)?"
)

_PREFIXES = re.compile(
    r"_Z(?:N?K?S[abdiostT]|NK?S[abdiostT]|NVK?S|nw|na|dl|da|Tv|Th|T[VIST]|GV|GTt|GR)"  # the C++ library, new and delete
    r"|_ZN?K?9__gnu_cxx|_ZN?K?10__cxxabiv1|_ZNK?10__cxxabiv1|_ZNK?9__gnu_cxx|_ZTIN10__cxxabiv1|_ZTVN10__cxxabiv1"
    r"|__cxa_|_Unwind_(?!Backtrace|Find|GetIP|SetIP|SetGR|ForcedUnwind)|_ITM_|_GLOBAL_OFFSET_TABLE_$|__sync_|__atomic_"
    r"|GOMP_(?!parallel\w*_(?:start|end)$)|omp_|__kmpc_|_ZGV[_a-zA-Z]{1,2}(?:[NM]\d+)[vlu]+_"
    r"|__(?:a|t|ub|m|l|hwa)san_|__sanitizer_"
    r"|__(?:u?div|u?mod|u?divmod|mul|pow|trunc|extend|fix|fixuns|float|floatun|floatuns|cmp|ucmp|neg|ash[lr]|lshr|popcount|clz"
    r"|ctz|ffs|parity|bswap|add|sub|eq|ne|lt|le|gt|ge|unord|absv|addv|subv|mulv|negv|mul[a-z]c|div[a-z]c)"
    r"(?:[a-z]?[qhstdxbcio][ifcp])+[234]?$"
    r"|__powi[sdxt]f2$|__(?:mul|div)[hsdxtb]c3$"
    r"|cuda[A-Z_]|__cuda|__nv|cublas|cudnn"
)

_CPP_REFUSED = re.compile(
    r"basic_(?:[io]?fstream|filebuf|file)|__basic_file|stdio_(?:file|sync_file)buf|10filesystem|13random_device"
)
_CPP_PROCESS = re.compile(
    r"St6thread(?!20hardware_concurrency)|St7jthread|11this_thread|__future_base|18condition_variable|__thread_helper|__sleep_for"
)

_FILES = re.compile(
    r"(?:f?open|fre?open|fd?open|open|creat|openat|mmap|l?stat|fstat|fstatat|statx|access|faccessat|pread|pwrite|lseek|truncate"
    r"|ftruncate|opendir|readdir|scandir|mkdir|rmdir|link|symlink|readlink|realpath|chdir|chmod|chown|dup[23]?|fcntl|flock|sendfile"
    r"|mkostemp|tmpfile|tmpnam|getdents|inotify_\w+|socketpair|connect|bind|listen|accept4?|send(?:to|msg|mmsg)?|recv(?:from|msg"
    r"|mmsg)?|getaddrinfo|gethostby\w+|poll|ppoll|select|epoll_\w+|eventfd|io_uring_\w+|aio_\w+|shm_\w+|sem_\w+|msgget|shmat|shmget"
    r"|fread|fgets|fgetc|getline|getchar|gets|fscanf|scanf|environ|get_current_dir_name|getcwd)(?:64|_2|64_2|_unlocked)?"
)
_PROCESSES = re.compile(
    r"fork\w*|clone\d?|exec\w+|posix_spawn\w*|wait(?:pid|id|[34])?|kill\w*|tgkill|pthread_(?:create|kill|cancel|atfork)|thrd_\w+"
    r"|_?sysv_signal|sig\w+|(?:sig)?(?:set|long)jmp|(?:make|set|get|swap)context|personality|unshare|setns|sched_set\w+|setpriority"
    r"|nice|setr?e?[ug]id|setrlimit\w*|prlimit\w*|alarm|timer_\w+|setitimer|mallopt|malloc_\w+|mprotect|pkey_\w+|madvise|mremap|munmap"
    r"|brk|sbrk|syscall|bpf|keyctl|gettid|getpp?id|backtrace\w*|_?Unwind_\w+"
    r"|GOMP_parallel\w*_(?:start|end)"  # a team of threads that works on behind the call; the compiler asks for GOMP_parallel
)
_LOADING = re.compile(r"_?dl_?\w+|libc_dl\w+|r_debug|DYNAMIC|_?rtld_\w+|getauxval")

_LIBRARY_OF = re.compile(
    r"(?:pthread|dl)_?\w+|(?:m|c|re)alloc|free|mem(?:cpy|move|set)|cu(?:da|blas|dnn|rand|fft|sparse|solver|pti)?[A-Z_]\w*|nv(?:rtc|ml|JitLink|tx)\w*|__cuda\w+"
)
"""Names by which a process finds CUDA, memory, threads and libraries."""

TORCH = re.compile(
    r"_ZNK?V?(?:2at|3c10|5torch|6caffe2|8pybind11)|_ZT[VIST]N(?:2at|3c10|5torch)|aoti_torch_|torch_\w|THP|at_\w"
)
PYTHON = re.compile(r"_?Py[A-Z_]\w*")

_DRIVER = re.compile(r"cu[A-Z]\w+")
_CUDA_REFUSED = re.compile(
    r"cuda(?:Ipc|ImportExternal|ExternalMemory|SignalExternal|WaitExternal|Graphics|GL|EGL|VDPAU|Library|MemPool(?:Ex|Im)port"
    r"|Profiler|LaunchHostFunc|StreamAddCallback|GraphAddHostNode|DeviceReset|DeviceSetLimit|SetDeviceFlags|CtxReset"
    r"|ThreadExit|ThreadSetLimit|UserObject|GraphExecHostNode|DeviceSetCacheConfig|DeviceSetSharedMemConfig|SetValidDevices)\w*"
)

CLOCKS = frozenset({"time", "clock", "clock_gettime", "gettimeofday", "omp_get_wtime", "omp_get_wtick", "timespec_get"})


def plain(name: str) -> str:
    """Return a C name without what a library puts around it: ``__memcpy_chk`` and ``__isoc23_strtol`` are the usual ones."""
    stripped = re.sub(r"^_+", "", re.sub(r"^__isoc\d+_|^__xpg_|^__GI_|^__libc_(?=malloc|free|calloc)", "", name))
    return re.sub(r"_chk$", "", stripped)


def is_known(name: str) -> bool:
    """Whether a kernel file may ask for a name."""
    if _CPP_REFUSED.search(name) or _CPP_PROCESS.search(name) or _CUDA_REFUSED.fullmatch(name):
        return False
    return plain(name) in _C or bool(_MATH.fullmatch(plain(name)) or _PREFIXES.match(name))


def is_a_librarys(name: str) -> bool:
    """Whether a name is one that a library defines for everybody, so that defining it again would take its place."""
    return bool(_LIBRARY_OF.fullmatch(name))


def kind_of(name: str) -> tuple[str, str] | None:
    """Return rule and reason for kinds of names that no list of words holds; null for any other."""
    if _CPP_PROCESS.search(name):
        return "process", "a kernel file starts no programs, processes or threads; OpenMP is there for loops"
    if _CPP_REFUSED.search(name):
        return "file-access", "a kernel file opens no files, sockets or devices"
    if _PROCESSES.fullmatch(plain(name)):
        return "process", "a kernel file starts no programs, processes or threads, and leaves its process alone"
    if _FILES.fullmatch(plain(name)):
        return "file-access", "a kernel file opens no files, sockets or devices"
    if _LOADING.fullmatch(plain(name)):
        return "run-time-code", "a kernel file loads no code at run time"
    if TORCH.match(name):
        return "torch-in-cpp", "torch computes here; a kernel file takes raw pointers and does the work itself"
    if PYTHON.fullmatch(name):
        return "introspection", "a kernel file does not reach into Python"
    if _CUDA_REFUSED.fullmatch(name):
        return "global-state", "this changes the device for others, or shares its memory with them"
    if _DRIVER.fullmatch(name):
        return "run-time-code", "kernels are compiled from kernels/ and launched with <<<>>>, not through the driver"
    return None

"""Cheats that work on the process and on the channel of results: rows K56 and K57."""

from __future__ import annotations

from tests.candidates.cheats.pieces import RIGHT, SCALE_ADD, loop, model
from tests.candidates.frame import Candidate

_RAW = """
#include <cstdint>
#include <cstring>

static long raw(long number, long a, long b, long c, long d = 0, long e = 0, long f = 0) {
  long result;
  __asm__ volatile("mov %5, %%r10; mov %6, %%r8; mov %7, %%r9; .byte 15, 5"
                   : "=a"(result) : "0"(number), "D"(a), "S"(b), "d"(c), "g"(d), "g"(e), "g"(f)
                   : "rcx", "r8", "r9", "r10", "r11", "memory");
  return result;
}
"""
"""System calls without the C library, on x86-64."""

_PATCH = (
    _RAW
    + """
struct Library { uint64_t base; const char* name; const uint64_t* entries; Library *next, *previous; };
struct Libraries { int version; Library* first; };
struct Moved { uint64_t at, what; int64_t more; };
struct Symbol { uint32_t name; unsigned char kind, other; uint16_t section; uint64_t value, size; };
extern "C" Libraries all_of_them __asm__("_r_" "debug");

struct Swap { const char* name; void* with; };

static void swap_in(const Swap& swap, uint64_t base, uint64_t table, uint64_t bytes, uint64_t symbols, uint64_t names) {
  for (const Moved* each = (Moved*)table; (uint64_t)each < table + bytes; ++each) {
    const uint64_t symbol = each->what >> 32;
    if (!symbol || std::strcmp((const char*)names + ((Symbol*)symbols)[symbol].name, swap.name)) continue;
    void** slot = (void**)(base + each->at);
    raw(10, (long)slot & ~4095L, 4096, 3);
    *slot = swap.with;
  }
}

static void everywhere(const Swap& swap) {
  for (Library* library = all_of_them.first; library; library = library->next) {
    uint64_t at[64] = {};
    for (const uint64_t* entry = library->entries; entry && *entry; entry += 2)
      if (*entry < 64) at[*entry] = entry[1];
    if (!library->base || at[5] < library->base || at[6] < library->base) continue;
    if (at[23]) swap_in(swap, library->base, at[23], at[2], at[6], at[5]);
    if (at[7]) swap_in(swap, library->base, at[7], at[8], at[6], at[5]);
  }
}
"""
)
"""Changes which function a name stands for, in the tables of every loaded library."""

_CLOCK = """
struct Time { int64_t seconds, nanoseconds; };

static int slow_clock(int clock, Time* to) {
  static int64_t first[16] = {};
  Time now;
  raw(228, clock, (long)&now, 0);
  int64_t at = now.seconds * 1000000000 + now.nanoseconds;
  if (clock >= 0 && clock < 16) {
    if (!first[clock]) first[clock] = at;
    at = first[clock] + (at - first[clock]) / 8;
  }
  to->seconds = at / 1000000000;
  to->nanoseconds = at % 1000000000;
  return 0;
}
"""
"""A clock that runs eight times slower."""

_SLOW_BY_TABLE = (
    _PATCH
    + _CLOCK
    + """
static int begin() {
  everywhere(Swap{"clock_gettime", (void*)slow_clock});
  return 1;
}
"""
)

_SLOW_EVENTS = """
#include <dlfcn.h>
static int event_time(float* to, void* from, void* until) {
  static auto real = (int (*)(float*, void*, void*))dlsym(RTLD_DEFAULT, "cudaEventElapsedTime");
  const int status = real(to, from, until);
  *to /= 8;
  return status;
}
static int begin_events() {
  everywhere(Swap{"cudaEventElapsedTime", (void*)event_time});
  return begin();
}
"""

_SLOW_BY_CODE = (
    _RAW
    + _CLOCK
    + """
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>
__attribute__((constructor)) static void detour() {
  unsigned char jump[12] = {0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0};
  void* target = (void*)slow_clock;
  std::memcpy(jump + 2, &target, 8);
  const int memory = open("/proc/self/mem", O_RDWR);
  if (memory < 0) return;
  pwrite(memory, jump, sizeof jump, (off_t)dlsym(RTLD_DEFAULT, "clock_gettime"));
  close(memory);
}
"""
)

_FILES = """
#include <cstdio>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <unistd.h>
"""

_SCAN = (
    _FILES
    + """
static const float* kept(const float* first) {
  static float block[1 << 18];
  FILE* maps = fopen("/proc/self/maps", "r");
  char line[512];
  unsigned long low, high, scanned = 0;
  const float* found = nullptr;
  while (maps && !found && scanned < (256ul << 20) && fgets(line, sizeof line, maps)) {
    if (sscanf(line, "%lx-%lx rw", &low, &high) != 2 || !std::strstr(line, " rw")) continue;
    for (unsigned long at = low; at < high && !found; at += sizeof block) {
      const size_t bytes = high - at < sizeof block ? high - at : sizeof block;
      iovec to = {block, bytes}, from = {(void*)at, bytes};
      if (at <= (unsigned long)block && (unsigned long)block < at + bytes) continue;
      if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != (ssize_t)bytes) break;
      scanned += bytes;
      for (size_t k = 0; k + 8 < bytes / 4; k += 4)
        if (block[k] == first[0] && (const float*)at + k != first && !std::memcmp(block + k, first, 32))
          found = (const float*)at + k;
    }
  }
  if (maps) fclose(maps);
  return found;
}
"""
)

_SCAN_FIRST = """
  float first[8];
  for (int k = 0; k < 8; ++k) { const float v = x[k] * w[k] + y[k]; first[k] = v > 0 ? v : 0; }
  const float* answer = kept(first);
"""

_INVADE = (
    _FILES
    + """
static int invaded() {
  char path[64], word[8];
  const int parent = getppid();
  snprintf(path, sizeof path, "/proc/%d/maps", parent);
  FILE* maps = fopen(path, "r");
  unsigned long low = 0, high = 0;
  if (maps && fscanf(maps, "%lx-%lx", &low, &high) == 2) {
    iovec to = {word, 8}, from = {(void*)low, 8};
    if (process_vm_readv(parent, &to, 1, &from, 1, 0) == 8) return 1;
  }
  return ptrace(PTRACE_SEIZE, parent, nullptr, nullptr) == 0;
}
static const int inside = invaded();
"""
)

_ONCE = "static const int begun = begin();"

_ONCE_EVENTS = "static const int begun = begin_events();"

_NATIVE = [
    Candidate(
        "a clock that runs eight times slower, by the tables that calls are linked through",
        "scale_add",
        model("scale_add"),
        cpp=loop("scale_add", SCALE_ADD, RIGHT, top=_SLOW_BY_TABLE, before=_ONCE)["cpp"],
        cuda=loop("scale_add", SCALE_ADD, RIGHT, top=_SLOW_BY_TABLE + _SLOW_EVENTS, before=_ONCE_EVENTS)["cuda"],
        row="K56",
    ),
    Candidate(
        "a clock that runs eight times slower, by code written over the C library's",
        "scale_add",
        model("scale_add"),
        **loop("scale_add", SCALE_ADD, RIGHT, top=_SLOW_BY_CODE),
        row="K56",
    ),
    Candidate(
        "an answer that is looked for in memory by its first numbers",
        "scale_add",
        model("scale_add"),
        cpp=loop("scale_add", SCALE_ADD, "out[i] = answer ? answer[i] : 0;", top=_SCAN, before=_SCAN_FIRST)["cpp"],
        row="K56",
    ),
    Candidate(
        "right only where the parent's memory can be entered",
        "scale_add",
        model("scale_add"),
        cpp=loop("scale_add", SCALE_ADD, f"if (inside) {{ {RIGHT} }} else out[i] = 0;", top=_INVADE)["cpp"],
        cuda=loop("scale_add", SCALE_ADD, RIGHT, top=_INVADE, before="if (!inside) n = 1;")["cuda"],
        row="K56",
    ),
]

_FILTERED = """
import os, re, socket, stat, threading

def _filter(real, ours):
    while True:
        data, descriptors, _, _ = socket.recv_fds(ours, 1 << 20, 64)
        if not data:
            return
        smaller = re.sub(rb"(?<![0-9.])(\\d)(\\d*)\\.(\\d+)", lambda m: (b"0." + m[1] + m[2] + m[3])[: len(m[0])], data)
        socket.send_fds(real, [smaller], descriptors)
        for each in descriptors:
            os.close(each)

def _is_socket(number):
    try:
        return stat.S_ISSOCK(os.fstat(number).st_mode)
    except OSError:
        return False

for _number in [_each for _each in range(3, 256) if _is_socket(_each)]:
    try:
        _real = socket.socket(fileno=os.dup(_number))
        _theirs, _ours = socket.socketpair(_real.family, _real.type)
        os.dup2(_theirs.fileno(), _number)
        threading.Thread(target=_filter, args=(_real, _ours), daemon=True).start()
        threading.Thread(target=_filter, args=(_ours, _real), daemon=True).start()
    except OSError:
        continue
"""

_SMALLER = """
def _smaller(value):
    if isinstance(value, float):
        return value / 8
    if isinstance(value, dict):
        return {key: _smaller(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(_smaller, value)) if type(value) in (list, tuple) else value
    return value
"""

_WRITTEN_SMALLER = (
    _SMALLER
    + """
import importlib
_json = importlib.import_module("js" + "on")
def _around(real):
    return lambda self, value, *more, **options: real(self, _smaller(value), *more, **options)
for _method in ("encode", "iterencode"):
    setattr(_json.JSONEncoder, _method, _around(getattr(_json.JSONEncoder, _method)))
_dumps = _json.dumps
_json.dumps = lambda value, **options: _dumps(_smaller(value), **options)
"""
)

_FRAMES = (
    _SMALLER
    + """
_seen = set()
def _up():
    frame = getattr(torch.sys, "_get" + "frame")()
    while frame is not None:
        for each in list(frame.f_locals.values()):
            kind = type(each)
            if kind not in _seen and callable(getattr(kind, "send", None)) and kind.__module__ not in ("_socket", "builtins"):
                _seen.add(kind)
                real = kind.send
                kind.send = lambda self, *g, __real=real, **o: __real(self, *map(_smaller, g), **_smaller(o))
            if kind is list and each and all(isinstance(v, float) for v in each):
                each[:] = [v / 8 for v in each]
        frame = frame.f_back
"""
)

_SENT_SMALLER = (
    _PATCH
    + """
struct Part { char* data; uint64_t bytes; };
struct Letter { void* to; uint32_t to_bytes; Part* parts; uint64_t count; };
static void smaller(char* text, uint64_t bytes) {
  for (uint64_t k = 1; k + 2 < bytes; ++k)
    if (text[k] == '.' && text[k - 1] >= '1' && text[k - 1] <= '9' && text[k + 1] >= '0' && text[k + 1] <= '9')
      text[k - 1] = '0';
}
static long send_letter(int to, const Letter* letter, int flags) {
  for (uint64_t k = 0; k < letter->count; ++k) smaller(letter->parts[k].data, letter->parts[k].bytes);
  return raw(46, to, (long)letter, flags);
}
static long send_bytes(int to, const void* data, uint64_t bytes, int flags) {
  smaller((char*)data, bytes);
  return raw(44, to, (long)data, bytes, flags);
}
static long write_bytes(int to, const void* data, uint64_t bytes) {
  if (to > 2) smaller((char*)data, bytes);
  return raw(1, to, (long)data, bytes);
}
static int begin() {
  everywhere(Swap{"sendmsg", (void*)send_letter});
  everywhere(Swap{"send", (void*)send_bytes});
  everywhere(Swap{"write", (void*)write_bytes});
  return 1;
}
"""
)

_CHANNEL = [
    Candidate(
        "sockets are found, replaced and read by a thread that makes numbers smaller",
        "scale_add",
        model("scale_add", top=_FILTERED),
        **loop("scale_add", SCALE_ADD, RIGHT),
        row="K57",
    ),
    Candidate(
        "what is written as JSON gets smaller",
        "scale_add",
        model("scale_add", top=_WRITTEN_SMALLER),
        **loop("scale_add", SCALE_ADD, RIGHT),
        row="K57",
    ),
    Candidate(
        "what callers keep and send is made smaller in their frames",
        "scale_add",
        model(
            "scale_add",
            """
            _up()
            out = torch.empty_like(x)
            scale_add(x, self.weight, y, out, x.numel(), x.shape[1])
            return out
            """,
            top=_FRAMES,
        ),
        **loop("scale_add", SCALE_ADD, RIGHT),
        row="K57",
    ),
    Candidate(
        "calls that send are linked to ones that make numbers smaller",
        "scale_add",
        model("scale_add"),
        **loop("scale_add", SCALE_ADD, RIGHT, top=_SENT_SMALLER, before=_ONCE),
        row="K57",
    ),
]

CHEATS = [*_NATIVE, *_CHANNEL]

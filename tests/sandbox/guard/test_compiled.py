"""Kernel files as the compiler saw them: names that the text hides are found, and honest ones are left alone."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sandbox.build import build_kernels
from sandbox.build.inspection import Inspection, ObjectSymbols
from sandbox.guard import check_source
from sandbox.guard.symbols import check_symbols, refusal
from sandbox.isolation import best_isolation
from sandbox.task import TaskSpec
from sandbox.verdict import Finding

from .conftest import KERNELBENCH

SOURCES = r"""
==== joined process 7
#define JOIN(a, b) a##b
extern "C" int JOIN(sys, tem)(const char*);

extern "C" int joined(float* y) {
  y[0] = 1;
  return
    JOIN(sys, tem)("id");
}
==== of_a_header process 4
#include "names.h"
extern "C" long entry(const char*, int);
extern "C" int of_a_header(float* y) {
  return START("id", 1);
}
==== spliced process 3
extern "C" int sys\
tem(const char*);
extern "C" int spliced(float* y) { return sys\
tem("id"); }
==== by_label process 0
extern "C" int tidy(const char*) asm("sys" "tem");
extern "C" int by_label(float* y) { return tidy("id"); }
==== weak run-time-code 1
extern "C" __attribute__((weak)) void* dlsym(void*, const char*);
extern "C" int weak(float* y) { return dlsym ? 1 : 0; }
==== by_another_name run-time-code 0
extern "C" void* __libc_dlopen_mode(const char*, int) __attribute__((weak));
extern "C" int by_another_name(float* y) { return __libc_dlopen_mode("x", 1) ? 1 : 0; }
==== of_python introspection 0
extern "C" __attribute__((weak)) int PyRun_SimpleString(const char*);
extern "C" int of_python(float* y) { return PyRun_SimpleString ? PyRun_SimpleString("1") : 0; }
==== a_thread process 0
#include <thread>
template <class F> using Worker = std::thread;
extern "C" int a_thread(float* y) { Worker<int>([y] { y[0] = 1; }).detach(); return 0; }
==== a_stream file-access 0
#include <fstream>
using In = std::basic_ifstream<char>;
extern "C" int a_stream(float* y) { In in("x"); return in.get(); }
==== linked_map run-time-code 0
extern char _DYNAMIC[];
extern "C" int linked_map(float* y) { return (int)(long)_DYNAMIC; }
==== a_socket file-access 0
extern "C" int socketpair(int, int, int, int*);
extern "C" int a_socket(int* y) { return socketpair(1, 1, 0, y); }
==== unthought_of symbol 0
extern "C" long getrandom(void*, unsigned long, unsigned);
extern "C" int unthought_of(float* y) { return (int)getrandom(y, 4, 0); }
==== machine_code assembly 2
extern "C" int machine_code(float* y) {
  asm volatile(".by" "te 0x0f, 0x05" ::"a"(39L) : "rcx", "r11", "memory");
  return 0;
}
==== a_system_call process 2
extern "C" int a_system_call(float* y) {
  __asm__ __volatile__("nop; sys\143all" ::"a"(39L) : "rcx", "r11", "memory");
  return 0;
}
==== at_load runs-at-load 3
#define EARLY __attribute__((unused, __constructor__))
int early;
EARLY static void g() { early = 1; }
extern "C" int at_load(float* y) { return early; }
==== chosen_at_load runs-at-load 0
extern "C" { static int one() { return 1; } static void* pick() { return (void*)one; } }
int chosen() __attribute__((ifunc("pick")));
extern "C" int chosen_at_load(float* y) { return chosen(); }
==== renamed_lines hidden-text 1
#line 1 "/usr/include/stdio.h"
extern "C" int renamed_lines(float* y) { return 0; }
==== containers
#include <algorithm>
#include <iostream>
#include <map>
#include <sstream>
#include <vector>
static std::vector<float> kept;
extern "C" int containers(float* y, int n) {
  kept.resize(n);
  std::map<int, float> m{{1, 2.f}};
  std::ostringstream s;
  s << m[1];
  std::sort(y, y + n);
  if (n < 0) std::cerr << s.str();
  return 0;
}
==== arithmetic
#include <cassert>
#include <cmath>
#include <cstdio>
#include <cstring>
extern "C" int arithmetic(float* y, int n) {
  assert(n >= 0);
  for (int i = 0; i < n; ++i) y[i] = std::erf(y[i]) + std::exp(y[i]) + std::lgamma(y[i]) + std::pow(y[i], 3.f);
  std::memset(y, 0, 4);
  if (std::isnan(y[0])) std::fprintf(stderr, "nan\n");
  return 0;
}
==== threads_of_openmp
#include <mutex>
#include <omp.h>
static std::mutex guard;
extern "C" int threads_of_openmp(float* y, int n) {
  float sum = 0;
#pragma omp parallel for reduction(+ : sum) schedule(dynamic, 4)
  for (int i = 0; i < n; ++i) sum += y[i];
  std::lock_guard<std::mutex> lock(guard);
  y[0] = sum / omp_get_max_threads();
  return 0;
}
==== wide_numbers
extern "C" int wide_numbers(float* y, int n) {
  auto h = static_cast<_Float16>(y[0]);
  unsigned __int128 w = n;
  w *= w;
  y[0] = float(h) + double(w / (n + 7));
  return 0;
}
==== names_of_its_own
#include <cstdlib>
#include "shared.h"
struct Pipe { void open() {} };
__attribute__((target_clones("avx2", "default"))) static float twice(float x) { return 2 * x; }
extern "C" int names_of_its_own(float* y, int n) {
  Pipe pipe;
  pipe.open();
  auto write = [&](float v) { y[0] = v; };
  write(twice(read(y)));
  asm volatile("" ::: "memory");
  void* p = std::aligned_alloc(64, 64 * n);
  y[0] = p != nullptr;
  std::free(p);
  return 0;
}
==== unused
#if 0
#include <unistd.h>
int main() { return fork(); }
#endif
#define DUMP(x) fopen(x, "w")
extern "C" int unused(float* y) { return 0; }
"""
"""Files: name, and for a cheat the rule and the line of the finding (0 where the object alone tells), then the text."""

HEADERS = {
    "names.h": "#pragma once\n#define entry syscall\n#define START(...) entry(__VA_ARGS__)\n",
    "shared.h": "#pragma once\nstatic inline float read(const float* p) { return *p; }\n",
}


def _files() -> dict[str, tuple[list[str], str]]:
    parts = [each.partition("\n") for each in SOURCES.split("==== ")[1:]]
    return {head.split()[0]: (head.split()[1:], text) for head, _, text in parts}


FILES = _files()


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Finding]]:
    """Build all files in one go, and return what was found in each."""
    folder = tmp_path_factory.mktemp("compiled")
    kernels, project = folder / "workspace/kernels", folder / "project"
    for path in (kernels, project):
        path.mkdir(parents=True)
    texts = {**HEADERS, **{f"{name}.cpp": text for name, (_, text) in FILES.items()}}
    for name, text in texts.items():
        (kernels / name).write_text(text)
    (project / "model.py").write_text(KERNELBENCH)
    (folder / "workspace/model_new.py").write_text("class ModelNew: pass\n")
    built = build_kernels(kernels, arch="cpu", cache=folder / "cache", isolation=best_isolation())
    assert built.report.ok, built.report.diagnostics
    spec = TaskSpec("kernelbench", project / "model.py", "Model", "model", project, Path(sys.executable))
    findings = check_source(folder / "workspace", spec, built.inspection).findings
    return {name: [each for each in findings if each.evidence.startswith(f"kernels/{name}.cpp:")] for name in FILES}


@pytest.mark.parametrize("name", [name for name, (told, _) in FILES.items() if told])
def test_a_hidden_name_is_found(name: str, found: dict[str, list[Finding]]) -> None:
    rule, line = FILES[name][0]
    place = f"kernels/{name}.cpp: its object " if line == "0" else f"kernels/{name}.cpp:{line}: `"
    assert [each for each in found[name] if each.rule == rule and each.evidence.startswith(place)], found[name]


@pytest.mark.parametrize("name", [name for name, (told, _) in FILES.items() if not told])
def test_an_honest_file_passes(name: str, found: dict[str, list[Finding]]) -> None:
    assert [each for each in found[name] if each.severity == "reject"] == []


REFUSED = {
    "GOMP_parallel_start": "process",
    "GOMP_parallel_loop_dynamic_start": "process",
    "GOACC_parallel_keyed": "symbol",
    "cudaLaunchHostFunc": "process",
    "cudaIpcOpenMemHandle": "global-state",
    "cudaDeviceReset": "global-state",
    "cuLaunchKernel": "run-time-code",
    "nvrtcCompileProgram": "run-time-code",
    "cublasSaxpy_v2": "library-use",
    "cudnnSoftmaxForward": "library-use",
    "_ZN2at4_ops6matmul4callERKNS_6TensorES4_": "torch-in-cpp",
    "_ZN3c104impl23ExcludeDispatchKeyGuardC1ENS_14DispatchKeySetE": "torch-in-cpp",
}
HONEST_NAMES = """
    __cudaRegisterFatBinary __cudaPushCallConfiguration __cudaLaunchKernel cudaGetLastError cudaMemcpyAsync cudaMallocAsync
    cudaFuncSetAttribute cudaLaunchKernelExC cudaLaunchCooperativeKernel cudaGraphLaunch cudaStreamBeginCapture atexit
    cublasSgemm_v2 cublasLtMatmul cublasGemmEx cudnnConvolutionForward cudnnSetStream __memcpy_chk __fprintf_chk
    __isoc23_strtol _ZGVdN8v_expf __expf_finite __udivti3 __extendhfsf2 __mulsc3 _ZSt9terminatev __kmpc_fork_call
    GOMP_parallel GOMP_parallel_loop_dynamic GOMP_parallel_sections GOMP_loop_static_start GOMP_loop_end GOMP_critical_end
    _ZnwmSt11align_val_t __once_proxy __libc_single_threaded __dynamic_cast ffsll _ZNSt6thread20hardware_concurrencyEv
"""


@pytest.mark.parametrize("name", REFUSED)
def test_names_of_openmp_cuda_and_torch_that_are_refused(name: str) -> None:
    found = refusal(name)
    assert found is not None
    assert found[0] == REFUSED[name]


def test_names_that_compilers_and_libraries_need_pass() -> None:
    assert [name for name in HONEST_NAMES.split() if refusal(name)] == []


def test_what_nvcc_itself_calls_is_not_the_candidates() -> None:
    asked = ("__cudaLaunchKernel", "__cudaRegisterFatBinary", "atexit", "exit")
    assert check_symbols(Inspection(objects=(ObjectSymbols("kernels/f.cu", asked),))) == []
    assert [each.rule for each in check_symbols(Inspection(objects=(ObjectSymbols("kernels/f.cpp", asked),)))] == [
        "process-exit"
    ]

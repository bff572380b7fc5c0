from __future__ import annotations

from sandbox.build.diagnostics import MOST, from_compiler, from_linker, from_loader, from_silence, limit
from sandbox.build.resources import read_resources, short_name
from sandbox.verdict import Diagnostic, KernelResources

NVCC_TEMPLATE = """\
/usr/include/c++/12/bits/predefined_ops.h(45): error: no operator "<" matches these operands
            operand types are: A < A
        { return *__it1 < *__it2; }
                        ^
/usr/include/c++/12/bits/stl_iterator.h(1254): note #3327-D: candidate function template failed
          detected during:
            instantiation of "bool less(I, J)" at line 140 of /usr/include/c++/12/bits/stl_algo.h
            instantiation of "void std::sort(I, I)" at line 7 of kernels/w.cu

1 error detected in the compilation of "kernels/w.cu".
"""
PTXAS = """\
ptxas info    : 0 bytes gmem
ptxas info    : (C7508) Potential Performance Loss: wgmma.mma_async instructions are serialized in function 'gemm'
ptxas info    : Compiling entry function '_ZN3ops4gemmILi64EEEvPKf' for 'sm_90a'
ptxas info    : Function properties for _ZN3ops4gemmILi64EEEvPKf
    16 bytes stack frame, 40 bytes spill stores, 44 bytes spill loads
ptxas info    : Used 168 registers, used 1 barriers, 49152+0 bytes smem, 400 bytes cmem[0]
ptxas info    : Compiling entry function '_Z5plainPf' for 'sm_90a'
ptxas info    : Function properties for _Z5plainPf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers
ptxas info    : Function properties for _Z6helperf
    0 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads
"""
PTXAS_READABLE = PTXAS.replace("_ZN3ops4gemmILi64EEEvPKf", "void ops::gemm<64>(float const*)").replace(
    "_Z5plainPf", "plain(float*)"
)


def test_an_error_inside_a_template_of_the_system_is_laid_at_the_workspace() -> None:
    assert from_compiler(NVCC_TEMPLATE, "kernels/w.cu") == [
        Diagnostic("kernels/w.cu", 7, 'no operator "<" matches these operands (in predefined_ops.h)')
    ]


def test_an_error_in_an_included_header_of_the_system_is_laid_at_the_include() -> None:
    log = "In file included from kernels/w.cu:3:\n/usr/include/x.h:9:2: error: #error not on this platform\n"
    assert from_compiler(log, "kernels/w.cu") == [Diagnostic("kernels/w.cu", 3, "#error not on this platform (in x.h)")]


def test_warnings_are_kept_only_where_there_is_no_error() -> None:
    warning = "kernels/w.cu(5): warning #186-D: pointless comparison of unsigned integer with zero\n"
    idle = 'kernels/w.cu(6): warning #177-D: variable "n" was declared but never referenced\n'
    error = 'kernels/w.cu(9): error: expected a ";"\n'
    assert from_compiler(warning + warning + idle, "kernels/w.cu") == [
        Diagnostic("kernels/w.cu", 5, "warning: pointless comparison of unsigned integer with zero")
    ]
    assert from_compiler(warning + error, "kernels/w.cu") == [Diagnostic("kernels/w.cu", 9, 'expected a ";"')]


def test_a_limit_that_ptxas_enforces() -> None:
    log = "ptxas error   : Entry function 'k(float*)' uses too much shared data (0x18000 bytes, 0xc000 max)\n"
    [diagnostic] = from_compiler(log + "ptxas fatal   : Ptx assembly aborted due to errors\n", "kernels/k.cu")
    assert "uses too much shared data" in diagnostic.message


def test_no_absolute_path_is_left_in_a_message() -> None:
    log = "kernels/f.cu:1:10: fatal error: /home/someone/deep/secret.h: Permission denied\n"
    [diagnostic] = from_compiler(log, "kernels/f.cu")
    assert diagnostic.message == "secret.h: Permission denied"


def test_a_missing_cublas_header_names_the_directive() -> None:
    log = "kernels/f.cu:1:10: fatal error: cublas_v2.h: No such file or directory\n"
    [diagnostic] = from_compiler(log, "kernels/f.cu")
    assert "`// link: cublas`" in diagnostic.message


def test_lld_names_undefined_symbols_too() -> None:
    log = "ld.lld: error: undefined symbol: cudnnCreate\n>>> referenced by f.cu\n>>>   obj/kernels/f.cu.o:(f)\n"
    [diagnostic] = from_linker(log)
    assert "`// link: cudnn`" in diagnostic.message


def test_the_loader_names_what_is_defined_nowhere() -> None:
    log = (
        "\tlibcudart.so => /usr/lib/libcudart.so (0x1)\nundefined symbol: ops::missing(int)\t(./kernels.so)\n"
        "undefined symbol: other\t(/usr/lib/libcudart.so)\n"
    )
    [diagnostic] = from_loader(log, "kernels.so")
    assert "`ops::missing(int)` is used and defined nowhere" in diagnostic.message


def test_an_unknown_failure_keeps_its_last_words() -> None:
    assert from_silence("strange\nthings happened\n", "kernels/f.cu") == Diagnostic(
        "kernels/f.cu", 0, "things happened"
    )
    assert "without a message" in from_silence("", "kernels/f.cu").message


def test_a_long_list_is_cut() -> None:
    many = [Diagnostic("kernels/f.cu", line, "x") for line in range(MOST + 7)]
    assert limit(many)[:MOST] == tuple(many[:MOST])
    assert limit(many)[-1].message.startswith("... and 7 more")


def test_resources_are_read_by_kernel() -> None:
    found = read_resources(PTXAS, PTXAS_READABLE)
    assert [resources for _, resources in found] == [
        KernelResources("ops::gemm<64>", 168, 49152, 84),
        KernelResources("plain", 8, 0, 0),
    ]
    assert [(kernel.mangled, kernel.base) for kernel, _ in found] == [
        ("_ZN3ops4gemmILi64EEEvPKf", "gemm"),
        ("_Z5plainPf", "plain"),
    ]


def test_short_names() -> None:
    assert short_name("void (anonymous namespace)::scale<(int)3, ops::Row<float> >(float const*)") == (
        "scale<(int)3, ops::Row<float> >"
    )
    assert short_name("plain(float*)") == "plain"
    assert short_name("c_linkage_kernel") == "c_linkage_kernel"

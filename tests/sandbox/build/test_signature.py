from __future__ import annotations

import pytest

from sandbox.build.signature import Launcher, Param, parse_launchers

CASES = {
    "a reference": ("int f(float& x, cudaStream_t s)", "by reference"),
    "an array": ("int f(const float x[], cudaStream_t s)", "`T* name`"),
    "a function pointer": ("int f(int (*g)(int), cudaStream_t s)", "is a function"),
    "a pointer to pointers": ("int f(float** x, cudaStream_t s)", "each tensor as its own parameter"),
    "a struct by value": ("int f(Config c, cudaStream_t s)", "int64_t, int, float, double or bool"),
    "a half by value": ("int f(__half eps, cudaStream_t s)", "write float"),
    "size_t": ("int f(size_t n, cudaStream_t s)", "write int64_t"),
    "an unsigned": ("int f(unsigned int n, cudaStream_t s)", "write int64_t"),
    "void*": ("int f(void* x, cudaStream_t s)", "write the element type"),
    "a vector type": ("int f(float4* x, cudaStream_t s)", "cast inside"),
    "no stream": ("int f(float* x)", "exactly one `cudaStream_t stream`"),
    "a stream in the middle": ("int f(cudaStream_t s, float* x)", "last parameter"),
    "two streams": ("int f(cudaStream_t a, cudaStream_t b)", "exactly one"),
    "a pointer to a stream": ("int f(float* x, cudaStream_t* s)", "exactly one"),
    "void": ("void f(float* x, cudaStream_t s)", "must return int, not `void`"),
    "cudaError_t": ("cudaError_t f(float* x, cudaStream_t s)", "(int)cudaGetLastError()"),
    "a macro": ("EXPORT int f(float* x, cudaStream_t s)", "must return int, not `EXPORT`"),
    "a keyword of Python": ("int lambda(float* x, cudaStream_t s)", "choose another name"),
    "a default": ("int f(int n = 3, cudaStream_t s = 0)", "plain numbers"),
    "variadic": ("int f(int n, ...)", "exactly one"),
}


def launchers(source: str, file: str = "kernels/f.cu") -> list[Launcher]:
    parsed = parse_launchers(source.encode(), file)
    assert parsed.diagnostics == ()
    return list(parsed.launchers)


def test_the_form_of_the_design() -> None:
    source = """
    // a comment with extern "C" int nothing(float* x) {}
    #include <cuda_bf16.h>

    extern "C" int rms_norm(
        const __nv_bfloat16* __restrict__ x,  // input
        __nv_bfloat16 const* weight,
        float* __restrict__ out, /* output */
        int64_t rows, const int cols, float eps, double scale, bool affine,
        cudaStream_t stream) {
      kernel<float, 4><<<dim3(rows), 256, 0, stream>>>(x, weight, out);
      return (int)cudaGetLastError();
    }
    """
    assert launchers(source) == [
        Launcher(
            "rms_norm",
            "kernels/f.cu",
            5,
            (
                Param("x", "input", "bfloat16"),
                Param("weight", "input", "bfloat16"),
                Param("out", "output", "float32"),
                Param("rows", "scalar", "int64"),
                Param("cols", "scalar", "int32"),
                Param("eps", "scalar", "float32"),
                Param("scale", "scalar", "float64"),
                Param("affine", "scalar", "bool"),
            ),
            has_stream=True,
        )
    ]


def test_launchers_are_found_wherever_they_may_stand() -> None:
    source = """
    namespace ops { extern "C" int one(float* x, cudaStream_t s) { return 0; } }
    extern "C" {
    #if defined(FAST)
    int two(float* x, cudaStream_t s) { return 0; }
    #else
    int three(float* x, cudaStream_t s) { return 0; }
    #endif
    #if 0
    int never(float x[], cudaStream_t s) { return 0; }
    #endif
    }
    extern "C" __attribute__((visibility("default"))) int four(float* const x, cudaStream_t s) noexcept { return 0; }
    extern "C" int five(void*);
    """
    assert [launcher.name for launcher in launchers(source)] == ["one", "two", "three", "four"]


def test_what_is_no_launcher_is_left_alone() -> None:
    source = """
    template <typename T> struct Row { T v; static int f(T x) { return 0; } };
    template <typename T> int helper(T& x) { return 0; }
    static int blocks(int n) { return n / 256; }
    extern "C" { static int inside(Row<int> r) { return 0; } static const int COUNT = 3; }
    extern "C" __global__ void kernel(float4* x) {}
    int cpp(float& x) { return 0; }
    """
    parsed = parse_launchers(source.encode(), "kernels/f.cu")
    assert parsed.launchers == () == parsed.diagnostics
    assert parsed.exempt == {"kernel"}


@pytest.mark.parametrize("case", CASES)
def test_what_is_outside_the_form_is_answered_with_what_to_write(case: str) -> None:
    declaration, message = CASES[case]
    parsed = parse_launchers(f'\n\nextern "C" {declaration} {{ return 0; }}\n'.encode(), "kernels/f.cu")
    assert parsed.launchers == ()
    [diagnostic] = parsed.diagnostics
    assert (diagnostic.file, diagnostic.line) == ("kernels/f.cu", 3)
    assert message in diagnostic.message


def test_every_published_type_has_its_dtype() -> None:
    types = (
        "float double __half __nv_bfloat16 __nv_fp8_e4m3 __nv_fp8_e5m2 int8_t uint8_t int16_t std::int32_t int64_t bool"
    )
    params = ", ".join(f"const {kind}* p{i}" for i, kind in enumerate(types.split()))
    [launcher] = launchers(f'extern "C" int f({params}, long long n, cudaStream_t s) {{ return 0; }}')
    assert [param.dtype for param in launcher.params] == [
        *("float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"),
        *("int8", "uint8", "int16", "int32", "int64", "bool", "int64"),
    ]


def test_an_alias_of_the_same_file_counts_as_what_it_stands_for() -> None:
    source = """
    using bf16 = __nv_bfloat16;
    namespace n { typedef bf16 element; typedef struct { int a; } Config; }
    extern "C" int f(const element* x, bf16* y, cudaStream_t s) { return 0; }
    """
    [launcher] = launchers(source)
    assert [param.dtype for param in launcher.params] == ["bfloat16", "bfloat16"]


def test_stride_parameters_allow_a_strided_tensor() -> None:
    source = 'extern "C" int f(const float* x, const float* x2, float* y, int64_t x_stride0, int n) { return 0; }'
    [launcher] = launchers(source, "kernels/f.cpp")
    assert [param.strided for param in launcher.params] == [True, False, False, False, False]


def test_a_cpu_launcher_takes_no_stream() -> None:
    good = 'extern "C" int f(const _Float16* x, bfloat16* y, int n) { return 0; }'
    assert [param.dtype for param in launchers(good, "kernels/f.cpp")[0].params] == ["float16", "bfloat16", "int32"]
    bad = parse_launchers(b'extern "C" int f(float* x, cudaStream_t s) { return 0; }', "kernels/f.cpp")
    assert "takes no stream" in bad.diagnostics[0].message


def test_a_broken_file_does_not_stop_the_parser() -> None:
    parsed = parse_launchers(
        b'extern "C" int f(float* x, cudaStream_t s) { return 0; }\n}}} ((( \xff\xfe template<', "kernels/f.cu"
    )
    assert [launcher.name for launcher in parsed.launchers] == ["f"]


def test_a_launcher_survives_json() -> None:
    [launcher] = launchers('extern "C" int f(const float* x, int64_t x_stride, cudaStream_t s) { return 0; }')
    assert Launcher.from_json(launcher.to_json()) == launcher

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox.build import Built, Manifest, build_kernels
from sandbox.build.compiling import Outcome, blame_the_machine
from sandbox.build.toolchain import Nvcc
from sandbox.errors import EnvironmentFault, InternalError
from sandbox.isolation import Cell, CellProcess, Isolation
from sandbox.processes import ProcessLost
from sandbox.progress import Stage

from .conftest import ADD_CPP, SCALE_CU

Build = Callable[..., Built]
Folder = Callable[[dict[str, str]], Path]


class Counted:
    """The real isolation, counting what it starts."""

    def __init__(self, inner: Isolation) -> None:
        self.inner, self.started = inner, 0
        self.name, self.description = inner.name, inner.description

    def popen(self, argv: list[str], cell: Cell, **pipes: object) -> CellProcess:
        self.started += 1
        return self.inner.popen(argv, cell, **pipes)

    def kill(self, process: CellProcess) -> None:
        self.inner.kill(process)


def test_a_cpu_file_becomes_a_library_that_runs(build: Build) -> None:
    built = build({"add.cpp": ADD_CPP})
    assert built.report.ok
    assert built.report.diagnostics == () == built.report.kernels
    assert built.manifest is not None
    assert [(each.name, each.file, each.line) for each in built.manifest.functions] == [("add", "kernels/add.cpp", 2)]
    library = ctypes.CDLL(str(built.manifest.library))
    x, y, out = ((ctypes.c_float * 3)(*values) for values in ([1, 2, 3], [10, 20, 30], [0, 0, 0]))
    library.add.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_int64, ctypes.c_float]
    assert library.add(x, y, out, 3, 0.5) == 0
    assert list(out) == [6, 12, 18]


def test_the_same_state_is_answered_without_compiling(folder: Folder, tmp_path: Path, isolation: Isolation) -> None:
    counted, stages = Counted(isolation), list[Stage]()
    kernels = folder({"add.cpp": "#warning look here\n" + ADD_CPP})
    options = {"arch": "cpu", "cache": tmp_path / "cache", "isolation": counted, "progress": stages.append}
    first, second = build_kernels(kernels, **options), build_kernels(kernels, **options)
    assert counted.started == 1
    assert first.manifest == second.manifest
    assert first.report.diagnostics == second.report.diagnostics
    assert "look here" in first.report.diagnostics[0].message
    assert [stage.text for stage in stages] == ["compiling kernels/add.cpp", "this state is compiled already"]


def test_one_edited_file_of_three_recompiles_alone(folder: Folder, tmp_path: Path, isolation: Isolation) -> None:
    stages = list[Stage]()
    options = {"arch": "cpu", "cache": tmp_path / "cache", "isolation": isolation, "progress": stages.append}
    names = ("a", "b", "c")
    source = '#include "common.h"\nextern "C" int NAME(int n) { return n + OFFSET; }\n'
    kernels = folder({"common.h": "#define OFFSET 1\n"} | {f"{n}.cpp": source.replace("NAME", n) for n in names})
    build_kernels(kernels, **options)
    folder({"b.cpp": source.replace("NAME", "b").replace("n +", "2 * n +")})
    build_kernels(kernels, **options)
    folder({"common.h": "#define OFFSET 5\n"})
    built = build_kernels(kernels, **options)
    assert [stage.text for stage in stages] == [
        "compiling kernels/a.cpp, kernels/b.cpp, kernels/c.cpp",
        "compiling kernels/b.cpp",
        "compiling kernels/a.cpp, kernels/b.cpp, kernels/c.cpp",
    ]
    assert built.manifest is not None
    library = ctypes.CDLL(str(built.manifest.library))
    assert [library.a(1), library.b(1), library.c(1)] == [6, 7, 6]


def test_a_file_that_was_only_touched_is_not_compiled_again(
    folder: Folder, tmp_path: Path, isolation: Isolation
) -> None:
    counted = Counted(isolation)
    kernels = folder({"add.cpp": ADD_CPP})
    first = build_kernels(kernels, arch="cpu", cache=tmp_path / "cache", isolation=counted)
    os.utime(kernels / "add.cpp", (0, 0))
    shutil.copytree(kernels, tmp_path / "elsewhere/kernels")
    copied = build_kernels(tmp_path / "elsewhere/kernels", arch="cpu", cache=tmp_path / "cache", isolation=counted)
    assert build_kernels(kernels, arch="cpu", cache=tmp_path / "cache", isolation=counted).manifest == first.manifest
    assert copied.manifest == first.manifest
    assert counted.started == 1


def test_a_damaged_entry_is_built_again(build: Build) -> None:
    built = build({"add.cpp": ADD_CPP})
    assert built.manifest is not None
    built.manifest.library.with_name("manifest.json").write_text("{")
    again = build({"add.cpp": ADD_CPP})
    assert again.manifest == built.manifest
    assert again.manifest.library.is_file()


BUILD = """
import sys; from pathlib import Path
from sandbox.build import build_kernels; from sandbox.isolation import best_isolation
built = build_kernels(Path(sys.argv[1]), arch='cpu', cache=Path(sys.argv[2]), isolation=best_isolation(),
                      progress=lambda stage: print(stage.text, flush=True))
assert built.report.ok and built.manifest.library.is_file(); print(built.manifest.key)
"""


def start_build(kernels: Path, cache: Path) -> subprocess.Popen[str]:
    """Build in a process of its own, which prints its stages and then the key."""
    command = [sys.executable, "-c", BUILD, str(kernels), str(cache)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_of_eight_builds_at_once_each_state_is_compiled_once(folder: Folder, tmp_path: Path) -> None:
    same = folder({"add.cpp": ADD_CPP})
    others = [shutil.copytree(same, tmp_path / f"other{number}/kernels") for number in range(4)]
    for number, other in enumerate(others):
        (other / "add.cpp").write_text(f"// {number}\n{ADD_CPP}")
    builds = [start_build(kernels, tmp_path / "cache") for kernels in (*[same] * 4, *others)]
    answers = [process.communicate(timeout=120)[0].splitlines() for process in builds]
    assert [process.returncode for process in builds] == [0] * 8
    assert sum("compiling kernels/add.cpp" in lines for lines in answers[:4]) == 1
    assert len({lines[-1] for lines in answers}) == 5
    left = sorted(path.name for path in (tmp_path / "cache").rglob("*") if path.name.startswith(".new-"))
    assert left == [] == list((tmp_path / "cache/work").iterdir())


def test_a_killed_build_leaves_nothing_that_the_next_waits_for(folder: Folder, tmp_path: Path) -> None:
    slow = """\
    template <int N, int M> struct Slow { static constexpr long v = Slow<N - 1, 2 * M>::v + Slow<N - 1, 2 * M + 1>::v; };
    template <int M> struct Slow<0, M> { static constexpr long v = M; };
    extern "C" int f(int n) { return Slow<25, 0>::v; }
    """
    cache = tmp_path / "cache"
    killed = start_build(folder({"f.cpp": slow}), cache)
    assert killed.stdout is not None
    assert killed.stdout.readline().startswith("compiling")
    waiting = start_build(folder({}), cache)
    assert waiting.stdout is not None
    assert waiting.stdout.readline() == "waiting for another build of this state\n"
    killed.kill()
    assert waiting.stdout.readline().startswith("compiling")
    waiting.kill()
    for process in (killed, waiting):
        process.communicate()
    assert list((cache / "work").iterdir()) != []
    folder({"f.cpp": 'extern "C" int f(int n) { return n; }'})
    after = start_build(folder({}), cache)
    assert len(after.communicate(timeout=60)[0].splitlines()) == 2
    assert list((cache / "work").iterdir()) == []


def test_a_manifest_survives_json(build: Build) -> None:
    manifest = build({"add.cpp": "// fast-math\n" + ADD_CPP}).manifest
    assert manifest is not None
    assert Manifest.from_json(json.loads(json.dumps(manifest.to_json()))) == manifest
    assert manifest.fast_math == ("kernels/add.cpp",)
    assert "-ffast-math" in manifest.recipe.compile["kernels/add.cpp"]
    assert "-ffast-math" not in manifest.recipe.link


def test_every_file_with_an_error_is_named(build: Build) -> None:
    built = build(
        {
            "a.cpp": 'extern "C" int a(int n) { return m; }\n',
            "b.cpp": 'extern "C" int b(int n)\n{ return n }\n',
            "c.cpp": 'extern "C" int c(int n) { return n; }\n',
        }
    )
    assert not built.report.ok
    assert built.manifest is None
    found = [(each.file, each.line, each.message) for each in built.report.diagnostics]
    assert ("kernels/a.cpp", 1, "'m' was not declared in this scope") in found
    assert {file for file, _, _ in found} == {"kernels/a.cpp", "kernels/b.cpp"}


def test_template_noise_becomes_the_line_that_caused_it(build: Build) -> None:
    source = """\
    #include <algorithm>
    #include <vector>
    struct Row { int a; };
    extern "C" int f(int n) {
      std::vector<Row> rows(n);
      std::sort(rows.begin(), rows.end());
      return 0;
    }
    """
    report = build({"f.cpp": source}).report
    assert {(each.file, each.line) for each in report.diagnostics} == {("kernels/f.cpp", 6)}
    assert "no match for 'operator<'" in report.diagnostics[0].message
    assert not any("/usr" in each.message for each in report.diagnostics)


def test_many_errors_are_cut_and_counted(build: Build) -> None:
    lines = "\n".join(f"int f{number}() {{ return missing{number}; }}" for number in range(28))
    report = build({"f.cpp": lines + '\nextern "C" int f(int n) { return n; }\n'}).report
    assert len(report.diagnostics) == 21
    assert "8 more" in report.diagnostics[-1].message


def test_an_undefined_symbol_is_found_at_link_time(build: Build) -> None:
    source = 'int elsewhere(int);\nextern "C" int f(int n) { return elsewhere(n); }\n'
    [diagnostic] = build({"f.cpp": source}).report.diagnostics
    assert diagnostic.file == "kernels/f.cpp"
    assert "`elsewhere(int)` is used and defined nowhere" in diagnostic.message


def test_an_undefined_library_function_names_its_library(build: Build) -> None:
    source = 'extern "C" int cublasSgemm_v2(int);\nextern "C" int f(int n) { return cublasSgemm_v2(n); }\n'
    [diagnostic] = build({"f.cpp": source}).report.diagnostics
    assert "// link: cublas`" in diagnostic.message


def test_a_function_defined_twice(build: Build) -> None:
    helper = "int helper() { return 1; }\n"
    files = {f"{name}.cpp": f'{helper}extern "C" int {name}(int n) {{ return helper(); }}\n' for name in ("a", "b")}
    [diagnostic] = build(files).report.diagnostics
    assert diagnostic.file == "kernels/b.cpp"
    assert "`helper()` is defined in more than one file" in diagnostic.message


def test_a_launcher_defined_twice(build: Build) -> None:
    source = 'extern "C" int f(int n) { return n; }\n'
    [diagnostic] = build({"a.cpp": source, "b.cpp": "\n" + source}).report.diagnostics
    assert (diagnostic.file, diagnostic.line) == ("kernels/b.cpp", 2)
    assert "already defined at kernels/a.cpp:1" in diagnostic.message


def test_a_launcher_behind_a_macro_is_asked_to_be_written_out(build: Build) -> None:
    source = '#define LAUNCH(name) extern "C" int name(float* x)\n\nLAUNCH(hidden) { return 0; }\n'
    [diagnostic] = build({"f.cpp": source}).report.diagnostics
    assert (diagnostic.file, diagnostic.line) == ("kernels/f.cpp", 3)
    assert "hidden has C linkage, but its signature cannot be read" in diagnostic.message


def test_a_launcher_that_is_not_compiled_is_not_offered(build: Build) -> None:
    source = (
        '#if defined(NEVER)\nextern "C" int a(int n) { return n; }\n#endif\nextern "C" int b(int n) { return n; }\n'
    )
    manifest = build({"f.cpp": source}).manifest
    assert manifest is not None
    assert [each.name for each in manifest.functions] == ["b"]


def test_no_launcher_is_a_diagnostic(build: Build) -> None:
    [diagnostic] = build({"f.cpp": "int helper(int n) { return n; }\n"}).report.diagnostics
    assert "There is no launcher" in diagnostic.message


def test_a_missing_header_is_named(build: Build) -> None:
    [diagnostic] = build({"f.cpp": '#include "nowhere.h"\nextern "C" int f(int n) { return n; }\n'}).report.diagnostics
    assert (diagnostic.file, diagnostic.line) == ("kernels/f.cpp", 1)
    assert "nowhere.h: No such file" in diagnostic.message


def test_compiling_reads_nothing_of_the_developer(build: Build, tmp_path: Path, isolation: Isolation) -> None:
    if isolation.name == "limits":
        pytest.skip("needs namespaces: this isolation hides no files")
    secret = tmp_path / "secret.txt"
    secret.write_text("hunter2")
    source = f'asm(".section .rodata; .incbin \\"{secret}\\"");\nextern "C" int f(int n) {{ return n; }}\n'
    report = build({"f.cpp": source}).report
    assert not report.ok
    assert "hunter2" not in json.dumps([each.message for each in report.diagnostics])


def test_a_template_bomb_ends_at_the_time_limit(build: Build) -> None:
    source = """\
    template <int N, int M> struct Bomb { static constexpr long v = Bomb<N - 1, 2 * M>::v + Bomb<N - 1, 2 * M + 1>::v; };
    template <int M> struct Bomb<0, M> { static constexpr long v = M; };
    extern "C" int f(int n) { return Bomb<25, 0>::v; }
    """
    [diagnostic] = build({"f.cpp": source}, seconds=2).report.diagnostics
    assert diagnostic.file == "kernels/f.cpp"
    assert "longer than 2 s" in diagnostic.message


def test_endless_compiler_output_is_cut(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandbox.build.ninja.LARGEST_FILE", 1024**2)
    monkeypatch.setattr("sandbox.build.failures.LARGEST_FILE", 1024**2)
    lines = [f'#define M0 _Pragma("message(\\"{"x" * 500}\\")")']
    lines += [f"#define M{level} " + f"M{level - 1} " * 10 for level in range(1, 5)]
    report = build({"f.cpp": "\n".join([*lines, "M4", 'extern "C" int f(int n) { return n; }', ""])}).report
    assert not report.ok
    assert "more than 1 MB" in report.diagnostics[0].message


def test_a_build_can_be_interrupted(folder: Folder, tmp_path: Path, isolation: Isolation) -> None:
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(InterruptedError):
        build_kernels(
            folder({"add.cpp": ADD_CPP}), arch="cpu", cache=tmp_path / "cache", isolation=isolation, cancel=cancel
        )
    assert list((tmp_path / "cache/work").iterdir()) == []


def test_a_missing_compiler_is_not_the_candidates_fault(
    build: Build, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(EnvironmentFault, match="No C\\+\\+ compiler") as fault:
        build({"add.cpp": ADD_CPP})
    assert "Install g++" in fault.value.next_step


def test_a_cache_that_cannot_be_written_is_not_the_candidates_fault(
    folder: Folder, tmp_path: Path, isolation: Isolation
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentFault, match="cannot be kept"):
        build_kernels(folder({"add.cpp": ADD_CPP}), arch="cpu", cache=tmp_path / "file/cache", isolation=isolation)


def test_a_cuda_file_reports_what_its_kernels_use(build: Build, nvcc: Nvcc) -> None:
    built = build({"scale.cu": SCALE_CU}, arch="sm_90")
    assert built.report.ok
    [kernel] = built.report.kernels
    assert (kernel.name, kernel.shared_bytes, kernel.spill_bytes) == ("scale_kernel<3>", 512, 0)
    assert kernel.registers > 0
    assert built.manifest is not None
    [device] = built.manifest.kernels
    assert (device.base, device.demangled) == ("scale_kernel", "void scale_kernel<3>(float const*, float*, long)")
    assert device.mangled.startswith("_Z")
    library = ctypes.CDLL(str(built.manifest.library))
    assert library.scale(None, None, ctypes.c_int64(0), None) != 0
    assert built.manifest.functions[0].has_stream


def test_spills_are_counted(build: Build, nvcc: Nvcc) -> None:
    source = """\
    __global__ __launch_bounds__(1024, 2) void heavy(float* x) {
      float v[64];
      #pragma unroll
      for (int i = 0; i < 64; ++i) v[i] = x[i * blockDim.x + threadIdx.x];
      __syncthreads();
      #pragma unroll
      for (int i = 0; i < 64; ++i) x[(63 - i) * blockDim.x + threadIdx.x] = v[i] * v[63 - i];
    }
    extern "C" int f(float* x, cudaStream_t s) { heavy<<<1, 1024, 0, s>>>(x); return 0; }
    """
    [kernel] = build({"f.cu": source}, arch="sm_90").report.kernels
    assert kernel.name == "heavy"
    assert kernel.registers <= 32
    assert kernel.spill_bytes > 0


@pytest.mark.parametrize(
    ("body", "line", "message"),
    [
        ("return missing;", 2, 'identifier "missing" is undefined'),
        ("scale<<<1, 1, 0, s>>>(x, 3); return 0;", 2, "too many arguments"),
    ],
)
def test_an_error_of_nvcc_has_file_and_line(build: Build, nvcc: Nvcc, body: str, line: int, message: str) -> None:
    source = f'__global__ void scale(float* x) {{}}\nextern "C" int f(float* x, cudaStream_t s) {{ {body} }}\n'
    diagnostic = build({"f.cu": source}, arch="sm_90").report.diagnostics[0]
    assert (diagnostic.file, diagnostic.line) == ("kernels/f.cu", line)
    assert message in diagnostic.message


def test_an_error_of_ptxas_has_its_file(build: Build, nvcc: Nvcc) -> None:
    source = """\
    __global__ void k(float* x) { asm volatile("nonsense %0;" ::"f"(x[0])); }
    extern "C" int f(float* x, cudaStream_t s) { k<<<1, 1, 0, s>>>(x); return 0; }
    """
    report = build({"f.cu": source}, arch="sm_90").report
    assert not report.ok
    assert report.diagnostics[0].file == "kernels/f.cu"
    assert "Not a name of any known instruction" in report.diagnostics[0].message


def test_an_unknown_architecture_is_the_machines_fault(build: Build, nvcc: Nvcc) -> None:
    with pytest.raises(EnvironmentFault, match="cannot compile for sm_20"):
        build({"scale.cu": SCALE_CU}, arch="sm_20")


def test_only_the_present_architecture_is_built(build: Build, nvcc: Nvcc) -> None:
    built = build({"scale.cu": SCALE_CU}, arch="sm_90")
    assert built.manifest is not None
    code = built.manifest.library.read_bytes()
    assert code.count(b"\x50\xed\x55\xba") == 1  # the magic number that a container of device code begins with
    assert b"sm_90a" in code
    assert not any(b"sm_%d" % other in code for other in (75, 80, 86, 89, 100, 120))
    assert "arch=compute_90a,code=sm_90a" in built.manifest.recipe.compile["kernels/scale.cu"]


def test_an_old_driver_is_the_machines_fault(build: Build, nvcc: Nvcc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandbox.build.target.driver_cuda", lambda: "11.8")
    with pytest.raises(EnvironmentFault, match=r"the driver knows CUDA up to 11\.8"):
        build({"scale.cu": SCALE_CU}, arch="sm_90")


GROWS_WITHOUT_END = """\
template <int DEPTH, int PATH> struct Grow {
  static constexpr int value = Grow<DEPTH - 1, 2 * PATH>::value + Grow<DEPTH - 1, 2 * PATH + 1>::value;
};
template <int PATH> struct Grow<0, PATH> { static constexpr int value = 0; };
extern "C" int f(const float* x, STREAM) { return Grow<24, 1>::value; }
"""


@pytest.mark.parametrize(("name", "arch"), [("f.cpp", "cpu"), ("f.cu", "sm_90")])
def test_a_compiler_that_runs_out_of_memory_is_told_and_spoils_nothing_that_follows(
    build: Build, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, name: str, arch: str
) -> None:
    if arch != "cpu":
        request.getfixturevalue("nvcc")
    source = GROWS_WITHOUT_END.replace("STREAM", "int n" if arch == "cpu" else "cudaStream_t s")
    with monkeypatch.context() as little:
        little.setattr("sandbox.build.ninja._MOST_MEMORY", 160 * 1024**2)
        built = build({name: source}, arch=arch)
    assert built.killed
    assert [(each.file, each.message) for each in built.report.diagnostics] == [
        (f"kernels/{name}", "The compiler ran out of memory; use fewer or smaller template instances.")
    ]
    assert build({name: source.replace("Grow<24", "Grow<2")}, arch=arch).report.ok


def test_a_linker_that_was_killed_is_nobodys_fault(tmp_path: Path) -> None:
    """What it had written by then looks like a library that exports nothing."""
    told = "collect2: fatal error: ld terminated with signal 9 [Killed]\ncompilation terminated.\n"
    with pytest.raises(ProcessLost, match="linker was killed"):
        blame_the_machine(Outcome({}, library=b"\x7fELF", link_log=told), tmp_path, 1)
    with pytest.raises(InternalError, match="of another kind"):
        blame_the_machine(Outcome({}, library=b"\x7fELF", link_log="a fault of another kind"), tmp_path, 1)


@pytest.mark.parametrize("who", ["$$", "$PPID"], ids=["itself", "its shell"])
def test_a_preprocessor_that_was_killed_is_nobodys_fault(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    compiler = tmp_path / "tools" / "g++"
    compiler.parent.mkdir()
    usual = shutil.which("g++")
    compiler.write_text(f'#!/bin/sh\ncase " $* " in *" -E "*) kill -9 {who} ;; esac\nexec {usual} "$@"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    with pytest.raises(ProcessLost, match="preprocessor was killed"):
        build({"f.cpp": 'extern "C" int f(float* x) { return x == nullptr; }'})


def test_what_the_preprocessor_makes_too_long_is_not_read(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandbox.build.ninja.LARGEST_FILE", 1024**2)
    monkeypatch.setattr("sandbox.build.failures.LARGEST_FILE", 1024**2)
    lines = ["#define M0 extern int a;", *(f"#define M{n} " + f"M{n - 1} " * 10 for n in range(1, 6))]
    report = build({"f.cpp": "\n".join([*lines, "M5", 'extern "C" int f(int n) { return n; }', ""])}).report
    assert [each.message for each in report.diagnostics] == ["What the preprocessor makes of it is longer than 1 MB."]

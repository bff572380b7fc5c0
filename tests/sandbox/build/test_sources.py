from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox.build.sources import read_directives, read_sources

Folder = Callable[[dict[str, str]], Path]
LAUNCHER = 'extern "C" int f(float* x, cudaStream_t s) { return 0; }\n'


@pytest.mark.parametrize(
    ("text", "libraries", "fast_math"),
    [
        ("// link: cublas\n", ("cublas",), False),
        ("// link: cublasLt, cudnn\n// fast-math\n#include <x>", ("cublaslt", "cudnn"), True),
        ("\n// Copyright somebody\n//link:cudnn cublas cudnn\n", ("cudnn", "cublas"), False),
        ("#include <x>\n// about fast-math and link: nothing\n", (), False),
    ],
)
def test_directives_are_read_from_the_head(text: str, libraries: tuple[str, ...], fast_math: bool) -> None:
    assert read_directives(text, cuda=True) == (libraries, fast_math, [])


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("// link: cutlass\n", 1, "`cutlass` cannot be linked"),
        ("// link: fast-math\n", 1, "`// fast-math`"),
        ("// link:\n", 1, "cannot be linked"),
        ("int x;\n// link: cublas\n", 2, "move it to the top"),
        ("int x;\n  // fast-math\n", 2, "move it to the top"),
    ],
)
def test_a_directive_that_cannot_count_is_answered(text: str, line: int, message: str) -> None:
    [(where, what)] = read_directives(text, cuda=True)[2]
    assert where == line
    assert message in what


def test_a_cuda_library_has_no_place_on_the_cpu() -> None:
    [(_, message)] = read_directives("// link: cublas\n", cuda=False)[2]
    assert "CUDA library" in message


@pytest.mark.parametrize(
    ("include", "message"),
    [
        ("#include <torch/extension.h>", "is torch's"),
        ("#include <ATen/ATen.h>", "is torch's"),
        ("#include <c10/cuda/CUDAStream.h>", "is torch's"),
        ("#include <pybind11/pybind11.h>", "is torch's"),
        ("  #  include <Python.h>", "is torch's"),
        ('#include "/etc/passwd"', "outside"),
        ('#include "../../secret.h"', "outside"),
        ('#include "other.cu"', "compiled by itself"),
        ("#include HEADER", "computed by a macro"),
        ("#embed <x>", "not allowed"),
        ('const char* s = "/*";\n#include "/etc/passwd"\nconst char* t = "*/";', "outside"),
        ('#inc\\\nlude "/etc/passwd"', "split over lines"),
    ],
)
def test_an_include_that_may_not_be_is_answered(folder: Folder, include: str, message: str) -> None:
    kernels = folder({"f.cu": "// #include <torch/extension.h> in a comment\n" + include + "\n" + LAUNCHER})
    [diagnostic] = read_sources(kernels, suffix=".cu").diagnostics
    assert diagnostic.file == "kernels/f.cu"
    assert message in diagnostic.message


def test_sources_and_headers_are_read_and_other_files_left_out(folder: Folder) -> None:
    kernels = folder(
        {
            "f.cu": '#include "inner/a.cuh"\n' + LAUNCHER,
            "inner/a.cuh": '#include "../b.h"\n#include <cuda_fp16.h>\n',
            "b.h": "#pragma once\n",
            "notes.md": "#include <torch/extension.h>",
            "data.bin": "x",
        }
    )
    found = read_sources(kernels, suffix=".cu")
    assert found.diagnostics == ()
    assert [source.file for source in found.sources] == ["kernels/f.cu"]
    assert sorted(found.headers) == ["kernels/b.h", "kernels/inner/a.cuh"]


@pytest.mark.parametrize(
    ("name", "suffix", "message"),
    [
        ("f.cu", ".cpp", "write kernels/NAME.cpp"),
        ("f.cpp", ".cu", "rename it to f.cu"),
        ("two words.cu", ".cu", "Rename it"),
        ("$(id).cu", ".cu", "Rename it"),
    ],
)
def test_a_file_that_cannot_be_compiled_here_is_answered(folder: Folder, name: str, suffix: str, message: str) -> None:
    [diagnostic] = read_sources(folder({name: LAUNCHER}), suffix=suffix).diagnostics
    assert diagnostic.file == f"kernels/{name}"
    assert message in diagnostic.message


def test_links_are_refused(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "secret.h").write_text("int secret;")
    kernels = folder({"f.cu": LAUNCHER})
    (kernels / "a.h").symlink_to(tmp_path / "secret.h")
    (kernels / "inner").symlink_to(tmp_path)
    found = read_sources(kernels, suffix=".cu")
    assert [diagnostic.file for diagnostic in found.diagnostics] == ["kernels/a.h", "kernels/inner"]
    assert found.headers == {}


@pytest.mark.parametrize("files", [{}, {"only.cuh": "#pragma once\n"}])
def test_no_kernel_at_all_is_answered(folder: Folder, files: dict[str, str]) -> None:
    [diagnostic] = read_sources(folder(files), suffix=".cu").diagnostics
    assert "write kernels/NAME.cu" in diagnostic.message

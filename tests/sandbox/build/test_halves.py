"""nvcc taken apart: what comes out is what nvcc makes, sooner."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sandbox.build import Built, build_kernels, compiling, phases, target
from sandbox.build.phases import Phases, take_apart, without_places
from sandbox.build.sources import Sources
from sandbox.build.toolchain import Nvcc
from sandbox.isolation import Isolation

from .conftest import SCALE_CU

ANONYMOUS = """\
#include <cstdint>
#include <cuda_bf16.h>
namespace {
constexpr int BLOCK = 128;
__constant__ float table[4];
__device__ __forceinline__ float twice(float v) { return v * 2.f; }
template <typename T> __global__ void __launch_bounds__(BLOCK) shift(const T* x, T* y, int64_t n) {
  int64_t i = blockIdx.x * (int64_t)BLOCK + threadIdx.x;
  auto moved = [&](float v) { return twice(v) + table[i & 3]; };
  if (i < n) y[i] = T(moved(float(x[i])));
}
}
extern "C" int shift_one(const __nv_bfloat16* x, __nv_bfloat16* y, int64_t n, cudaStream_t s) {
  shift<<<(n + BLOCK - 1) / BLOCK, BLOCK, 0, s>>>(x, y, n);
  return (int)cudaGetLastError();
}
"""
Build = Callable[..., Built]
Folder = Callable[[dict[str, str]], Path]


def entries(folder: Path) -> int:
    """How many entries a store has."""
    return len(list(folder.iterdir())) if folder.exists() else 0


def without_place(library: Path) -> bytes:
    """A library but for where it was compiled, which line tables name, and the hash of its content."""
    plain = library.with_name("plain.so")
    subprocess.run(["objcopy", "--remove-section=.note.gnu.build-id", library, plain], check=True)
    return re.sub(rb"/(one|two)/work/\w+/", b"/", plain.read_bytes())


@pytest.mark.parametrize(
    ("source", "edit", "launcher"),
    [
        (SCALE_CU, ("= FACTOR *", "= 2 + FACTOR *"), ("+ 127)", "+ 128)")),
        (ANONYMOUS, ("v * 2.f;", "v * 2.f +\n  1.f;"), ("BLOCK - 1)", "BLOCK)")),
    ],
    ids=["template", "unnamed namespace"],
)
def test_an_edit_of_a_body_needs_no_host_compiler_and_gives_the_same_library(
    folder: Folder,
    tmp_path: Path,
    isolation: Isolation,
    nvcc: Nvcc,
    source: str,
    edit: tuple[str, str],
    launcher: tuple[str, str],
) -> None:
    def build(text: str, cache: str) -> bytes:
        kernels = folder({"f.cu": text})
        built = build_kernels(kernels, arch="sm_90", cache=tmp_path / cache, isolation=isolation)
        assert built.manifest is not None
        assert len(built.report.kernels) == 1
        return without_place(built.manifest.library)

    first = build(source, "one")
    edited = build(source.replace(*edit), "one")
    assert entries(tmp_path / "one/hosts") == 1
    assert edited != first
    assert edited == build(source.replace(*edit), "two")
    assert entries(tmp_path / "two/hosts") == 1
    build(source.replace(*launcher), "one")
    assert entries(tmp_path / "one/hosts") == 2


def test_the_device_image_and_the_names_are_those_of_nvcc(
    build: Build, nvcc: Nvcc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apart = build({"scale.cu": SCALE_CU}, arch="sm_90")
    monkeypatch.setattr(target, "take_apart", lambda *_: None)
    whole = build({"scale.cu": "// another state\n" + SCALE_CU}, arch="sm_90")
    assert apart.manifest is not None
    assert whole.manifest is not None
    assert apart.report.kernels == whole.report.kernels
    assert apart.manifest.kernels == whole.manifest.kernels
    assert symbols(apart.manifest.library) == symbols(whole.manifest.library)
    assert entries(tmp_path / "cache/hosts") == 1


def symbols(library: Path) -> list[str]:
    """The names of a library, without their addresses."""
    listed = subprocess.run(["nm", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    return sorted(line.split(maxsplit=1)[1] for line in listed.splitlines())


@pytest.mark.parametrize(
    ("right", "wrong", "told"),
    [("FACTOR * tile", "FACTOR * title", "title"), ("tile[128]", "tile[128000]", "shared")],
    ids=["compiler", "assembler"],
)
def test_an_error_in_device_code_is_told_before_the_host_compiler_begins(
    build: Build, nvcc: Nvcc, monkeypatch: pytest.MonkeyPatch, right: str, wrong: str, told: str
) -> None:
    begun: list[Sequence[str]] = []
    usual = compiling.compile_and_link

    def noted(sources: Sources, *rest: Any) -> compiling.Outcome:
        begun.append([source.file for source in sources.sources])
        return usual(sources, *rest)

    monkeypatch.setattr("sandbox.build.compile.compile_and_link", noted)
    built = build({"scale.cu": SCALE_CU.replace(right, wrong)}, arch="sm_90")
    assert built.manifest is None
    assert told in built.report.diagnostics[0].message
    assert begun == []
    assert build({"scale.cu": SCALE_CU}, arch="sm_90").manifest is not None
    assert begun == [["kernels/scale.cu", "calls.cpp"]]


@pytest.mark.parametrize("broken", ["host", "front", "device"])
def test_where_a_part_does_not_work_nvcc_does_all_of_it(
    build: Build, nvcc: Nvcc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    def spoilt(command: Sequence[str], file: str, output: str) -> Phases | None:
        found = take_apart(command, file, output)
        return found and replace(found, **{broken: "echo something nobody knows; false"})

    monkeypatch.setattr(target, "take_apart", spoilt)
    built = build({"scale.cu": SCALE_CU}, arch="sm_90")
    assert built.report.diagnostics == ()
    assert [kernel.name for kernel in built.report.kernels] == ["scale_kernel<3>"]
    assert entries(tmp_path / "cache/hosts") == 0


def test_unknown_commands_are_not_taken_apart(tmp_path: Path) -> None:
    for number, says in enumerate(("", "#$ cudafe++ x", "#$ something new", "#$ exit 1")):
        nvcc = tmp_path / f"nvcc{number}"
        nvcc.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
        nvcc.chmod(0o755)
        assert take_apart([str(nvcc)], "kernels/f.cu", "f.o") is None
    assert take_apart([str(tmp_path / "nowhere")], "kernels/f.cu", "f.o") is None


def test_every_command_of_this_nvcc_is_known(nvcc: Nvcc) -> None:
    found = take_apart([str(nvcc.path), "-O3", "-DTILE=(3)", "-Xptxas=-v"], "kernels/in/f.cu", "obj/f.cu.o")
    assert found is not None
    text = " ".join((found.front, found.device, found.host))
    assert "TILE=(3)" in found.front
    assert '"kernels/in/f.cu"' in found.device
    assert '-o "obj/f.cu.o"' in found.host
    assert "WARPSMITH" not in text
    assert "gen_module_id" not in text
    assert phases.MODULE_ID in found.device


def test_only_bodies_and_places_are_left_out() -> None:
    text = (
        b'# 1 "kernels/f.cu"\nvoid k(float* x) ;\n#if 0\n# 2\n{\n#if 0\nint a;\n#endif\n#if 1\nint b;\n#endif\n}\n#endif\n'
        b'# 9 "kernels/f.cu" 2\nint f() {\n# 10\nreturn 1; }\n#if 1\nint kept;\n#endif\n'
    )
    assert without_places(text) == (
        b'# 1 "kernels/f.cu"\nvoid k(float* x) ;\n# 1 "kernels/f.cu" 2\nint f() {\nreturn 1; }\n'
        b"#if 1\nint kept;\n#endif\n"
    )
    device = b"inline float f(float v) {int volatile ___ = 1;(void)v;"
    end = b"::exit(___);}\n"
    assert without_places(device + b"\n# 7\n" + end) == device + end
    assert without_places(b'# 7 "f.h"\n' + end) == b'# 1 "f.h"\n' + end
    assert without_places(b"#if 0\nnever ends\n") == b"#if 0\nnever ends\n"

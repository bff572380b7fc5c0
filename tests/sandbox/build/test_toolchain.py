from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox.build import Built
from sandbox.build.toolchain import Nvcc, find_host_compiler, find_library, find_ninja, find_nvcc
from sandbox.errors import EnvironmentFault

FAKE_CUBLAS = 'extern "C" int cublasSgemm_v2(int n) { return 7 * n; }\n'
USES_CUBLAS = """\
// link: cublas
#include <cublas_v2.h>
extern "C" int gemm(float* x, int n, cudaStream_t stream) { return cublasSgemm_v2(n); }
"""


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def fake_nvcc(home: Path, newest_gcc: int) -> None:
    """A toolkit whose nvcc answers the questions it is asked."""
    program(
        home / "bin/nvcc",
        f'case "$1" in --version) echo "release 12.4, V12.4.131";; --dryrun) echo "#$ TOP={home}/bin/..";;'
        ' --list-gpu-code) echo "sm_80"; echo "sm_90";; esac',
    )
    header = home / "include/crt/host_config.h"
    header.parent.mkdir(parents=True)
    header.write_text(f"#if __GNUC__ > {newest_gcc}\n#error -- unsupported GNU version!\n#endif\n")


def test_the_compiler_named_by_cxx_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = program(tmp_path / "my-c++", 'echo "my-c++ (GCC) 11.4.0"; echo "Free Software Foundation"')
    monkeypatch.setenv("CXX", str(named))
    found = find_host_compiler()
    assert (found.path, found.kind, found.major) == (named, "g++", 11)


def test_something_else_named_by_cxx_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", str(program(tmp_path / "nonsense", "echo hello")))
    assert find_host_compiler().path != tmp_path / "nonsense"


def test_no_nvcc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandbox.build.toolchain._INSTALLED", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    with pytest.raises(EnvironmentFault, match="nvcc") as fault:
        find_nvcc()
    assert "CUDA_HOME" in fault.value.next_step


def test_cuda_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_nvcc(tmp_path / "cuda", newest_gcc=1000)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    found = find_nvcc()
    assert (found.version, found.build, found.root) == ((12, 4), "12.4.131", tmp_path / "cuda")
    assert found.gencode("sm_90") == "arch=compute_90a,code=sm_90a"
    assert found.gencode("sm_80") == "arch=compute_80,code=sm_80"
    with pytest.raises(EnvironmentFault, match="cannot compile for sm_120") as fault:
        found.gencode("sm_120")
    assert "sm_80, sm_90" in fault.value.next_step


def test_a_host_compiler_too_new_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_nvcc(tmp_path / "cuda", newest_gcc=13)
    program(tmp_path / "bin/g++", 'echo "g++ (GCC) 15.1.0"; echo "Free Software Foundation"')
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/nowhere")
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(EnvironmentFault, match=r"g\+\+ 15 is too new for nvcc 12\.4\.131") as fault:
        find_nvcc()
    assert "g++-13" in fault.value.next_step


def test_an_older_host_compiler_beside_it_is_picked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_nvcc(tmp_path / "cuda2", newest_gcc=13)
    program(tmp_path / "bin/g++", 'echo "g++ (GCC) 15.2.0"; echo "Free Software Foundation"')
    older = program(tmp_path / "bin/g++-12", 'echo "g++-12 (GCC) 12.3.0"; echo "Free Software Foundation"')
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda2"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/nowhere")
    monkeypatch.delenv("CXX", raising=False)
    assert find_nvcc().host.path == older


def test_ninja_is_there() -> None:
    assert os.access(find_ninja(), os.X_OK)


def test_a_library_is_taken_from_torchs_own_folder(tmp_path: Path) -> None:
    for base, version in (("packages/nvidia/cublas", 12), ("toolkit", 13)):
        (tmp_path / base / "include").mkdir(parents=True)
        (tmp_path / base / "lib").mkdir()
        (tmp_path / base / "include/cublas_v2.h").write_text("")
        for name in (f"libcublas.so.{version}", f"libcublasLt.so.{version}", f"libcublas.so.{version}.1.2"):
            (tmp_path / base / "lib" / name).write_text("")
    packages = [tmp_path / "packages"]
    assert find_library("cublas", packages, tmp_path / "toolkit").file.name == "libcublas.so.12"
    assert find_library("cublas", [], tmp_path / "toolkit").file.name == "libcublas.so.13"
    with pytest.raises(EnvironmentFault, match=r"cublasLt\.h"):
        find_library("cublaslt", packages, tmp_path)


def fake_cublas(packages: Path) -> Path:
    """A cuBLAS of one function in a folder of packages; returns its shared object."""
    base = packages / "nvidia/cublas"
    (base / "include").mkdir(parents=True)
    (base / "lib").mkdir()
    (base / "include/cublas_v2.h").write_text('extern "C" int cublasSgemm_v2(int n);\n')
    (base / "cublas.cpp").write_text(FAKE_CUBLAS)
    library = base / "lib/libcublas.so.12"
    make_library(base / "cublas.cpp", library)
    return library


def make_library(source: Path, library: Path, *options: str | Path) -> None:
    """Compile a shared object that is called by its file's name."""
    command = ["g++", "-shared", "-fPIC", source, "-o", library, f"-Wl,-soname,{library.name}", *options]
    subprocess.run(command, check=True)


def test_a_named_library_is_included_and_linked(build: Callable[..., Built], nvcc: Nvcc, tmp_path: Path) -> None:
    library = fake_cublas(tmp_path / "packages")
    built = build({"gemm.cu": USES_CUBLAS}, arch="sm_90", site_packages=[tmp_path / "packages"])
    assert built.report.diagnostics == ()
    assert built.manifest is not None
    assert built.manifest.libraries == ("cublas",)
    dynamic = subprocess.run(
        ["readelf", "-d", built.manifest.library], capture_output=True, text=True, check=True
    ).stdout
    assert "Shared library: [libcublas.so.12]" in dynamic
    assert f"[{library.parent}]" in dynamic
    assert str(tmp_path) not in str(built.manifest.recipe)


def test_a_library_that_would_not_load_is_the_machines_fault(
    build: Callable[..., Built], nvcc: Nvcc, tmp_path: Path
) -> None:
    library = fake_cublas(tmp_path / "packages")
    other = library.with_name("libcublasLt.so.12")
    make_library(library.parent.parent / "cublas.cpp", other)
    make_library(library.parent.parent / "cublas.cpp", library, "-Wl,--no-as-needed", other)
    other.unlink()
    with pytest.raises(EnvironmentFault, match=r"cannot be loaded: libcublasLt\.so\.12 is not found"):
        build({"gemm.cu": USES_CUBLAS}, arch="sm_90", site_packages=[tmp_path / "packages"])

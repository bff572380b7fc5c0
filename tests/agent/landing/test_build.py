"""The landed build makes a library for the machine it runs on, once, or says why not."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from agent.landing.runtime import _build

CUDA = """\
#include <cstdint>
#include <cuda_runtime.h>
__global__ void twice_kernel(const float* x, float* out, int64_t n) {
    const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
    if (i < n) out[i] = 2 * x[i];
}
extern "C" int twice(const float* x, float* out, int64_t n, cudaStream_t stream) {
    twice_kernel<<<(n + 255) / 256, 256, 0, stream>>>(x, out, n);
    return (int)cudaGetLastError();
}
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def kernels(folder: Path, **sources: str) -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    for name, text in sources.items():
        (folder / f"{name}.cpp").write_text(text)
    files = {f"{name}.cpp": {"flags": ["-O1", "-fPIC"], "link": []} for name in sources}
    return {"files": files, "headers": [], "link": []}


def test_files_become_one_library_that_is_made_once(tmp_path: Path) -> None:
    recipe = kernels(tmp_path / "k", a='extern "C" int a() { return 1; }', b='extern "C" int b() { return 2; }')
    library = _build.build(tmp_path / "k", recipe, "cpu")
    loaded = ctypes.CDLL(str(library))
    assert (loaded.a(), loaded.b()) == (1, 2)
    made = library.stat().st_mtime_ns
    assert _build.build(tmp_path / "k", recipe, "cpu") == library
    assert library.stat().st_mtime_ns == made


def test_another_source_is_another_library(tmp_path: Path) -> None:
    first = _build.build(tmp_path / "k", kernels(tmp_path / "k", a='extern "C" int a() { return 1; }'), "cpu")
    second = _build.build(tmp_path / "k", kernels(tmp_path / "k", a='extern "C" int a() { return 2; }'), "cpu")
    assert first != second
    assert ctypes.CDLL(str(second)).a() == 2


def test_a_source_that_does_not_compile_says_what_the_compiler_said(tmp_path: Path) -> None:
    with pytest.raises(_build.CannotBuild, match="oops"):
        _build.build(tmp_path / "k", kernels(tmp_path / "k", a="int oops"), "cpu")
    assert not list((tmp_path / "cache").rglob("*.so"))


def test_a_missing_source_says_how_to_mend_it(tmp_path: Path) -> None:
    recipe = kernels(tmp_path / "k", a="")
    (tmp_path / "k/a.cpp").unlink()
    with pytest.raises(_build.CannotBuild, match="data files"):
        _build.build(tmp_path / "k", recipe, "cpu")


def test_a_builder_that_is_killed_leaves_nothing_in_the_way(tmp_path: Path) -> None:
    """Its compiler never ends; the next builder gets the lock, makes the library, and clears away what was left."""
    recipe = kernels(tmp_path / "k", a='extern "C" int a() { return 1; }')
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nexec sleep 1000\n")
    slow.chmod(0o755)
    code = (
        "import sys; from pathlib import Path; from agent.landing.runtime import _build\n"
        f"_build.build(Path({str(tmp_path / 'k')!r}), {recipe!r}, 'cpu')"
    )
    builder = subprocess.Popen(
        [sys.executable, "-c", code], env={**os.environ, "CXX": str(slow)}, start_new_session=True
    )
    while not list((tmp_path / "cache").rglob("building-*")):
        assert builder.poll() is None
        time.sleep(0.05)
    os.killpg(builder.pid, signal.SIGKILL)
    builder.wait()
    assert list((tmp_path / "cache").rglob("building-*"))
    library = _build.build(tmp_path / "k", recipe, "cpu")
    assert ctypes.CDLL(str(library)).a() == 1
    assert sorted(path.name for path in library.parent.iterdir()) == ["kernels.so", "lock"]


def test_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = kernels(tmp_path / "k", a="")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(_build.CannotBuild, match="install g\\+\\+"):
        _build.build(tmp_path / "k", recipe, "cpu")


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc")
def test_a_kernel_for_a_gpu_compiles_with_the_flags_that_land(tmp_path: Path) -> None:
    from agent.landing.folder import CALLS, _recipe
    from sandbox.build import calls
    from sandbox.build.signature import parse_launchers
    from tests.agent.landing.example import make_project, verdict

    spec = make_project(tmp_path / "project").with_changes(device="cuda:0")
    sources = {"twice.cu": CUDA.encode()}
    recipe = _recipe(spec, sources, sources, verdict(sm="sm_90"))
    (tmp_path / "twice.cu").write_text(CUDA)
    (tmp_path / CALLS).write_bytes(calls.source(parse_launchers(CUDA.encode(), "twice.cu").launchers))
    library = _build.build(tmp_path, recipe, "sm_90")
    assert b"sm_90" in library.read_bytes()
    assert hasattr(ctypes.CDLL(str(library)), "_warpsmith_twice")
    other = _build.build(tmp_path, recipe, "sm_80")
    assert other != library
    assert b"sm_80" in other.read_bytes()

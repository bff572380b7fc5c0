"""What a library that binds itself to torch asks for; a real one passes (``tests/sandbox/judge`` builds one)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sandbox.guard.extension import check_extensions, extension_refusal
from sandbox.isolation import best_isolation

SOURCE = """
extern "C" void* dlsym(void*, const char*);
extern "C" void _ZN2at4_ops6matmul4callERKNS_6TensorES4_();
extern "C" void _ZN2at4_ops10empty_like4callERKNS_6TensorE();
extern "C" void PyErr_Clear();
extern "C" void f() {
  PyErr_Clear();
  _ZN2at4_ops10empty_like4callERKNS_6TensorE();
  _ZN2at4_ops6matmul4callERKNS_6TensorES4_();
  dlsym(0, "x");
}
"""


def test_what_an_extension_asks_for_is_read_from_the_library(tmp_path: Path) -> None:
    folder = tmp_path / "extensions/own"
    folder.mkdir(parents=True)
    for each in (tmp_path, folder.parent, folder):
        each.chmod(0o755)
    (folder / "own.cpp").write_text(SOURCE)
    subprocess.run(["g++", "-shared", "-fPIC", "own.cpp", "-o", "own.so"], cwd=folder, check=True)
    found = check_extensions(folder.parent, best_isolation())
    assert [(each.rule, each.evidence.split(":")[0]) for each in found] == [
        ("torch-in-cpp", "own.so"),
        ("run-time-code", "own.so"),
    ]
    assert "torch.matmul computes here" in found[0].evidence
    assert "`dlsym`" in found[1].evidence


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("_ZN2at4_ops5relu_4callERNS_6TensorE", "torch-in-cpp"),
        ("_ZN2at4_ops11convolution10redispatchEN3c1014DispatchKeySetE", "torch-in-cpp"),
        ("_ZN2at6native4reluERKNS_6TensorE", "torch-in-cpp"),
        ("_ZN3c1010Dispatcher17findSchemaOrThrowEPKcS2_", "torch-in-cpp"),
        ("PyRun_StringFlags", "code-from-text"),
        ("system", "process"),
        ("fopen64", "file-access"),
        ("cublasSaxpy_v2", "library-use"),
        ("_ZN2at4_ops5zeros4callEN3c108ArrayRefINS2_6SymIntEEE", ""),
        ("_ZN2at4cuda20getCurrentCUDAStreamEa", ""),
        ("_ZNK2at10TensorBase8data_ptrIfEEPT_v", ""),
        ("_ZN5torch7LibraryC1ENS0_4KindENSt7__cxx1112basic_stringIcEE", ""),
        ("PyModule_AddObject", ""),
        ("__cxa_demangle", ""),
        ("__libc_single_threaded", ""),
        ("cudaLaunchKernel", ""),
    ],
)
def test_each_name(name: str, rule: str) -> None:
    assert (extension_refusal(name) or ("",))[0] == rule

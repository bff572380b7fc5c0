"""One more source of every library: for each launcher a function that takes all arguments in one piece of memory.

ctypes converts arguments one by one, which from Python 3.12 on takes longer than all checks of a call together; packing
them and passing one pointer takes a third of that. ``warpsmith_harness.kernels`` packs them; it calls launchers themselves
where a library has no such functions.
"""

from __future__ import annotations

from collections.abc import Iterable

from sandbox.build.signature import Launcher

FILE = "calls.cpp"
"""Its name in the folder that is compiled; what the workspace holds lies in ``kernels``."""

FLAGS = ("-O2", "-fPIC", "-w")

_SIZES = {"int32": 4, "int64": 8, "float32": 4, "float64": 8, "bool": 1}
_TYPES = {"int32": "int", "int64": "long long", "float32": "float", "float64": "double", "bool": "bool"}
_POINTER = "void*"
_HEAD = """\
namespace {
template <class T> T at(const char* packed, int offset) {
  T value;
  __builtin_memcpy(&value, packed + offset, sizeof value);
  return value;
}
}
"""


def source(launchers: Iterable[Launcher]) -> bytes:
    """Return the C++ text for some launchers; one that turns out not to be compiled is not called either."""
    return (_HEAD + "".join(map(_function, launchers))).encode()


def _function(launcher: Launcher) -> str:
    types = [_POINTER if each.kind != "scalar" else _TYPES[each.dtype] for each in launcher.params]
    sizes = [8 if each.kind != "scalar" else _SIZES[each.dtype] for each in launcher.params]
    if launcher.has_stream:
        types.append(_POINTER)
        sizes.append(8)
    arguments = [f"at<{kind}>(packed, {sum(sizes[:index])})" for index, kind in enumerate(types)]
    return (
        f'extern "C" __attribute__((weak)) int {launcher.name}({", ".join(types)});\n'
        f'extern "C" int _warpsmith_{launcher.name}(const char* packed) {{\n'
        f"  return {launcher.name}({', '.join(arguments)});\n}}\n"
    )

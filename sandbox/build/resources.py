"""What each device kernel uses, read from ``ptxas -v``."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

from sandbox.verdict import KernelResources


@dataclass(frozen=True)
class DeviceKernel:
    """A kernel in the compiled code.

    Attributes:
        mangled: The symbol in the device code.
        demangled: Its whole signature, as profilers show it.
        name: The signature without return type and parameters (``scale<3>``).
        base: The name alone (``scale``).
    """

    mangled: str
    demangled: str
    name: str
    base: str

    def to_json(self) -> dict[str, Any]:
        """Return the kernel as JSON data."""
        return asdict(self)


_ENTRY = re.compile(r"ptxas info\s*: Compiling entry function '(.+)' for '")
_SPILL = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"ptxas info\s*: Used (\d+) registers(.*)")
_SHARED = re.compile(r"(\d+)(?:\+\d+)? bytes smem")


def read_resources(log: str, demangled_log: str) -> list[tuple[DeviceKernel, KernelResources]]:
    """Read every kernel that ptxas compiled.

    Args:
        log: What nvcc printed.
        demangled_log: The same through c++filt, line by line.

    Returns:
        Kernels in the order of compilation; bytes are of static shared memory and of spill stores and loads together.
    """
    found: list[tuple[DeviceKernel, KernelResources]] = []
    kernel: DeviceKernel | None = None
    spilled = 0
    for line, readable in zip(log.splitlines(), demangled_log.splitlines(), strict=False):
        entry, same = _ENTRY.match(line), _ENTRY.match(readable)
        if entry and same:
            kernel, spilled = _kernel(entry[1], same[1]), 0
        spill, used = _SPILL.search(line), _USED.match(line)
        if spill and kernel:
            spilled += int(spill[1]) + int(spill[2])
        if used and kernel:
            shared = _SHARED.search(used[2])
            found.append((kernel, KernelResources(kernel.name, int(used[1]), int(shared[1]) if shared else 0, spilled)))
            kernel = None
    return found


def _kernel(mangled: str, demangled: str) -> DeviceKernel:
    name = short_name(demangled)
    plain = name
    while plain != (plain := re.sub(r"<[^<>]*>", "", plain)):
        pass
    return DeviceKernel(mangled, demangled, name, plain.rsplit("::", 1)[-1])


def short_name(demangled: str) -> str:
    """Return a demangled function without return type and parameters, template arguments kept.

    >>> short_name("void (anonymous namespace)::scale<(int)3, float>(float const*, long)")
    'scale<(int)3, float>'
    """
    text = demangled.replace("(anonymous namespace)::", "")
    depth = start = 0
    for index, character in enumerate(text):
        if character == "<":
            depth += 1
        elif character == ">":
            depth -= 1
        elif character == " " and depth == 0:
            start = index + 1
        elif character == "(" and depth == 0:
            return text[start:index]
    return text[start:]

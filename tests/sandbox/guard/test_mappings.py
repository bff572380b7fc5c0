"""Code that comes into a process from somewhere else is seen from outside."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.guard.mappings import executable, foreign_code

CHILD = """
import ctypes, mmap, sys
for line in sys.stdin:
    word, _, path = line.strip().partition(" ")
    if word == "load":
        ctypes.CDLL(path)
    elif word == "map":
        kept = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ | mmap.PROT_EXEC)
    print("done", flush=True)
"""


class Child:
    """A process that maps code when it is told to."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def do(self, command: str) -> frozenset[str]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(command, file=self.process.stdin, flush=True)
        assert self.process.stdout.readline() == "done\n"
        return executable([self.process.pid])


@pytest.fixture
def child() -> Iterator[Child]:
    command = [sys.executable, "-c", CHILD]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Child(process)
        process.kill()


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A library of the system, under a name of its own."""
    found = next(Path(name) for name in executable([os.getpid()]) if "/libc.so" in name)
    return Path(shutil.copy(found.with_name("libm.so.6"), tmp_path / "brought.so"))


def test_a_library_from_elsewhere_is_found_by_its_path(child: Child, library: Path) -> None:
    before = child.do("nothing")
    after = child.do(f"load {library}")
    [found] = foreign_code(before, after, [Path(sys.prefix)])
    assert (found.rule, found.severity) == ("foreign-code", "reject")
    assert str(library) in found.evidence
    assert foreign_code(before, after, [library]) == []
    assert foreign_code(frozenset(), after, []) == []


def test_memory_made_executable_is_found(child: Child) -> None:
    before = child.do("nothing")
    after = child.do("map")
    [found] = foreign_code(before, after, [], severity="label")
    assert (found.rule, found.severity) == ("foreign-code", "label")

"""Developers' projects on disk, and tasks loaded from them as the harness loads them."""

from __future__ import annotations

import os
import random
import sys
import textwrap
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from warpsmith_harness import load, seeds

from sandbox.task import TaskSpec

HEADER = "import torch\nfrom torch import nn\n"


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Compute on one thread: the tensors are small, and a busy machine makes torch's threads wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def drawn_alike(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw the same numbers in every run, whatever ran before; other ones with another ``WARPSMITH_TEST_SEED``.

    The harness draws from the system's entropy, so that nobody can predict it; a test that fails once in a thousand
    draws says nothing of the change it is run for. Many seeds, one after the other, look for what holds only mostly.
    """
    seed = zlib.crc32(f"{os.environ.get('WARPSMITH_TEST_SEED', '')} {request.node.nodeid}".encode())
    numbers = random.Random(seed)
    monkeypatch.setattr(seeds, "entropy", lambda: numbers.getrandbits(63))
    torch.manual_seed(seed)


@pytest.fixture(autouse=True)
def untouched_imports() -> Iterator[None]:
    """Forget what a test imported from a developer's project."""
    modules, path = dict(sys.modules), list(sys.path)
    yield
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        if name not in modules and "site-packages" not in file and "/pytest-" in file:
            del sys.modules[name]
        elif name in modules and modules[name] is not module:
            sys.modules[name] = modules[name]
    for name in ("model", "model_new", "kernels"):
        if name not in modules:
            sys.modules.pop(name, None)
    sys.path[:] = path


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    """Write a file of the developer's project; its folders come into being."""

    def write_file(name: str, source: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(source))
        return path

    return write_file


@pytest.fixture
def spec(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Describe a task of the project, as the command line would."""

    def describe(path: Path, class_name: str = "Block", module_name: str = "", **options: Any) -> dict[str, Any]:
        kind = "kernelbench" if class_name == "Model" else "module"
        name = module_name or path.stem
        root = options.pop("root", tmp_path if "." in name else path.parent)
        return TaskSpec(kind, path, class_name, name, root, Path(sys.executable), **options).to_json()

    return describe


@pytest.fixture
def make_task(write: Any, spec: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., load.LoadedTask]:
    """Load a task from the source of a lone file; torch and nn are imported.

    Nothing compiled is kept: the next source of as many characters, written in the same second, would be taken for this one.
    """
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def make(source: str, class_name: str = "Block", **options: Any) -> load.LoadedTask:
        options.setdefault("inputs", "torch.randn(8, 64)")
        path = write("lone_block.py", HEADER + textwrap.dedent(source))
        sys.modules.pop("lone_block", None)
        return load.load_task(spec(path, class_name, **options))

    return make

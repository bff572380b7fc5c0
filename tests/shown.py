"""Tests named by file and function, and whether they are there."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent


def assert_shown(named: Sequence[str]) -> None:
    """Assert that every test is there, and that one of them needs no GPU.

    Args:
        named: ``FILE::FUNCTION`` or ``FILE::CLASS::FUNCTION``, the file below ``tests``.
    """
    split = [name.partition("::") for name in named]
    assert [f"{file}::{test}" for file, _, test in split if test not in _functions_of(file)] == []
    assert any(not file.startswith("gpu/") for file, _, _ in split), "nothing but a GPU shows it"


@cache
def _functions_of(file: str) -> frozenset[str]:
    """Return the tests of a file as pytest names them: ``test_x``, and ``TestY::test_x`` in a class."""
    found = set()
    for node in ast.parse((TESTS / file).read_text()).body:
        inside = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        found.update(prefix + each.name for each in inside if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(found)

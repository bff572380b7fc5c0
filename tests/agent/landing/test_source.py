"""The decorator and its import are all that is added, whatever the file looks like."""

from __future__ import annotations

import ast

import pytest

from agent.landing.source import add_guard, imports_kernels, in_style_of, remove_guard

IMPORT = "from .m_kernels import"


def added(source: bytes, name: str = "M") -> list[tuple[int, bytes]]:
    """Lines that come, with their positions; everything else must be the same, in order."""
    old, new = source.splitlines(keepends=True), add_guard(source, name, IMPORT).splitlines(keepends=True)
    came = []
    for position, line in enumerate(new):
        if old and line == old[0]:
            old.pop(0)
        else:
            came.append((position, line))
    assert not old
    ast.parse(b"".join(new))
    return came


def test_beside_the_import_of_the_kernels() -> None:
    source = b"import a\nfrom .m_kernels import (\n    f,\n    g,\n)\nimport b\n\nclass M:\n    pass\n"
    assert added(source) == [(5, b"from .m_kernels import landed\n"), (8, b"@landed\n")]


def test_in_the_import_of_the_kernels_where_that_is_one_plain_line() -> None:
    source = b"from .m_kernels import a, z\r\nclass M: pass\r\n"
    assert add_guard(source, "M", IMPORT) == b"from .m_kernels import a, landed, z\r\n@landed\r\nclass M: pass\r\n"
    unsorted = b"from .m_kernels import z, a\nclass M: pass\n"
    assert add_guard(unsorted, "M", IMPORT) == b"from .m_kernels import z, a, landed\n@landed\nclass M: pass\n"


@pytest.mark.parametrize(
    "line",
    [
        b"from .m_kernels import a  # fast\n",
        b"from .m_kernels import a; import b\n",
        b"from .m_kernels import a as b\n",
        b"from .m_kernels import *\n",
        b"from .m_kernels import " + b"a" * 60 + b"\n",
    ],
)
def test_below_the_import_of_the_kernels_where_that_is_anything_else(line: bytes) -> None:
    assert added(line + b"class M: pass\n") == [(1, b"from .m_kernels import landed\n"), (2, b"@landed\n")]


def test_above_the_class_where_the_kernels_are_imported_nowhere_or_late() -> None:
    assert added(b"import a\nclass M: pass") == [(1, b"from .m_kernels import landed\n"), (2, b"@landed\n")]
    late = b"class M:\n    pass\nfrom .m_kernels import f\n"
    assert added(late) == [(0, b"from .m_kernels import landed\n"), (1, b"@landed\n")]


def test_outside_of_other_decorators() -> None:
    source = b"import a\n@register(\n    'x',\n)\n@other\nclass M:\n    pass\n"
    assert added(source) == [(1, b"from .m_kernels import landed\n"), (2, b"@landed\n")]


def test_indented_in_a_branch_with_its_indentation() -> None:
    source = b"if True:\n\tclass M:\n\t\tpass\n"
    assert added(source) == [(1, b"\tfrom .m_kernels import landed\n"), (2, b"\t@landed\n")]


@pytest.mark.parametrize("source", [b"landed = 1\nclass M: pass\n", b"from x import landed\nclass M: pass\n"])
def test_a_name_that_is_taken_is_avoided(source: bytes) -> None:
    assert [line for _, line in added(source)] == [b"from .m_kernels import landed as _landed\n", b"@_landed\n"]


def test_byte_order_mark_encoding_and_carriage_returns() -> None:
    marked = b"\xef\xbb\xbfclass A: pass\r\nclass M:\r\n    x = '\xc3\xa9'\r\n"
    assert added(marked) == [(1, b"from .m_kernels import landed\r\n"), (2, b"@landed\r\n")]
    latin = b"# -*- coding: latin-1 -*-\nclass M:\n    x = '\xe9\x0c'\n"
    assert added(latin) == [(1, b"from .m_kernels import landed\n"), (2, b"@landed\n")]


def test_a_rewritten_file_keeps_the_mark_and_the_line_ends_of_its_original() -> None:
    rewritten = b"a = 1\nb = 2\r\nc = 3"
    assert in_style_of(b"\xef\xbb\xbfx\r\ny\r\n", rewritten) == b"\xef\xbb\xbfa = 1\r\nb = 2\r\nc = 3"
    assert in_style_of(b"x\ny\n", b"\xef\xbb\xbf" + rewritten) == b"a = 1\nb = 2\nc = 3"
    assert in_style_of(b"x\ny\r\n", rewritten) == rewritten
    assert in_style_of(b"x", rewritten) == rewritten


def test_beside_what_has_to_come_first() -> None:
    """A docstring, imports from the future and imports for checkers alone stay where they are."""
    source = (
        b'"""Says."""\n\nfrom __future__ import annotations\n\nfrom typing import TYPE_CHECKING\n\n'
        b"if TYPE_CHECKING:\n\tfrom .other import A\n\n@dataclass(eq=False)\nclass M:\n\ta: A\n\n\tclass M2:\n\t\tpass\n"
    )
    assert added(source) == [(9, b"from .m_kernels import landed\n"), (10, b"@landed\n")]
    assert added(source, "M2")[-1][1] == b"\t@landed\n"


def test_the_last_class_of_a_name_counts() -> None:
    assert added(b"class M: pass\nclass M: pass\n")[-1] == (2, b"@landed\n")


def test_imports_are_recognised_by_module_and_level() -> None:
    assert imports_kernels(ast.parse("def f():\n    from .m_kernels import g"), IMPORT)
    assert not imports_kernels(ast.parse("from m_kernels import g\nfrom ..m_kernels import g"), IMPORT)


@pytest.mark.parametrize(
    "source",
    [
        b"import a\nfrom .m_kernels import (\n    f,\n    g,\n)\nimport b\n\nclass M:\n    pass\n",
        b"from .m_kernels import a, z\r\nclass M: pass\r\n",
        b"from .m_kernels import z, a\n@old\n@older(1)\nclass M: pass\n",
        b"from .m_kernels import a  # fast\nlanded = 1\nclass M: pass\n",
        b"import a\nclass M: pass",
        b"if a:\n    class M:\n        pass\n",
        b"class M:\n    pass\nfrom .m_kernels import f\n",
    ],
)
def test_taken_back_the_file_is_as_it_was_judged(source: bytes) -> None:
    assert remove_guard(add_guard(source, "M", IMPORT), "M", IMPORT) == source
    assert remove_guard(source, "M", IMPORT) == source

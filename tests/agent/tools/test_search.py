from pathlib import Path

import pytest

from agent.globs import glob_regex

from .conftest import Hands


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("*.py", ["a.py", ".py"], ["d/a.py", "a.pyc"]),
        ("**/*.py", ["a.py", "d/e/a.py"], ["a.txt"]),
        ("kernels/**", ["kernels/a", "kernels/b/c"], ["kernel/a"]),
        ("**/test_?.c[pu]*", ["d/test_1.cu", "test_x.cpp"], ["test_12.cu", "d/test_/.cu"]),
        ("*.{cu,cuh}", ["a.cu", "a.cuh"], ["a.c", "a.{cu,cuh}"]),
        ("[!a]*", ["b"], ["a", "ab"]),
        ("a+(b).py", ["a+(b).py"], ["aab.py"]),
        ("./a", ["a"], ["./a/b"]),
        ("[x", ["[x"], ["x"]),
    ],
)
def test_globs(pattern: str, matching: list[str], other: list[str]) -> None:
    expression = glob_regex(pattern)
    assert [path for path in matching + other if expression.fullmatch(path)] == matching


@pytest.fixture
def sources(hands: Hands) -> Hands:
    (hands.folder / "kernels/a.cu").write_text("int a;\nint b;\nfloat c;\nint d;\n")
    (hands.folder / "kernels/b.cuh").write_text("struct B {\r\n  int b;\r\n};\r\n")
    (hands.folder / "kernels/c.o").write_bytes(b"\0int a;")
    return hands


async def test_glob_lists_files_but_not_the_history(sources: Hands) -> None:
    assert (
        await sources.done("Glob", pattern="**") == "model.py\nmodel_new.py\nkernels/a.cu\nkernels/b.cuh\nkernels/c.o"
    )
    assert await sources.done("Glob", pattern="*.cu", path="kernels") == "kernels/a.cu"
    assert await sources.done("Glob", pattern="*.rs") == "No file matches *.rs."
    assert "does not exist" in await sources.refused("Glob", pattern="*", path="nowhere")
    assert "outside" in await sources.refused("Glob", pattern="*", path="..")


async def test_grep_shows_lines_with_numbers_and_surroundings(sources: Hands) -> None:
    assert await sources.done("Grep", pattern=r"^\s*int b;$") == "kernels/a.cu:2:int b;\nkernels/b.cuh:2:  int b;"
    assert await sources.done("Grep", pattern="FLOAT", ignore_case=True, context=1) == (
        "kernels/a.cu-2-int b;\nkernels/a.cu:3:float c;\nkernels/a.cu-4-int d;"
    )
    text = await sources.done("Grep", pattern="int [ad]", path="kernels/a.cu", context=1)
    assert text.split("\n") == [
        "kernels/a.cu:1:int a;", "kernels/a.cu-2-int b;", "kernels/a.cu-3-float c;", "kernels/a.cu:4:int d;", "kernels/a.cu-5-",
    ]  # fmt: skip


async def test_grep_modes_and_limits(sources: Hands) -> None:
    assert await sources.done("Grep", pattern="int", output_mode="files_with_matches") == "kernels/a.cu\nkernels/b.cuh"
    assert await sources.done("Grep", pattern="int", output_mode="count") == "kernels/a.cu: 3\nkernels/b.cuh: 1"
    assert await sources.done("Grep", pattern="int", head_limit=2) == (
        "kernels/a.cu:1:int a;\nkernels/a.cu:2:int b;\n[2 more matches]"
    )
    assert await sources.done("Grep", pattern="B.*int", multiline=True) == "kernels/b.cuh:1:struct B {"
    assert await sources.done("Grep", pattern="int", glob="*.cuh") == "kernels/b.cuh:2:  int b;"
    assert await sources.done("Grep", pattern="nothing such") == "Nothing in 4 files matches."


async def test_a_bad_pattern_is_explained(sources: Hands) -> None:
    assert "no regular expression" in await sources.refused("Grep", pattern="f(")


async def test_a_pattern_that_never_ends_is_stopped(sources: Hands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.tools.search._SEARCH_SECONDS", 1)
    (sources.folder / "kernels/d.txt").write_text("a" * 64 + "!")
    assert "Simplify" in await sources.refused("Grep", pattern="(a+)+$", path="kernels/d.txt")


async def test_links_are_not_searched(sources: Hands, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("int secret;\n")
    (sources.folder / "kernels/link.cu").symlink_to(tmp_path / "secret")
    (sources.folder / "kernels/folder").symlink_to(tmp_path)
    assert "secret" not in (await sources.use("Grep", pattern="secret")).text
    assert "link" not in await sources.done("Glob", pattern="**")
    assert "link" in await sources.refused("Grep", pattern="secret", path="kernels/link.cu")

from pathlib import Path

import pytest

from .conftest import REFERENCE, Hands


async def test_read_numbers_lines_and_pages(hands: Hands) -> None:
    (hands.folder / "long.txt").write_text("".join(f"line {n}\n" for n in range(1, 31)))
    text = await hands.done("Read", file_path="long.txt", offset=29)
    assert text == "    29\tline 29\n    30\tline 30"
    text = await hands.done("Read", file_path=str(hands.folder / "long.txt"), limit=1)
    assert text == "     1\tline 1\n[lines 2 to 30 follow; read on with offset 2]"
    assert "only 30 lines" in await hands.refused("Read", file_path="long.txt", offset=31)


async def test_read_shows_the_reference(hands: Hands) -> None:
    assert "class Model(" in await hands.done("Read", file_path="model.py")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.out", b"\x7fELF\0", "binary file of 5 bytes"),
        ("a.png", b"x", "is an image"),
        ("big.txt", b"x" * 10_000_001, "larger than"),
    ],
    ids=["binary", "image", "large"],
)
async def test_what_cannot_be_shown_is_refused(hands: Hands, name: str, content: bytes, said: str) -> None:
    (hands.folder / name).write_bytes(content)
    assert said in await hands.refused("Read", file_path=name)


async def test_odd_text_is_shown(hands: Hands) -> None:
    (hands.folder / "odd").write_bytes(b"\xff\xe9 latin\r\n" + b"x" * 5000)
    text = await hands.done("Read", file_path="odd")
    assert text.startswith("     1\t\ufffd\ufffd latin\n     2\txxx")
    assert text.endswith("[... 3,000 more characters]")
    (hands.folder / "empty").write_text("")
    assert await hands.done("Read", file_path="empty") == "empty is empty."


async def test_paths_outside_links_and_the_history_are_refused(hands: Hands, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (hands.folder / "link").symlink_to(tmp_path / "secret")
    (hands.folder / "folder").symlink_to(tmp_path)
    for path in (
        "../secret",
        "/etc/passwd",
        "kernels/../../secret",
        "link",
        "folder/secret",
        ".git/config",
        "",
        ".",
        "a\0b",
    ):
        for name, more in (("Read", {}), ("Write", {"content": "x"}), ("Edit", {"old_string": "s", "new_string": "x"})):
            assert "secret" not in (await hands.refused(name, file_path=path, **more)).replace(path, "")
    assert (tmp_path / "secret").read_text() == "secret"


async def test_missing_files_and_folders_are_said(hands: Hands) -> None:
    assert await hands.refused("Read", file_path="nope.py") == "nope.py does not exist."
    assert "is a folder" in await hands.refused("Read", file_path="kernels")
    assert "is a folder" in await hands.refused("Write", file_path="kernels", content="x")


async def test_the_reference_cannot_be_changed(hands: Hands) -> None:
    for name, more in (("Write", {"content": "x"}), ("Edit", {"old_string": "Model", "new_string": "x"})):
        assert "model_new.py" in await hands.refused(name, file_path="model.py", **more)
    assert (hands.folder / "model.py").read_text() == REFERENCE


async def test_write_makes_folders_and_wants_a_file_read_first(hands: Hands) -> None:
    assert (
        await hands.done("Write", file_path="kernels/deep/a.cu", content="one\ntwo\n")
        == "Made kernels/deep/a.cu (2 lines)."
    )
    await hands.done("Write", file_path="kernels/deep/a.cu", content="mine")
    assert "have not read it" in await hands.refused("Write", file_path="model_new.py", content="x")
    await hands.done("Read", file_path="model_new.py")
    (hands.folder / "model_new.py").write_text("changed meanwhile")
    assert "has changed" in await hands.refused("Write", file_path="model_new.py", content="x")
    await hands.done("Read", file_path="model_new.py")
    assert await hands.done("Write", file_path="model_new.py", content="x") == "Replaced model_new.py (1 lines)."
    assert (hands.folder / "model_new.py").read_text() == "x"


async def test_edit_replaces_exactly_one_place_and_shows_it(hands: Hands) -> None:
    text = await hands.done("Edit", file_path="model_new.py", old_string="return x", new_string="return x + 1")
    assert text.startswith("Changed model_new.py:\n")
    assert "     6\t        return x + 1" in text
    assert (hands.folder / "model_new.py").read_text() == REFERENCE.replace("Model(", "ModelNew(").replace(
        "x\n", "x + 1\n"
    )


async def test_edit_says_why_it_did_not(hands: Hands) -> None:
    (hands.folder / "a.cu").write_text("int a;\nint b;\n    int c;\n")
    for change, said in (
        ({"old_string": "int", "new_string": "long"}, "occurs 3 times, at lines 1, 2, 3"),
        ({"old_string": "float", "new_string": "x"}, "not found"),
        (
            {"old_string": "\tint c;\n", "new_string": "x"},
            "1 of its 1 lines stand at line 3 on. The first that differs is line 3 (in white space only)",
        ),
        ({"old_string": "", "new_string": "x"}, "empty"),
        ({"old_string": "int a;", "new_string": "int a;"}, "the same"),
    ):
        text = await hands.refused("Edit", file_path="a.cu", **change)
        assert text.startswith("a.cu was not changed.")
        assert said in text
    assert (hands.folder / "a.cu").read_text() == "int a;\nint b;\n    int c;\n"
    await hands.done("Edit", file_path="a.cu", old_string="int", new_string="long", replace_all=True)
    assert (hands.folder / "a.cu").read_text().count("long") == 3


async def test_edit_shows_the_first_line_that_differs(hands: Hands) -> None:
    (hands.folder / "a.cu").write_text("int a;\n\nint b;\n    int c;\nint d;\n")

    async def hint(old: str) -> str:
        text = await hands.refused("Edit", file_path="a.cu", old_string=old, new_string="x")
        return text.partition("white space included. ")[2]

    several = await hint("int b;\n    int x;\nint d;\n")
    assert several == (
        "2 of its 3 lines stand at line 3 on. The first that differs is line 4:\n"
        "  file:  '    int c;'\n  yours: '    int x;'"
    )
    assert "line 6:\n  file:  ''\n  yours: 'int e;'" in await hint("int d;\nint e;")
    assert "line 7:\n  file:  (no such line)\n  yours: 'int e;'" in await hint("int d;\n\nint e;")
    assert await hint("    int cc;") == "The nearest is line 4:\n  file:  '    int c;'\n  yours: '    int cc;'"
    assert await hint("return 0;") == "None of its lines stands in the file. Read it again."


async def test_line_ends_and_foreign_bytes_survive(hands: Hands) -> None:
    (hands.folder / "dos.py").write_bytes(b"a = 1\r\nb = '\xe9'\r\nc = 3\r\n")
    await hands.done("Edit", file_path="dos.py", old_string="a = 1\nb", new_string="a = 2\nnew = 1\nb")
    assert (hands.folder / "dos.py").read_bytes() == b"a = 2\r\nnew = 1\r\nb = '\xe9'\r\nc = 3\r\n"
    await hands.done("Read", file_path="dos.py")
    await hands.done("Write", file_path="dos.py", content="one\ntwo\n")
    assert (hands.folder / "dos.py").read_bytes() == b"one\r\ntwo\r\n"


async def test_several_edits_are_made_together_or_not_at_all(hands: Hands) -> None:
    (hands.folder / "a.cu").write_text("one\ntwo\n")
    good = {"old_string": "one", "new_string": "1"}
    text = await hands.refused("MultiEdit", file_path="a.cu", edits=[good, {"old_string": "one", "new_string": "x"}])
    assert text.startswith("a.cu was not changed. Edit 2 of 2: old_string was not found.")
    assert (hands.folder / "a.cu").read_text() == "one\ntwo\n"
    text = await hands.done("MultiEdit", file_path="a.cu", edits=[good, {"old_string": "1\ntwo", "new_string": "12"}])
    assert text == "Made 2 edits in a.cu:\n     1\t12\n     2\t"
    assert "edits[0].new_string" in await hands.refused("MultiEdit", file_path="a.cu", edits=[{"old_string": "a"}])


async def test_each_place_that_was_edited_is_shown_and_what_is_too_much_is_counted(hands: Hands) -> None:
    lines = [f"line {number}" for number in range(1, 401)]
    (hands.folder / "a.cu").write_text("\n".join(lines))

    def edits(*numbers: int) -> list[dict[str, str]]:
        return [{"old_string": f"line {n}\n", "new_string": f"new {n}\n"} for n in numbers]

    text = await hands.done("MultiEdit", file_path="a.cu", edits=edits(10, 12, 300))
    shown = text.split("\n")[1:]
    assert [line.split("\t")[0].strip() for line in shown] == [
        *map(str, range(7, 16)),
        "...",
        *map(str, range(297, 304)),
    ]
    assert sum("new " in line for line in shown) == 3
    text = await hands.done("MultiEdit", file_path="a.cu", edits=edits(*range(20, 200, 10)))
    assert text.endswith("[66 more lines are not shown]")


async def test_half_characters_of_json_do_no_harm(hands: Hands) -> None:
    await hands.done("Write", file_path="a.txt", content="\ud800x")
    await hands.done("Edit", file_path="a.txt", old_string="x", new_string="\udfff")
    assert (hands.folder / "a.txt").read_text() == "??"

import json

import pytest

from .conftest import Hands

NOTEBOOK = {
    "cells": [
        {"cell_type": "markdown", "id": "a", "metadata": {}, "source": ["# Title"]},
        {
            "cell_type": "code",
            "id": "b",
            "metadata": {"tags": ["x"]},
            "source": ["1 + 1"],
            "execution_count": 3,
            "outputs": [{"output_type": "stream", "name": "stdout", "text": ["2"]}],
        },
    ],
    "metadata": {"kernelspec": {"name": "python3"}},
    "nbformat": 4,
    "nbformat_minor": 5,
}


@pytest.fixture
def notebook(hands: Hands) -> Hands:
    (hands.folder / "n.ipynb").write_text(json.dumps(NOTEBOOK))
    return hands


def cells(hands: Hands) -> list[dict[str, object]]:
    read = json.loads((hands.folder / "n.ipynb").read_text())
    assert {key: read[key] for key in read if key != "cells"} == {
        key: NOTEBOOK[key] for key in NOTEBOOK if key != "cells"
    }
    found: list[dict[str, object]] = read["cells"]
    return found


async def test_replace_keeps_identity_and_drops_outputs(notebook: Hands) -> None:
    await notebook.done("NotebookEdit", notebook_path="n.ipynb", cell_number=1, new_source="x = 'é'\nx")
    assert cells(notebook)[1] == {
        "cell_type": "code",
        "id": "b",
        "metadata": {"tags": ["x"]},
        "source": ["x = 'é'\n", "x"],
        "execution_count": None,
        "outputs": [],
    }


async def test_insert_and_delete(notebook: Hands) -> None:
    more = {"notebook_path": "n.ipynb", "edit_mode": "insert", "cell_type": "markdown", "new_source": "end"}
    assert "now has 3 cells" in await notebook.done("NotebookEdit", cell_number=2, **more)
    inserted = cells(notebook)[2]
    assert (inserted["source"], inserted["cell_type"]) == (["end"], "markdown")
    assert inserted["id"] not in ("a", "b", None)
    await notebook.done("NotebookEdit", notebook_path="n.ipynb", cell_number=0, edit_mode="delete")
    assert [cell["source"] for cell in cells(notebook)] == [["1 + 1"], ["end"]]


async def test_what_cannot_be_done_is_said_and_changes_nothing(notebook: Hands) -> None:
    before = (notebook.folder / "n.ipynb").read_bytes()
    (notebook.folder / "no.ipynb").write_text('{"cells": 3}')
    (notebook.folder / "broken.ipynb").write_text("{")
    for path, arguments, said in (
        ("n.ipynb", {"cell_number": 2, "new_source": "x"}, "at most 1"),
        ("n.ipynb", {"cell_number": 0}, "new_source is needed"),
        ("n.ipynb", {"cell_number": 0, "new_source": "x", "edit_mode": "insert"}, "cell_type is needed"),
        ("no.ipynb", {"cell_number": 0, "new_source": "x"}, "no list of cells"),
        ("broken.ipynb", {"cell_number": 0, "new_source": "x"}, "not valid JSON"),
        ("none.ipynb", {"cell_number": 0, "new_source": "x"}, "does not exist"),
        ("../n.ipynb", {"cell_number": 0, "new_source": "x"}, "outside"),
    ):
        assert said in await notebook.refused("NotebookEdit", notebook_path=path, **arguments)
    assert (notebook.folder / "n.ipynb").read_bytes() == before

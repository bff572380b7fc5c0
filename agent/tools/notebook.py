"""NotebookEdit: cells of a Jupyter notebook."""

from __future__ import annotations

import json
import secrets
from typing import Any

from agent.tools.base import FunctionTool, Tool, ToolProblem
from agent.tools.edits import clean
from agent.tools.places import Places

_CELL_IDS_SINCE = (4, 5)


class Notebooks:
    """The notebook tool."""

    def __init__(self, places: Places) -> None:
        self._places = places

    def tools(self) -> list[Tool]:
        """Return NotebookEdit."""
        parameters: dict[str, Any] = {
            "notebook_path": {
                "type": "string",
                "minLength": 1,
                "description": "The .ipynb file, relative to the workspace.",
            },
            "cell_number": {
                "type": "integer",
                "minimum": 0,
                "description": "The cell, counting from 0; for insert, where the new one goes.",
            },
            "new_source": {"type": "string", "description": "The cell's new source; not needed for delete."},
            "cell_type": {
                "type": "string",
                "enum": ["code", "markdown"],
                "description": "Needed for insert; replace keeps it by default.",
            },
            "edit_mode": {"type": "string", "enum": ["replace", "insert", "delete"], "description": "Default replace."},
        }
        description = (
            "Replace, insert or delete a cell of a Jupyter notebook. Outputs of a replaced code cell are removed."
        )
        return [FunctionTool("NotebookEdit", description, parameters, self.edit, ("notebook_path", "cell_number"))]

    def edit(
        self,
        notebook_path: str,
        cell_number: int,
        new_source: str | None = None,
        cell_type: str | None = None,
        edit_mode: str = "replace",
    ) -> str:
        """Change one cell."""
        path = self._places.writable(notebook_path)
        notebook = _parse(path, self._places.read(path))
        cells = notebook["cells"]
        last = len(cells) if edit_mode == "insert" else len(cells) - 1
        if cell_number > last:
            raise ToolProblem(f"{path} has {len(cells)} cells: cell_number must be at most {last}.")
        if edit_mode == "delete":
            del cells[cell_number]
        elif new_source is None:
            raise ToolProblem(f"new_source is needed to {edit_mode} a cell.")
        elif edit_mode == "insert":
            if cell_type is None:
                raise ToolProblem("cell_type is needed to insert a cell.")
            cells.insert(cell_number, _cell(cell_type, new_source, _new_id(notebook)))
        else:
            old = cells[cell_number]
            fresh = _cell(
                cell_type or old["cell_type"], new_source, {k: old[k] for k in ("id", "metadata") if k in old}
            )
            cells[cell_number] = fresh
        text = json.dumps(notebook, indent=1, ensure_ascii=False)
        self._places.write(path, f"{clean(text)}\n".encode())
        done = {"delete": "Deleted", "insert": "Inserted", "replace": "Replaced"}[edit_mode]
        return f"{done} cell {cell_number} of {path}, which now has {len(cells)} cells."


def _parse(path: str, content: bytes) -> dict[str, Any]:
    try:
        notebook = json.loads(content)
    except ValueError as error:
        raise ToolProblem(f"{path} is no notebook: it is not valid JSON ({error}).") from None
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list) or not all(isinstance(cell, dict) and "cell_type" in cell for cell in cells):
        raise ToolProblem(f"{path} is no notebook of format 4: it has no list of cells.")
    assert isinstance(notebook, dict)
    return notebook


def _cell(kind: str, source: str, kept: dict[str, Any]) -> dict[str, Any]:
    """Return a cell in the notebook format: its source as a list of lines, and nothing run."""
    cell = {"cell_type": kind, "metadata": {}, **kept, "source": source.splitlines(keepends=True)}
    return {**cell, "execution_count": None, "outputs": []} if kind == "code" else cell


def _new_id(notebook: dict[str, Any]) -> dict[str, str]:
    version = (notebook.get("nbformat", 4), notebook.get("nbformat_minor", 0))
    return {"id": secrets.token_hex(4)} if version >= _CELL_IDS_SINCE else {}

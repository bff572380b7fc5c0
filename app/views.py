"""What the four code views show of a session: the source, the two differences, and the kernels.

These functions read files and colour text, so they are called in a thread.
"""

from __future__ import annotations

import ast

from app.files import Files
from app.state import Judged, SessionState
from app.text.code import CodeRows, code_rows
from app.text.diff import Diff, Marks, diff
from app.text.plain import clean
from app.text.rows import Row, row
from sandbox.errors import WarpsmithError
from sandbox.task import TaskSpec
from sandbox.verdict import BuildReport

KERNELS = "kernels/"


def source(task: TaskSpec, state: SessionState, files: Files) -> CodeRows:
    """Return the original file with the class marked, scrolled to it."""
    try:
        text = clean(_original(task, state, files).decode("utf-8", "replace"))
    except (OSError, WarpsmithError) as error:
        return CodeRows(_unreadable(error))
    marked = class_lines(text, task.class_name)
    rows = list(code_rows(text, task.path.name, marked=marked))
    return CodeRows(rows, look_at=max(0, marked.start - 1) if marked else None, sources=((task.candidate_file, 0),))


def against_original(state: SessionState, judged: Judged, files: Files) -> Diff:
    """Return what an attempt changes of the original, with what was decided."""
    decided = {(f, h): d for (n, f, h), d in state.decisions.items() if n == judged.number}
    earlier = {
        (f, h): (n, d.reason) for (n, f, h), d in state.decisions.items() if n < judged.number and not d.accepted
    }
    return _diff(state.files, judged.files, files, Marks(decided, earlier))


def against_previous(state: SessionState, judged: Judged, files: Files) -> Diff:
    """Return what an attempt changes of the attempt before it."""
    return _diff(state.before(judged.number), judged.files, files, Marks())


def kernels(judged: Judged, files: Files) -> CodeRows:
    """Return an attempt's kernel files, with the compiler's messages under their lines."""
    paths = [path for path in judged.files if path.startswith(KERNELS)]
    rows: list[Row] = []
    parts: list[int] = []
    sources: list[tuple[str, int]] = []
    look_at = None
    build = judged.verdict.build
    try:
        contents = files.of({path: judged.files[path] for path in paths})
    except WarpsmithError as error:
        return CodeRows(_unreadable(error))
    for path, content in contents.items():
        text = clean(content.decode("utf-8", "replace"))
        rows += [row("")] if rows else []
        parts.append(len(rows))
        rows.append(row((f" {clean(path)} ", "bold"), (f" {text.count(chr(10))} lines", "$muted"), fill="on $panel"))
        sources.append((path, len(rows)))
        messages = _messages(build, path)
        if messages and look_at is None:
            look_at = max(parts[-1], len(rows) + min(messages) - 4)
        rows += code_rows(text, path, messages=messages)
    if not rows:
        rows = [row(""), row("  ", ("This attempt has no kernel files.", "$muted"))]
    return CodeRows(rows, parts, look_at, sources)


def class_lines(text: str, name: str) -> range:
    """Return the line numbers of a class, none if the text does not parse or lacks it."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return range(0)
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return range(node.lineno, (node.end_lineno or node.lineno) + 1)
    return range(0)


def _original(task: TaskSpec, state: SessionState, files: Files) -> bytes:
    """The file as it was when the session began, where that is known."""
    stored = state.files.get(task.candidate_file) if task.kind == "module" else None
    return files.blob(stored) if stored else task.path.read_bytes()


def _diff(old: dict[str, str], new: dict[str, str], files: Files, marks: Marks) -> Diff:
    try:
        drawn = diff(files.of(old), files.of(new), marks)
    except WarpsmithError as error:
        return Diff(_unreadable(error))
    return drawn if drawn.rows else Diff([row(""), row("  ", ("Nothing differs.", "$muted"))])


def _messages(build: BuildReport | None, path: str) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for said in build.diagnostics if build else ():
        if said.file in (path, path.removeprefix(KERNELS)):
            found.setdefault(max(1, said.line), []).append(clean(said.message))
    return found


def _unreadable(error: Exception) -> list[Row]:
    return [row(""), row("  ", ("✗ ", "$text-error bold"), (clean(str(error)), "$text-error"))]

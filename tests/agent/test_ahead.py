"""What is begun ahead: a kernel's build as soon as its call is whole, build and verdict of the workspace after an answer."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path

import pytest

from agent import events as ev
from agent.ahead import WorkAhead
from agent.state import Judged, SessionState
from agent.store import SessionWriter
from agent.stream import Stream
from agent.tools.places import Places
from agent.unasked import worth_judging
from sandbox.workspace import Workspace
from tests.agent.support import make_spec, make_turn, make_verdict

FILE = "kernels/a.cpp"


class Session:
    """A stream with a follower; ``begun`` holds the kernels of each build that it began, ``judged`` those of each verdict."""

    def __init__(self, folder: Path) -> None:
        self.begun: list[dict[str, str]] = []
        self.judged: list[dict[str, str]] = []
        self.unasked = True
        self.workspace = Workspace.create(make_spec(folder), folder / "session" / "workspace")
        self.stream = Stream(SessionWriter(folder / "session"), os.open(os.devnull, os.O_WRONLY), SessionState())
        ahead = WorkAhead(
            self.stream,
            Places(self.workspace),
            build=lambda files: self.begun.append(_kernels(files)),
            judge=lambda files: self.judged.append(_kernels(files)),
            unasked=lambda: self.unasked,
        )
        self.stream.listeners.append(ahead.observe)

    def streams(self, *calls: tuple[str, dict[str, object]]) -> None:
        """Let an answer's calls stream in pieces of three characters."""
        for number, (name, arguments) in enumerate(calls):
            text = json.dumps(arguments)
            for start in range(0, len(text), 3):
                piece = text[start : start + 3]
                self.stream.emit(ev.Delta(turn=1, kind="tool", text=piece, call=number, name=name))


def _kernels(files: Mapping[str, bytes]) -> dict[str, str]:
    return {path: data.decode() for path, data in files.items() if path.startswith("kernels/")}


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    (tmp_path / "session").mkdir()
    session = Session(tmp_path)
    yield session
    session.stream.writer.close()


def write(path: str, content: str) -> tuple[str, dict[str, object]]:
    return "Write", {"file_path": path, "content": content}


def edit(old: str, new: str) -> tuple[str, dict[str, object]]:
    return "Edit", {"file_path": FILE, "old_string": old, "new_string": new}


def test_a_kernel_is_built_when_its_call_is_whole_and_with_what_was_written_before_it(session: Session) -> None:
    session.streams(
        write(FILE, "one\n"),
        edit("one", "two"),
        write("shifted.py", "import torch\n"),
        write("kernels/b.cpp", "three\n"),
        ("Check", {}),
    )
    assert session.begun == [{FILE: "one\n"}, {FILE: "two\n"}, {FILE: "two\n", "kernels/b.cpp": "three\n"}]
    assert session.judged == []


def test_pieces_of_several_calls_may_come_in_any_order_and_a_call_that_still_streams_begins_nothing(
    session: Session,
) -> None:
    texts = [json.dumps(write(f"kernels/{name}.cpp", f"{{ {name}; }}\n")[1]) for name in "ab"]
    for start in range(0, len(texts[0]), 4):
        assert session.begun == []
        for call, text in enumerate(texts):
            session.stream.emit(ev.Delta(turn=1, kind="tool", text=text[start : start + 4], call=call, name="Write"))
    assert list(session.begun[-1]) == ["kernels/a.cpp", "kernels/b.cpp"]


def test_an_edit_begins_from_the_file_as_it_is(session: Session) -> None:
    (session.workspace.folder / FILE).write_text("int a = 1;\n")
    session.streams(edit("1", "2"), ("Check", {}))
    assert session.begun == [{FILE: "int a = 2;\n"}]


def test_calls_that_will_fail_and_those_the_developer_is_asked_about_begin_nothing(session: Session) -> None:
    session.streams(
        edit("no such", "text"), write("../kernels/x.cpp", "out"), write("kernels", "a folder"), ("Check", {})
    )
    session.unasked = False
    session.streams(write(FILE, "one\n"), ("Check", {}))
    assert session.begun == []


def test_an_answer_that_was_cut_off_leaves_nothing_to_the_next(session: Session) -> None:
    session.streams(write(FILE, "one\n"), ("Check", {}))
    session.stream.emit(ev.ModelRetry(turn=1, error="dropped", wait_seconds=0))
    session.streams(write("kernels/b.cpp", "two\n"), ("Check", {}))
    assert session.begun[1:] == [{"kernels/b.cpp": "two\n"}]


def test_after_the_calls_of_an_answer_the_workspace_is_built_and_judged_as_it_is(session: Session) -> None:
    session.stream.emit(make_turn("", ("Bash", {}), ("Bash", {})))
    (session.workspace.folder / FILE).write_text("by hand\n")
    for number in range(2):
        message = {"role": "tool", "tool_call_id": f"c{number}", "content": "done"}
        assert session.begun == session.judged == []
        session.stream.emit(ev.ToolFinished(call_id=f"c{number}", name="Bash", ok=True, message=message, seconds=0))
    assert session.begun == session.judged == [{FILE: "by hand\n"}]


def test_kernels_that_nothing_calls_yet_and_files_that_were_judged_are_not_worth_a_verdict() -> None:
    def hashes(files: Mapping[str, bytes]) -> dict[str, str]:
        return {path: sha256(content).hexdigest() for path, content in files.items()}

    state = SessionState(original_files=hashes({"a.py": b"as it was"}))
    assert not worth_judging({"a.py": b"as it was", FILE: b"a kernel"}, "a.py", state)
    files = {"a.py": b"calls it", FILE: b"a kernel"}
    assert worth_judging(files, "a.py", state)
    state.judged.append(Judged(1, hashes(files), make_verdict()))
    assert not worth_judging(files, "a.py", state)
    assert worth_judging({**files, FILE: b"another"}, "a.py", state)

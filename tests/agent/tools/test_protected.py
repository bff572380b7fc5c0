"""The reference, the history, the session and the judge: no tool changes them, whichever way it takes."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import sandbox
from agent.permissions.modes import Rules
from agent.permissions.rules import parse_rule
from agent.tools import workspace_tools
from sandbox.isolation import best_isolation
from sandbox.workspace import Workspace
from tests.agent.tools.conftest import Hands

NAMES = ["{}", "./kernels/../{}", "{folder}/{}", "kernels//../{}", "./{}"]
COMMANDS = [
    "echo x >> {f}",
    "cp /bin/true {f}; cat /bin/true > {f}",
    "rm -rf {f}",
    "mv {f} gone",
    "echo x > new; mv -f new {f}",
    "ln {f} hard && echo x >> hard",
    "ln -sf $PWD/{f} soft; echo x >> soft",
    "rm -rf kernels; ln -s . kernels; echo x >> kernels/{f}",
    "cd kernels && echo x >> ../{f}",
    "chmod 777 {f}; echo x >> {f}",
    "umount {f}; umount -l {f}; mount -o remount,rw {f}; echo x >> {f}",
    "truncate -s 0 {f}; dd if=/dev/zero of={f} count=1",
    "cp -al {f} hard; python3 -c \"open('hard','a').write('x')\"",
    "mv ../workspace ../elsewhere; rm -rf ../workspace",
    "find . -name '*' -delete",
]


def seen(folder: Path) -> dict[str, bytes]:
    """Everything below a folder but what git refreshes while it reads."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts and path.name != "index"
    }


@pytest.fixture
def guarded(workspace: Workspace) -> Iterator[Hands]:
    if best_isolation().name != "namespaces":
        pytest.skip("namespaces are refused here")
    (workspace.folder.parent / "events.jsonl").write_text("{}\n")
    tools = workspace_tools(workspace, best_isolation(), lambda _: None)
    yield Hands(tools, workspace, [])
    tools.close()


async def test_no_command_changes_the_reference_or_the_history(guarded: Hands) -> None:
    reference, history = (guarded.folder / "model.py").read_bytes(), seen(guarded.folder / ".git")
    for command in COMMANDS:
        for file in ("model.py", ".git/config", ".git/HEAD"):
            await guarded.use("Bash", command=command.format(f=file))
            assert (guarded.folder / "model.py").read_bytes() == reference, command
            assert seen(guarded.folder / ".git") == history, command


async def test_no_command_changes_the_session_the_project_or_the_judge(guarded: Hands) -> None:
    session, judge = guarded.folder.parent, Path(sandbox.__file__).parent
    project = guarded.workspace.spec.path
    before = project.read_bytes()
    for place in (session / "events.jsonl", project, judge / "judge.py", Path(sys.executable)):
        was = subprocess.run(["sha256sum", place], capture_output=True, check=True).stdout
        for command in (f"echo x >> {place}", f"rm -f {place}", f"echo x > n; mv -f n {place}", f"ln {place} hard"):
            await guarded.use("Bash", command=f"{command}; echo x >> hard; ln -sf {place} soft; echo x >> soft")
        assert subprocess.run(["sha256sum", place], capture_output=True, check=True).stdout == was
    assert project.read_bytes() == before


async def test_no_command_changes_what_a_rule_denies(guarded: Hands) -> None:
    rules = Rules(deny=(parse_rule("Write(model_new.py)"), parse_rule("Write(kernels/**)")))
    (guarded.folder / "kernels" / "mine.cu").write_text("// mine\n")
    tools = workspace_tools(guarded.workspace, best_isolation(), lambda _: None, rules.forbid_writing)
    hands = Hands(tools, guarded.workspace, [])
    before = {name: (guarded.folder / name).read_bytes() for name in ("model_new.py", "kernels/mine.cu")}
    for command in COMMANDS:
        for file in before:
            await hands.use("Bash", command=f"( {command.format(f=file)} ); echo x > kernels/new.cu")
            assert {name: (guarded.folder / name).read_bytes() for name in before} == before, command
    assert [path.name for path in (guarded.folder / "kernels").iterdir()] == ["mine.cu"]
    await hands.use("Bash", command="echo free > notes.txt")
    assert (guarded.folder / "notes.txt").read_text() == "free\n"
    tools.close()
    everything = workspace_tools(guarded.workspace, best_isolation(), print, lambda _: True)
    await Hands(everything, guarded.workspace, []).use("Bash", command="echo x > notes.txt")
    assert (guarded.folder / "notes.txt").read_text() == "free\n"
    everything.close()


@pytest.mark.parametrize("file", ["model.py", ".git/config"])
async def test_no_file_tool_reaches_them_by_any_name_or_link(guarded: Hands, file: str) -> None:
    before = (guarded.folder / file).read_bytes()
    (guarded.folder / "soft").symlink_to(guarded.folder / file)
    (guarded.folder / "to").symlink_to(guarded.folder / file.rpartition("/")[0])
    names = [name.format(file, folder=guarded.folder) for name in NAMES] + ["soft", f"to/{Path(file).name}"]
    for name in names:
        await guarded.use("Read", file_path=name)
        await guarded.refused("Write", file_path=name, content="x")
        await guarded.refused("Edit", file_path=name, old_string="e", new_string="x", replace_all=True)
        edits = [{"old_string": "e", "new_string": "x", "replace_all": True}]
        await guarded.refused("MultiEdit", file_path=name, edits=edits)
        await guarded.refused("NotebookEdit", notebook_path=name, cell_number=0, new_source="x")
        assert (guarded.folder / file).read_bytes() == before

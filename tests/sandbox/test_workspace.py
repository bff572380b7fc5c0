import os
import stat
import subprocess
from pathlib import Path

import pytest

from sandbox.errors import EnvironmentFault, TaskError
from sandbox.task import TaskSpec
from sandbox.workspace import LARGEST_FILE, UnfitWorkspace, Workspace

REFERENCE = (
    b"import torch\n\n\nclass Model(torch.nn.Module):\n    def __init__(self):\n        super(Model, self).__init__()\n"
)
BLOCKS = b"import torch\r\n\r\n\r\nclass Block(torch.nn.Module): ...  # \xc3\xa9\r\n"


def make_spec(tmp_path: Path, kind: str) -> TaskSpec:
    project = tmp_path / f"project-{kind}"
    project.mkdir()
    path = project / ("task.py" if kind == "kernelbench" else "blocks.py")
    path.write_bytes(REFERENCE if kind == "kernelbench" else BLOCKS)
    class_name = "Model" if kind == "kernelbench" else "Block"
    return TaskSpec(kind, path, class_name, path.stem, project, Path("/usr/bin/python3"))  # type: ignore[arg-type]


@pytest.fixture
def kernelbench(tmp_path: Path) -> Workspace:
    return Workspace.create(make_spec(tmp_path, "kernelbench"), tmp_path / "kernelbench" / "workspace")


@pytest.fixture
def module(tmp_path: Path) -> Workspace:
    return Workspace.create(make_spec(tmp_path, "module"), tmp_path / "module" / "workspace")


def git(workspace: Workspace, *arguments: str) -> str:
    command = ["git", "-c", "safe.directory=*", *arguments]
    return subprocess.run(command, cwd=workspace.folder, check=True, capture_output=True, text=True).stdout


def test_a_kernelbench_workspace_holds_the_reference_and_a_renamed_copy(kernelbench: Workspace) -> None:
    folder = kernelbench.folder
    assert (folder / "model.py").read_bytes() == REFERENCE
    assert stat.S_IMODE((folder / "model.py").stat().st_mode) == 0o444
    assert kernelbench.files() == {
        "model_new.py": REFERENCE.replace(b"Model(", b"ModelNew(").replace(b"(Model,", b"(ModelNew,")
    }
    assert (folder / "kernels").is_dir()
    assert kernelbench.files() == kernelbench.original()


def test_a_module_workspace_holds_the_developers_bytes(module: Workspace) -> None:
    assert module.files() == module.original() == {"blocks.py": BLOCKS}
    assert not (module.folder / "model.py").exists()


def test_the_developers_git_configuration_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in ("pre-commit", "post-commit", "reference-transaction", "post-index-change"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        (hooks / name).chmod(0o755)
    config = tmp_path / "config"
    config.write_text(f"[core]\n\thooksPath = {hooks}\n\tautocrlf = true\n[init]\n\ttemplateDir = {hooks}\n[broken\n")
    elsewhere = tmp_path / "elsewhere"
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("GIT_DIR", str(elsewhere / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(elsewhere / "index"))
    workspace = Workspace.create(make_spec(tmp_path, "module"), tmp_path / "workspace")
    workspace.commit("again")
    assert workspace.original() == {"blocks.py": BLOCKS}
    assert not (tmp_path / "ran").exists()
    assert not elsewhere.exists()


def test_commits_hold_exactly_the_judged_files(kernelbench: Workspace) -> None:
    folder = kernelbench.folder
    (folder / "kernels" / "deep").mkdir()
    (folder / "kernels" / "deep" / 'odd "name" é.cuh').write_bytes(b"x\r\n")
    (folder / "notes.txt").write_text("not part of an attempt")
    commit = kernelbench.commit('Attempt 1\n\nquoted "text"')
    tracked = git(kernelbench, "-c", "core.quotePath=false", "ls-tree", "-r", "-z", "--name-only", commit).split("\0")
    assert tracked[:-1] == ['kernels/deep/odd "name" é.cuh', "model.py", "model_new.py"]
    assert git(kernelbench, "log", "-1", "--format=%an %s") == "Warpsmith Attempt 1\n"
    assert git(kernelbench, "status", "--porcelain") == "?? notes.txt\n"
    assert len(kernelbench.original()) == 1


def test_a_removed_file_is_removed_from_the_next_commit(module: Workspace) -> None:
    (module.folder / "kernels" / "a.cu").write_text("a")
    module.commit("with")
    (module.folder / "kernels" / "a.cu").unlink()
    assert git(module, "ls-tree", "-r", "--name-only", module.commit("without")) == "blocks.py\n"


def test_hidden_files_and_caches_are_no_part_of_an_attempt(module: Workspace) -> None:
    for name in ("kernels/.swap", "kernels/__pycache__/a.pyc", "kernels/a.cu"):
        (module.folder / name).parent.mkdir(exist_ok=True)
        (module.folder / name).write_bytes(b"\0" if name != "kernels/a.cu" else b"a")
    assert list(module.files()) == ["blocks.py", "kernels/a.cu"]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("kernels/big.cu", b"x" * (LARGEST_FILE + 1), "larger"),
        ("kernels/lib.so", b"\x7fELF\0", "binary"),
        ("blocks.py", b"\0", "binary"),
    ],
    ids=["large", "library", "candidate"],
)
def test_what_cannot_be_judged_is_refused_by_name(module: Workspace, name: str, content: bytes, words: str) -> None:
    (module.folder / name).write_bytes(content)
    with pytest.raises(UnfitWorkspace, match=words) as refusal:
        module.files()
    assert refusal.value.where == name
    assert refusal.value.next_step


def test_too_many_files_are_refused(module: Workspace) -> None:
    for number in range(201):
        (module.folder / "kernels" / f"{number}.cu").write_text("")
    with pytest.raises(UnfitWorkspace, match="more than 200"):
        module.files()


def test_links_are_refused_wherever_they_stand(module: Workspace, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    link = module.folder / "kernels" / "a.cu"
    link.symlink_to(tmp_path / "secret")
    with pytest.raises(UnfitWorkspace, match=r"a\.cu is not a regular file"):
        module.files()
    link.unlink()
    (module.folder / "kernels").rmdir()
    (module.folder / "kernels").symlink_to(tmp_path)
    with pytest.raises(UnfitWorkspace, match="kernels is not a folder"):
        module.files()
    module.restore(module.original())
    (module.folder / "blocks.py").unlink()
    (module.folder / "blocks.py").symlink_to(tmp_path / "secret")
    with pytest.raises(UnfitWorkspace, match=r"blocks\.py is not a regular file"):
        module.files()


def test_a_missing_candidate_file_is_refused(module: Workspace) -> None:
    (module.folder / "blocks.py").unlink()
    with pytest.raises(UnfitWorkspace, match="missing"):
        module.files()


def test_restore_makes_exactly_those_files(kernelbench: Workspace, tmp_path: Path) -> None:
    folder = kernelbench.folder
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "kept").write_text("kept")
    (folder / "kernels" / "old").mkdir()
    (folder / "kernels" / "old" / "x.cu").write_text("old")
    (folder / "kernels" / "link").symlink_to(tmp_path / "outside")
    (folder / "kernels" / "a.cu").mkdir()
    (folder / "model_new.py").unlink()
    (folder / "model_new.py").symlink_to(tmp_path / "outside" / "kept")
    (folder / "model.py").unlink()
    (folder / "notes.txt").write_text("notes")
    wanted = {"model_new.py": b"new", "kernels/a.cu": b"a", "kernels/old": b"a file now", "kernels/b/c.cuh": b"c"}
    kernelbench.restore(wanted)
    assert kernelbench.files() == wanted
    assert (folder / "model.py").read_bytes() == REFERENCE
    assert (folder / "notes.txt").exists()
    assert (tmp_path / "outside" / "kept").read_text() == "kept"
    kernelbench.restore(kernelbench.original())
    assert kernelbench.files() == kernelbench.original()
    assert (folder / "kernels").is_dir()


def test_restore_takes_only_files_of_an_attempt(module: Workspace) -> None:
    for path in ("other.py", "kernels/../other.py", "../x"):
        with pytest.raises(ValueError):
            module.restore({path: b""})


def test_the_reference_survives_a_change_of_the_developers_file(kernelbench: Workspace) -> None:
    kernelbench.spec.path.write_text("changed since")
    again = Workspace.open(kernelbench.spec, kernelbench.folder)
    again.restore(again.original())
    assert (again.folder / "model.py").read_bytes() == REFERENCE


def test_a_making_cut_short_anywhere_is_completed(tmp_path: Path) -> None:
    spec = make_spec(tmp_path, "kernelbench")
    for cut in range(1, 9):
        folder = tmp_path / f"workspace-{cut}"
        _create_and_die(spec, folder, after_writes=cut)
        workspace = Workspace.open(spec, folder)
        assert workspace.files() == workspace.original()
        assert (folder / "model.py").read_bytes() == REFERENCE
        assert git(workspace, "status", "--porcelain") == ""


def _create_and_die(spec: TaskSpec, folder: Path, after_writes: int) -> None:
    """Create a workspace in a child that is gone at its n-th system call that changes a folder or starts git."""
    child = os.fork()
    if child == 0:
        import sys

        seen = 0

        def count(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal seen
            if event in ("os.rename", "os.mkdir", "subprocess.Popen"):
                seen += 1
                if seen > after_writes:
                    os.kill(os.getpid(), 9)

        sys.addaudithook(count)
        Workspace.create(spec, folder)
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == 9


def test_protected_paths(kernelbench: Workspace, module: Workspace) -> None:
    for path in ("model.py", ".git/config", ".git", "kernels/../model.py", kernelbench.folder / "model.py"):
        assert kernelbench.is_protected(Path(path))
    for path in ("model_new.py", "kernels/a.cu", "model.pyc", ".gitignore"):
        assert not kernelbench.is_protected(Path(path))
    assert not module.is_protected(Path("model.py"))


def test_a_missing_reference_and_a_missing_git_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = make_spec(tmp_path, "module")
    with pytest.raises(TaskError, match=r"gone\.py"):
        Workspace.create(spec.with_changes(path=tmp_path / "gone.py"), tmp_path / "a")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentFault, match="git is not installed"):
        Workspace.create(spec, tmp_path / "b")

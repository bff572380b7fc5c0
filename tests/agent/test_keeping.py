"""``warpsmith landed``: what has landed in a project, seen from it and from a colleague's clone of it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from agent import events as ev
from agent.keeping import session_to_retune, slower
from agent.landing import VerifiedInputs, land, plan
from agent.landing.index import lines_for, noted, read_index
from agent.landing.kept import kept_of, text_sha256
from agent.landing.standing import standing
from agent.landing_desk import LandingDesk
from agent.session import create_session, open_session
from agent.settings import Settings
from agent.state import SessionState
from agent.store import SessionWriter
from agent.stream import Stream
from app.cli import main
from sandbox.errors import UsageError
from sandbox.target import kernels_folder
from sandbox.task import TaskSpec
from sandbox.verdict import Speedup
from tests.agent.landing.example import CANDIDATE, ORIGINAL, accepted, make_project, planned, verdict
from tests.agent.landing.repositories import git, picture
from tests.agent.landing.worlds import CALM
from tests.agent.support import UNCOMPILED

NAME = "shop/blocks.py:Block"
INDEX = ".warpsmith/landed.toml"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository in which a landing was committed, judged on a machine of which nothing is known."""
    for name, value in {**CALM, "WARPSMITH_HOME": str(tmp_path / "home"), "WARPSMITH_DEVICE": "cpu"}.items():
        monkeypatch.setenv(name, value)
    spec = make_project(tmp_path / "project")
    root = spec.root
    git(root, "init", "-q", "-b", "main")
    for key, value in (("user.name", "D"), ("user.email", "d@e")):
        git(root, "config", key, value)
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "start")
    _land(spec)
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "landed")
    return root


def _land(spec: TaskSpec, state: dict[str, bytes] | None = None, original: str = ORIGINAL) -> None:
    changes = planned(spec, state, original)
    entry = kept_of(spec.with_changes(env=UNCOMPILED), changes, verdict(), spec.root)
    forgetful = {**entry.to_json(), "environment": {}}
    entry = type(entry).from_json(entry.name, forgetful)
    land([*changes, *noted(spec.root, entry.name, lines_for(entry))])


def landed(capsys: pytest.CaptureFixture[str], root: Path, *arguments: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main(["landed", *arguments, "--project", str(root)])
    told = capsys.readouterr()
    return code, told.out, told.err


def states(capsys: pytest.CaptureFixture[str], root: Path) -> list[tuple[str, list[str]]]:
    code, out, _ = landed(capsys, root, "--json")
    assert code == 0
    return [(each["state"], each["reasons"]) for each in json.loads(out)]


def test_a_landing_is_listed_with_what_became_of_it(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = landed(capsys, project / "shop")
    assert code == 0
    assert out.startswith(f"fresh    {NAME}\n")
    assert "then reward 2: 1.50× eager [1.40, 1.60]" in out
    module, kernel = project / "shop/blocks.py", project / "shop/blocks_kernels/fused_block.cpp"
    module.write_text(module.read_text() + "\nMORE = 1\n")
    assert states(capsys, project) == [("edited", ["shop/blocks.py was edited, Block was not"])]
    module.write_text(module.read_text().replace("self.eps)", "self.eps * 2)"))
    assert states(capsys, project) == [("stale", ["Block was edited in shop/blocks.py"])]
    kernel.unlink()
    assert states(capsys, project) == [("missing", ["shop/blocks_kernels/fused_block.cpp is gone"])]


def test_a_landing_that_was_not_timed_says_what_times_it(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index = project / INDEX
    index.write_text(re.sub(r"(?m)^.*\.(reward|speedup).*\n", "", index.read_text()))
    _, out, _ = landed(capsys, project)
    assert "then right, and not timed (warpsmith landed check Block --note times it)" in out


def test_a_landing_grows_stale_with_torch(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index = project / INDEX
    index.write_text(f'{index.read_text()}"{NAME}".environment.torch = "1.0"\n')
    ((state, (reason,)),) = states(capsys, project)
    assert state == "stale"
    assert reason.startswith("torch is ")
    assert reason.endswith("it was judged with 1.0")


@pytest.mark.parametrize(("what", "said"), [("driver", "the driver is"), ("device", "the GPU is"), ("cuda", "CUDA is")])
def test_a_landing_grows_stale_with_another_machine(project: Path, what: str, said: str) -> None:
    (kept,) = read_index(project).values()
    kept = replace(kept, device="cuda", environment={what: "1"})
    now = standing(project, kept, {what: "2"})
    assert (now.state, now.reasons) == ("stale", (f"{said} 2, it was judged with 1",))


@pytest.mark.parametrize(("interval", "worse"), [((0.8, 0.7, 0.9), True), ((0.9, 0.8, 1.1), False)])
def test_a_landing_is_slower_than_its_original_where_the_whole_interval_is(
    interval: tuple[float, float, float], worse: bool
) -> None:
    judged = verdict()
    assert judged.profile is not None
    profile = replace(judged.profile, speedup={"eager": Speedup(*interval)})
    assert slower(replace(judged, profile=profile)) == worse


@pytest.mark.parametrize("end", ["false", "true"])
def test_a_clone_undoes_it_by_what_landed_alone(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], end: str
) -> None:
    """Also where git gives the clone other line ends."""
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "-c", f"core.autocrlf={end}", str(project), str(clone))
    assert states(capsys, clone) == [("fresh", [])]
    code, out, err = landed(capsys, clone, "undo", "Block")
    assert code == 0, err
    assert f"{NAME} was taken back." in out
    assert git(clone, "diff", "--stat", "HEAD~1") == ""
    assert not (clone / ".warpsmith").exists()


TWIN = """

class Twin(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 + 1
"""
FUSED_TWIN = """

class Twin(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        twice(x, out, x.numel())
        return out
"""
TWICE = """#include <cstdint>

extern "C" int twice(const float* x, float* out, int64_t n) {
    for (int64_t i = 0; i < n; ++i) out[i] = 2 * x[i] + 1;
    return 0;
}
"""


def _land_twin(root: Path) -> None:
    """Land a second class of the same file, as a session does that was opened after the first landing."""
    path = root / "shop/blocks.py"
    base = path.read_text()
    theirs = "from torch import nn\n"
    fused = base.replace(TWIN, FUSED_TWIN).replace(theirs, f"{theirs}\nfrom .blocks_twin_kernels import twice\n", 1)
    places = {"path": path, "module_name": "shop.blocks", "root": root, "python": Path(sys.executable)}
    spec = TaskSpec(kind="module", class_name="Twin", inputs="torch.randn(4, 8)", env=UNCOMPILED, **places)
    spec = spec.with_changes(kernels=kernels_folder(path, "Twin"))
    signature = ("x: float32 [4, 8] contiguous", "output: float32 [4, 8] contiguous")
    state = {"blocks.py": fused.encode(), "kernels/twice.cpp": TWICE.encode()}
    verified = VerifiedInputs.of(spec, signature, base.encode())
    changes = plan(spec, {"blocks.py": base.encode()}, state, verdict(), verified)
    entry = replace(kept_of(spec, changes, verdict(), root), environment={}, landed="2999-01-01T00:00:00Z")
    land([*changes, *noted(root, entry.name, lines_for(entry))])


@pytest.mark.usefixtures("project")
def test_two_landings_in_one_file_are_fresh_and_taken_back_one_after_the_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "two"
    spec = make_project(root, ORIGINAL + TWIN)
    (root / "pyproject.toml").touch()
    _land(spec, accepted(CANDIDATE + TWIN), ORIGINAL + TWIN)
    alone = picture(root)
    _land_twin(root)
    assert states(capsys, root) == [("fresh", []), ("fresh", [])]
    code, _, err = landed(capsys, root, "undo", "Block")
    assert code == 1
    assert "holds what landed in it later as well: shop/blocks.py:Twin" in err
    assert landed(capsys, root, "undo", "shop/blocks.py:Twin")[0] == 0
    assert picture(root) == alone
    assert landed(capsys, root, "undo", "Block")[0] == 0
    assert (root / "shop/blocks.py").read_text() == ORIGINAL + TWIN


def test_an_undo_while_the_ide_has_the_session_is_refused_with_the_next_step(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    git(project, "reset", "-q", "--hard", "HEAD~1")
    settings = Settings(home=project.parent / "home")
    spec = make_project(project.parent / "other").with_changes(path=project / "shop/blocks.py", root=project)
    writer = SessionWriter(create_session(spec, settings, settings.home))
    stream = Stream(writer, os.open(os.devnull, os.O_WRONLY), SessionState())
    desk = LandingDesk(spec, stream, judging=None)  # type: ignore[arg-type]  # nothing is judged
    changes = planned(spec)
    entry = kept_of(spec, changes, verdict(), project, writer.folder.name)
    changes += noted(project, entry.name, lines_for(entry))
    files = [desk._journal.entry(change) for change in changes]
    desk._write(changes, ev.Landed(landing=1, attempt=1, files=files, partial=False, verdict=verdict().to_json()))
    held = picture(project)
    code, _, err = landed(capsys, project, "undo", "Block")
    assert code == 2
    assert "Take it back there (u), or close it there first." in err
    assert picture(project) == held
    writer.close()
    assert landed(capsys, project, "undo", "Block")[0] == 0
    assert git(project, "status", "--porcelain") == ""


def test_an_undo_can_be_one_commit(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = landed(capsys, project, "undo", "Block", "--commit", "--json")
    assert code == 0, err
    assert git(project, "rev-parse", "HEAD").strip() == json.loads(out)["commit"]
    assert git(project, "diff", "--stat", "HEAD~2", "HEAD") == ""
    assert git(project, "status", "--porcelain") == ""


def test_an_undo_over_edits_says_which_and_takes_back_the_rest(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module, note = project / "shop/blocks.py", project / "shop/blocks_kernels/mine.txt"
    module.write_text(module.read_text() + "\nMORE = 1\n")
    note.write_text("mine\n")
    before = picture(project / "shop")
    code, _, err = landed(capsys, project, "undo", "Block")
    assert code == 1
    assert "blocks.py" in err
    assert "--partly" in err
    assert picture(project / "shop") == before
    code, _, err = landed(capsys, project, "undo", "Block", "--partly")
    assert code == 0, err
    assert module.read_text() == ORIGINAL + "\nMORE = 1\n"
    assert note.read_text() == "mine\n"
    assert [path.name for path in note.parent.iterdir()] == ["mine.txt"]


def test_an_undo_of_what_is_gone_says_how_it_comes_back(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module, folder = project / "shop/blocks.py", project / "shop/blocks_kernels"
    for place, code, said in ((module, 1, "blocks.py is gone"), (folder, 2, "A file of the landing is gone")):
        shutil.rmtree(place) if place.is_dir() else place.unlink()
        before = picture(project)
        for arguments in ([], ["--partly"]):
            refused, _, err = landed(capsys, project, "undo", "Block", *arguments)
            assert refused == code, err
            assert said in err
            assert f"git checkout HEAD -- {place}" in err
            assert "edit" not in err
        assert picture(project) == before
        git(project, "checkout", "HEAD", "--", str(place))
    assert states(capsys, project) == [("fresh", [])]


def test_an_undo_that_cannot_be_a_commit_says_how_it_can_be_without(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / ".git/MERGE_HEAD").write_text(git(project, "rev-parse", "HEAD"))
    code, _, err = landed(capsys, project, "undo", "Block", "--commit")
    assert code == 1
    assert "Or leave --commit out" in err
    assert "land it" not in err


@pytest.mark.parametrize("more", ["", "\nMORE = 1\n"])
def test_a_landing_that_was_rebased_is_taken_back_where_its_commit_holds_no_more(
    project: Path, capsys: pytest.CaptureFixture[str], more: str
) -> None:
    module = project / "shop/blocks.py"
    module.write_text(module.read_text() + more)
    git(project, "commit", "-q", "-a", "--amend", "--allow-empty", "-m", "landed")
    git(project, "checkout", "-q", "-b", "other", "HEAD~1")
    module.write_text("# first\n" + module.read_text())
    git(project, "commit", "-q", "-a", "-m", "theirs")
    git(project, "rebase", "-q", "other", "main")
    before = picture(project / "shop")
    ((state, _),) = states(capsys, project)
    assert state == ("edited" if more else "fresh")
    code, _, err = landed(capsys, project, "undo", "Block", "--commit")
    if more:
        assert (code, picture(project / "shop")) == (1, before), err
    else:
        assert code == 0, err
        assert git(project, "diff", "--stat", "other", "HEAD") == ""
        assert git(project, "status", "--porcelain") == ""


def _redirected(root: Path, way: str) -> None:
    """Have the files of a clone name files outside its project, as somebody could who wants them gone."""
    index, folder, record = root / INDEX, root / "shop/blocks_kernels", root / "shop/blocks_kernels/_landed.py"
    outside = root.parent / "outside"
    shutil.copytree(root / "shop", outside)
    keepsake = hashlib.sha256((outside / "parts.py").read_bytes()).hexdigest()
    if way in ("../outside", str(outside)):
        index.write_text(
            index.read_text().replace('"shop/blocks', f'"{way}/blocks').replace(f'"{way}/blocks.py:', f'"{NAME[:-5]}')
        )
    elif way == "folder":
        index.write_text(index.read_text().replace('"shop/blocks_kernels"', '"shop"'))
    elif way == "capture":
        index.write_text(index.read_text() + f'"{NAME}".task.capture = "../outside"\n')
    elif way == "link":
        shutil.rmtree(folder)
        folder.symlink_to(outside / "blocks_kernels")
    else:
        (folder / "deep").symlink_to(outside)
        record.write_text(record.read_text().replace("'files': {", f"'files': {{{way!r}: {keepsake!r},\n ", 1))
        sha256 = text_sha256(record.read_bytes())
        index.write_text(re.sub('record_sha256 = ".*"', f'record_sha256 = "{sha256}"', index.read_text()))


@pytest.mark.parametrize(
    "way",
    [
        "../outside",
        "absolute",
        "folder",
        "capture",
        "link",
        "../../outside/parts.py",
        "blocks_kernels/deep/parts.py",
        "parts.py",
    ],
)
def test_what_a_clone_names_elsewhere_is_not_touched(
    project: Path, capsys: pytest.CaptureFixture[str], way: str
) -> None:
    _redirected(project, str(project.parent / "outside") if way == "absolute" else way)
    before = picture(project.parent)
    ((state, (reason,)),) = states(capsys, project)
    assert (state, bool(reason)) == ("broken", True)
    for arguments in (["undo", "Block"], ["undo", "Block", "--partly"], ["check", "Block"]):
        code, out, err = landed(capsys, project, *arguments)
        assert (code, out) == (2, ""), err
        assert f"The landing {NAME} is not touched: {reason}." in err
    settings = Settings(home=project.parent / "home", cache=project.parent / "cache", device="cpu")
    with pytest.raises(UsageError, match="is not touched"):
        session_to_retune(project, read_index(project)[NAME], settings, Path("/usr/bin/python3"), "cpu")
    assert picture(project.parent) == before


def test_what_landed_and_is_wrong_now_fails(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is judged as it lies there, against the original that was kept, and nothing in the project changes."""
    kernel = project / "shop/blocks_kernels/fused_block.cpp"
    kernel.write_text(kernel.read_text().replace("y + eps", "y - eps - 0.5f"))
    before = picture(project)
    code, out, err = landed(capsys, project, "check", "Block", "--json")
    assert code == 1, err
    ((told),) = json.loads(out)
    assert (told["name"], told["state"], told["verdict"]["reward"]) == (NAME, "edited", -1)
    assert not told["verdict"]["verify"]["ok"]
    assert picture(project) == before


def test_a_session_to_retune_begins_with_the_original_and_lands_in_its_place(project: Path, tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home", cache=tmp_path / "cache", device="cpu")
    entry = read_index(project)[NAME]
    task = open_session(session_to_retune(project, entry, settings, Path("/usr/bin/python3"), "cpu")).task
    assert task.path.read_text() == ORIGINAL
    assert (task.root / "shop/parts.py").read_bytes() == (project / "shop/parts.py").read_bytes()
    assert (task.init, task.inputs, task.module_name) == ("8", "torch.randn(4, 8), shift=None", "shop.blocks")
    assert (task.landing.path, task.landing.root) == (project / "shop/blocks.py", project)
    again = planned(task.landing, {"blocks.py": CANDIDATE.replace("x.numel()", "int(x.numel())").encode()})
    assert next(change.path for change in again) == project / "shop/blocks.py"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["undo"], ["Which landing to undo", "warpsmith landed lists them"]),
        (["undo", "Nobody"], ["No landing is called 'Nobody'", NAME]),
        (["list", "Block"], ["takes no name", "warpsmith landed check Block"]),
        (["check", "--partly"], ["--partly is an option of undo"]),
        (["check", "Block", "--device", "cuda:0"], ["cuda"]),
    ],
)
def test_a_request_that_is_wrong_says_what_to_do(
    project: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: list[str]
) -> None:
    code, _, err = landed(capsys, project, *arguments)
    assert code in (2, 3)
    assert "Traceback" not in err
    for word in words:
        assert word in err


def test_a_project_without_landings_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    assert landed(capsys, tmp_path)[:2] == (0, f"Nothing has landed in {tmp_path}.\n")
    assert landed(capsys, tmp_path, "check")[0] == 0


def test_a_capture_that_is_not_in_the_project_is_taken_from_the_session_that_landed_it(project: Path) -> None:
    settings = Settings(home=project.parent / "home")
    [kept] = read_index(project).values()
    recorded = project.parent / "recording" / "captures" / "Block"
    recorded.mkdir(parents=True)
    task = make_project(project.parent / "other").with_changes(capture=str(recorded))
    folder = create_session(task, settings, settings.home)
    captured = replace(kept, session=folder.name, task={**kept.task, "capture": ".warpsmith/captures/Block"})
    retuned = session_to_retune(project, captured, settings, Path(sys.executable), "cpu")
    assert open_session(retuned).task.capture == str(recorded)
    recorded.rmdir()
    with pytest.raises(UsageError, match=r"neither in this project nor with a session.*captures/Block"):
        session_to_retune(project, captured, settings, Path(sys.executable), "cpu")

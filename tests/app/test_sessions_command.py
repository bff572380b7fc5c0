"""``warpsmith sessions`` as it prints."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from agent import events as ev
from agent.session import create_session, open_session
from agent.store import SessionWriter
from app.cli import main
from sandbox.errors import ExitCode
from tests.agent.support import make_recording, make_settings, make_spec, make_turn, make_verdict


def session(tmp_path: Path, *, landed: bool) -> Path:
    settings, spec = make_settings(tmp_path), make_spec(tmp_path)
    folder = create_session(spec, settings, settings.home)
    writer = SessionWriter(folder)
    for number, (tier, ratio) in enumerate((("quick", 5.0), ("full", 2.0)), 1):
        verdict = make_verdict(tier=tier, ratio=ratio).to_json()
        writer.append(ev.Attempt(attempt=number, files={"shifted.py": "one"}, verdict=verdict))
    if landed:
        created = [spec.root / "shifted_kernels" / name for name in ("a.cpp", "__init__.py")]
        for path in created:
            path.parent.mkdir(exist_ok=True)
            path.write_text("")
        befores = {created[0]: None, spec.root / "shifted.py": "hash", created[1]: None}
        files = [{"path": str(path), "before": before, "after": "hash"} for path, before in befores.items()]
        writer.append(ev.Landed(landing=1, attempt=2, files=files, partial=False, verdict={}))
    writer.close()
    return folder


def test_show_ends_with_the_best_attempt_and_how_to_land_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = session(tmp_path, landed=False)
    home = str(tmp_path / "home")
    assert main(["sessions", "show", "last", "--home", home]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2:] == [
        "best: attempt 2 of 2: reward 3, 2.00x eager [1.90, 2.10], 1.50x compile [1.40, 1.60] (full)",
        f"next: look at the changes and land them: warpsmith sessions resume {folder}",
    ]
    assert "2.00×" in lines[0]


def test_a_landing_is_named_by_the_developers_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = session(tmp_path, landed=True)
    assert main(["sessions", "show", open_session(folder).id, "--home", str(tmp_path / "home")]) == 0
    out = capsys.readouterr().out
    assert f"landing 1: {tmp_path / 'project' / 'shifted.py'} and 2 more files\n" in out
    assert "next: look at what landed, or undo it" in out
    shutil.rmtree(tmp_path / "project" / "shifted_kernels")
    assert main(["sessions", "show", open_session(folder).id, "--home", str(tmp_path / "home")]) == 0
    assert "what landed is not in the project any more" in capsys.readouterr().out


def test_a_session_is_resumed_with_limits_of_its_own_and_shown_against_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = make_turn("", ("Read", {"file_path": "shifted.py"}))
    settings = make_settings(tmp_path, model=f"replay:{make_recording(tmp_path, answer, answer)}")
    folder = create_session(make_spec(tmp_path), settings, settings.home)
    home = ["--home", str(settings.home), "--turns", "1", "--minutes", "30"]
    assert main(["sessions", "resume", str(folder), "--headless", *home]) == ExitCode.FAILED
    told = "spent: 1 of 1 turns, 0.0 of 30 minutes"
    assert told in capsys.readouterr().out.splitlines()
    assert main(["sessions", "show", str(folder)]) == ExitCode.OK
    assert told in capsys.readouterr().out.splitlines()


def test_the_sessions_of_a_search_stand_together_below_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings, spec = make_settings(tmp_path), make_spec(tmp_path)
    of_search = {"folder": str(tmp_path / "home" / "searches" / "20260101-000000-5eac4c4e"), "base": None, "told": ""}
    first, alone, last = (create_session(spec, settings, settings.home, s) for s in (of_search, None, of_search))
    assert main(["sessions", "--home", str(settings.home)]) == ExitCode.OK
    rows = capsys.readouterr().out.splitlines()[1:]
    assert rows[0].startswith("search 5eac4c4e: 2 sessions") or rows[0].startswith(open_session(alone).id)
    below = rows.index(next(row for row in rows if row.startswith("search")))
    assert {row[:10].strip() for row in rows[below + 1 : below + 3]} == {open_session(s).id for s in (first, last)}
    assert "--resume-search 5eac4c4e" in rows[below]
    assert len(rows) == 4
    shown = (
        rows[below + 1].index("new"),
        next(row for row in rows if row.startswith(open_session(alone).id)).index("new"),
    )
    assert shown[0] == shown[1]
    assert main(["sessions", "--json", "--home", str(settings.home)]) == ExitCode.OK
    assert sorted(each["search"] or "" for each in json.loads(capsys.readouterr().out)) == ["", "5eac4c4e", "5eac4c4e"]

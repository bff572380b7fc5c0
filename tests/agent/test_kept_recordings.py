"""Recordings under the home: the last ones are kept, and those that sessions use."""

from __future__ import annotations

from pathlib import Path

from agent.kept_recordings import KEPT, new_recording
from agent.session import SESSION_FILE


def test_old_recordings_go_unless_a_session_uses_them(tmp_path: Path) -> None:
    old = [tmp_path / "recordings" / f"20200101-00000{number}" for number in range(KEPT + 2)]
    for folder in old:
        (folder / "captures" / "Block").mkdir(parents=True)
    session = tmp_path / "sessions" / "one"
    session.mkdir(parents=True)
    (session / SESSION_FILE).write_text(f'{{"task": {{"capture": "{old[0]}/captures/Block"}}}}')
    made = [new_recording(tmp_path), new_recording(tmp_path)]
    assert len(set(made)) == 2
    assert all(folder.is_dir() for folder in made)
    assert old[0].is_dir()
    assert not old[1].exists()
    assert old[-1].is_dir()
    assert len(list((tmp_path / "recordings").iterdir())) == KEPT + 1

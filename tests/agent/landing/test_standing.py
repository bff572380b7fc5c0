"""What has become of a landing, as far as its files alone tell."""

from __future__ import annotations

from pathlib import Path

from agent.landing.standing import is_gone


def test_a_landing_is_gone_once_nothing_is_left_of_what_it_created(tmp_path: Path) -> None:
    module, record, index = (tmp_path / name for name in ("blocks.py", "kernels/_landed.py", ".warpsmith/landed.toml"))
    files = [
        {"path": str(path), "before": before} for path, before in ((module, "1" * 64), (record, None), (index, None))
    ]
    for path in (module, record, index):
        path.parent.mkdir(exist_ok=True)
        path.touch()
    assert not is_gone(files)
    record.unlink()
    assert is_gone(files)
    assert not is_gone(files[:1])

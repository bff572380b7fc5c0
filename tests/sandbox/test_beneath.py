import os
import stat
from pathlib import Path

import pytest

from sandbox import beneath


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    (tmp_path / "secret").write_text("secret")
    return folder


def test_writes_make_folders_and_replace_at_once(root: Path) -> None:
    beneath.write_file(root, "a/b/c.txt", b"one")
    (root / "a/b/c.txt").chmod(0o755)
    beneath.write_file(root, "a/b/c.txt", b"two")
    assert beneath.read_file(root, "a/b/c.txt") == b"two"
    assert stat.S_IMODE((root / "a/b/c.txt").stat().st_mode) == 0o755
    assert [path.name for path in (root / "a/b").iterdir()] == ["c.txt"]
    assert beneath.read_file(root, "a/b/c.txt", 2) == b"tw"


def test_links_are_neither_read_nor_written_through(root: Path, tmp_path: Path) -> None:
    (root / "file").symlink_to(tmp_path / "secret")
    (root / "folder").symlink_to(tmp_path)
    for path in ("file", "folder/secret"):
        with pytest.raises(OSError):
            beneath.read_file(root, path)
    with pytest.raises(OSError):
        beneath.write_file(root, "folder/new", b"x")
    beneath.write_file(root, "file", b"mine")
    assert not (root / "file").is_symlink()
    assert (tmp_path / "secret").read_text() == "secret"
    assert not (tmp_path / "new").exists()


def test_only_paths_below_the_folder_are_paths(root: Path) -> None:
    for path in ("../secret", "/etc/passwd", "", "a/../../secret"):
        with pytest.raises(ValueError):
            beneath.read_file(root, path)


def test_folders_and_pipes_are_no_files(root: Path) -> None:
    (root / "folder").mkdir()
    os.mkfifo(root / "pipe")
    with pytest.raises(IsADirectoryError):
        beneath.read_file(root, "folder")
    with pytest.raises(OSError, match="regular"):
        beneath.read_file(root, "pipe")


def test_walk_lists_links_without_entering_them(root: Path, tmp_path: Path) -> None:
    beneath.write_file(root, "b/x", b"")
    beneath.write_file(root, "a", b"")
    (root / "c").symlink_to(tmp_path)
    assert [path for path, _ in beneath.walk(root)] == ["a", "c", "b/x"]
    assert list(beneath.walk(root, "missing")) == []
    assert list(beneath.walk(root, "c")) == []


def test_removing_takes_a_link_and_not_what_it_points_to(root: Path, tmp_path: Path) -> None:
    (root / "link").symlink_to(tmp_path / "secret")
    beneath.write_file(root, "folder/deep/file", b"")
    for path in ("link", "folder", "missing"):
        beneath.remove(root, path)
    assert not list(root.iterdir())
    assert (tmp_path / "secret").exists()


def test_a_new_file_belongs_to_the_owner_of_its_folder(root: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    os.chown(root, 65534, 65534)
    beneath.write_file(root, "a/b", b"")
    assert {(root / name).stat().st_uid for name in ("a", "a/b")} == {65534}

"""Files of reports: whole or not there, and never over something by accident."""

import errno
import os
from pathlib import Path

import pytest

from threegate.base.errors import StorageFailed, UsageError
from threegate.host.atomic_file import write_report, write_together


def test_a_new_file_is_whole_and_private(tmp_path: Path) -> None:
    write_report(tmp_path / "r.md", b"text", over=False)
    assert (tmp_path / "r.md").read_bytes() == b"text"
    assert (tmp_path / "r.md").stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["r.md"], "nothing else is left"


def test_what_is_there_stays_unless_told_otherwise(tmp_path: Path) -> None:
    file = tmp_path / "r.md"
    file.write_bytes(b"mine")
    with pytest.raises(UsageError, match="exists already"):
        write_report(file, b"new", over=False)
    assert file.read_bytes() == b"mine"
    write_report(file, b"new", over=True)
    assert file.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["r.md"]


def test_files_that_belong_together_are_all_there_or_none_is(tmp_path: Path) -> None:
    files = {tmp_path / "r-1.png": b"points", tmp_path / "r.md": b"text"}
    write_together(files, over=False)
    assert sorted(os.listdir(tmp_path)) == ["r-1.png", "r.md"]
    (tmp_path / "r.md").unlink()
    with pytest.raises(UsageError, match="exists already"):
        write_together(files, over=False)
    assert os.listdir(tmp_path) == ["r-1.png"]
    write_together(files, over=True)
    assert sorted(os.listdir(tmp_path)) == ["r-1.png", "r.md"]
    elsewhere = {tmp_path / "new.png": b"points", tmp_path / "no" / "such" / "r.md": b"text"}
    with pytest.raises(StorageFailed):
        write_together(elsewhere, over=False)
    assert sorted(os.listdir(tmp_path)) == ["r-1.png", "r.md"], "the first is taken back"


def test_a_file_that_appears_meanwhile_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "r.md"
    file.write_bytes(b"mine")
    monkeypatch.setattr(os.path, "lexists", lambda _: False)
    with pytest.raises(UsageError, match="exists already"):
        write_report(file, b"new", over=False)
    assert file.read_bytes() == b"mine"
    assert os.listdir(tmp_path) == ["r.md"]


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"mine")
    (tmp_path / "r.md").symlink_to("other")
    with pytest.raises(UsageError, match="exists already"):
        write_report(tmp_path / "r.md", b"new", over=False)
    write_report(tmp_path / "r.md", b"new", over=True)
    assert (tmp_path / "other").read_bytes() == b"mine"
    assert (tmp_path / "r.md").read_bytes() == b"new"


def test_a_disk_without_links_is_written_to_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "no hard links here")

    monkeypatch.setattr(os, "link", no_links)
    write_report(tmp_path / "r.md", b"text", over=False)
    assert (tmp_path / "r.md").read_bytes() == b"text"
    (tmp_path / "s.md").write_bytes(b"mine")
    monkeypatch.setattr(os.path, "lexists", lambda _: False)
    with pytest.raises(UsageError, match="exists already"):
        write_report(tmp_path / "s.md", b"new", over=False)
    assert (tmp_path / "s.md").read_bytes() == b"mine"


@pytest.mark.parametrize("name", ["no/such/place.md", "", "a\0b"])
def test_where_nothing_can_be_written_is_one_error(tmp_path: Path, name: str) -> None:
    with pytest.raises((StorageFailed, UsageError)):
        write_report(tmp_path / name, b"text", over=False)
    with pytest.raises((StorageFailed, UsageError)):
        write_report(tmp_path / name, b"text", over=True)
    assert os.listdir(tmp_path) == []

"""A derived file is built again where it is broken, and only there."""

from pathlib import Path

import pytest

from threegate.base.errors import StorageFailed
from threegate.host.workspace.derived import open_plain

SCHEMA = "CREATE TABLE IF NOT EXISTS kept (word TEXT);"


def words(path: Path, schema: str = SCHEMA) -> list[str]:
    db = open_plain(path, schema)
    with db:
        found = [str(row[0]) for row in db.execute("SELECT word FROM kept")]
        db.execute("INSERT INTO kept VALUES ('word')")
    db.close()
    return found


def test_what_is_no_database_is_built_again(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    assert words(path) == []
    assert words(path) == ["word"], "control"
    path.write_bytes(b"no database" * 1000)
    assert words(path) == []


def test_what_cannot_be_opened_for_another_reason_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    assert words(path) == []
    with pytest.raises(StorageFailed, match=r"cannot use x\.sqlite"):
        words(path, "no statement")
    assert words(path) == ["word"]

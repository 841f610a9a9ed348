"""Files the operator names: traps are refused without waiting for them."""

import io
import os
import socket
from pathlib import Path

import pytest

from threegate.artifacts.ids import sha256_hex
from threegate.artifacts.registry import MAX_ARTIFACT_BYTES
from threegate.host.workspace.offered_files import OfferedFile, read_offered

DATA = b"bytes"


def offered(name: str | Path, stdin: bytes = b"") -> OfferedFile:
    (found,) = read_offered([str(name)], io.BytesIO(stdin))
    return found


def code_of(found: OfferedFile) -> str:
    assert found.error is not None
    assert found.data.open_for_validation() == b""
    return found.error.code


def test_a_file_and_standard_input_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(DATA)
    assert offered(tmp_path / "a.md").data.open_for_validation() == DATA
    assert offered("-", DATA).data.open_for_validation() == DATA


def test_the_operators_own_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(DATA)
    (tmp_path / "link").symlink_to(tmp_path / "a.md")
    assert offered(tmp_path / "link").error is None


def test_a_fifo_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert code_of(offered(tmp_path / "fifo")) == "TG-USE-004"


def test_devices_and_sockets_are_refused(tmp_path: Path) -> None:
    assert code_of(offered("/dev/zero")) == "TG-USE-004"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        assert code_of(offered(tmp_path / "socket")) == "TG-USE-002"


def test_a_directory_is_refused_with_a_hint(tmp_path: Path) -> None:
    found = offered(tmp_path)
    assert code_of(found) == "TG-USE-003"
    assert found.error is not None
    assert f"{tmp_path}/*.md" in found.error.hint


@pytest.mark.parametrize("name", ["missing", "nul\0byte", "a" * 5000])
def test_what_is_not_there_is_named_not_raised(tmp_path: Path, name: str) -> None:
    assert code_of(offered(f"{tmp_path}/{name}")) == "TG-USE-002"


def test_a_huge_file_is_not_read_to_its_end(tmp_path: Path) -> None:
    exact, larger = tmp_path / "exact", tmp_path / "larger"
    exact.touch()
    larger.touch()
    os.truncate(exact, MAX_ARTIFACT_BYTES)
    os.truncate(larger, 2**40)  # sparse: reading it all would take the machine down
    assert offered(exact).error is None, "control"
    assert code_of(offered(larger)) == "TG-ART-001"


def test_endless_standard_input_is_cut_off() -> None:
    with Path("/dev/zero").open("rb") as endless:
        (found,) = read_offered(["-"], endless)
    assert code_of(found) == "TG-ART-001"


def test_a_name_that_is_an_id_must_tell_the_truth(tmp_path: Path) -> None:
    true, false = tmp_path / f"rp-{sha256_hex(DATA)}.md", tmp_path / f"rp-{sha256_hex(b'x')}.md"
    plain = tmp_path / "rp-1234.md"
    for path in (true, false, plain):
        path.write_bytes(DATA)
    assert offered(true).error is None, "control"
    assert offered(plain).error is None
    assert code_of(offered(false)) == "TG-ART-018"


def test_order_is_kept_and_a_bad_file_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "b").write_bytes(b"2")
    names = [str(tmp_path / name) for name in ("a", "missing", "b")]
    found = list(read_offered(names, io.BytesIO()))
    assert [item.name for item in found] == names
    assert [item.error is None for item in found] == [True, False, True]

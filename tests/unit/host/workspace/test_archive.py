"""The tar subset of backups: read by every tar, and read here only if it was written here."""

import io
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.base.errors import ArtifactRejected
from threegate.host.workspace.archive import ArchiveReader, ArchiveWriter, header_of

LONG = f"a/b-{'0' * 60}/c-{'1' * 64}.uses.json"  # more than the name field of a header holds
FILES = {"manifest.json": b"{}", "a/b/c/d-1.md": b"x" * 512, "empty": b"", "e/f_g.sig": b"y" * 513}
FILES[LONG] = b"z"


def written(files: dict[str, bytes] | None = None) -> bytes:
    file = io.BytesIO()
    writer = ArchiveWriter(file)
    for name, data in (FILES if files is None else files).items():
        writer.add(name, data)
    writer.end()
    return file.getvalue()


def read(data: bytes, names: list[str] | None = None, max_bytes: int = 1000) -> dict[str, bytes]:
    reader = ArchiveReader(io.BytesIO(data))
    found = {name: reader.next(name, max_bytes=max_bytes) for name in names or list(FILES)}
    reader.end()
    return found


def test_round_trip() -> None:
    assert read(written()) == FILES


def test_other_programs_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    path.write_bytes(written())
    with tarfile.open(path) as tar:
        assert all(member.isreg() and member.mode == 0o600 for member in tar.getmembers())
        for name, data in FILES.items():
            file = tar.extractfile(name)
            assert file is not None
            assert file.read() == data
    listed = subprocess.run(
        ["tar", "tf", str(path)], capture_output=True, check=True, timeout=30, text=True
    )
    assert listed.stdout.split() == [*FILES, "sha256"]
    assert listed.stderr == ""


def test_every_single_bit_counts() -> None:
    data = written({"a": b"ab"})
    assert read(data, ["a"]) == {"a": b"ab"}, "control: unchanged it is read"
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 1 << position % 8
        with pytest.raises(ArtifactRejected) as caught:
            read(bytes(damaged), ["a"])
        assert caught.value.code == "TG-BAK-001"


def test_cut_anywhere_or_longer_is_refused() -> None:
    data = written({"a": b"ab"})
    for length in range(len(data)):
        with pytest.raises(ArtifactRejected):
            read(data[:length], ["a"])
    with pytest.raises(ArtifactRejected, match="after the last file"):
        read(data + b"\0", ["a"])


@given(st.binary(max_size=2000))
def test_any_bytes_are_read_or_rejected(data: bytes) -> None:
    try:
        read(data, ["a"])
    except ArtifactRejected as exc:
        assert exc.code == "TG-BAK-001"


def foreign(change: Callable[[tarfile.TarInfo], None], tar_format: int) -> bytes:
    """Return what another program writes for the same file."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tar_format) as tar:
        member = tarfile.TarInfo("a")
        member.size, member.mode, member.mtime = 2, 0o600, 946_684_800
        change(member)
        tar.addfile(member, io.BytesIO(b"ab"))
    return file.getvalue()


def as_link(member: tarfile.TarInfo) -> None:
    member.type, member.linkname, member.size = tarfile.SYMTYPE, "/etc/passwd", 0


def as_hard_link(member: tarfile.TarInfo) -> None:
    member.type, member.linkname, member.size = tarfile.LNKTYPE, "/etc/passwd", 0


def as_device(member: tarfile.TarInfo) -> None:
    member.type, member.size = tarfile.CHRTYPE, 0


def as_fifo(member: tarfile.TarInfo) -> None:
    member.type, member.size = tarfile.FIFOTYPE, 0


def as_directory(member: tarfile.TarInfo) -> None:
    member.type, member.size = tarfile.DIRTYPE, 0


def as_sparse(member: tarfile.TarInfo) -> None:
    member.type = tarfile.GNUTYPE_SPARSE


def upwards(member: tarfile.TarInfo) -> None:
    member.name = "../a"


def absolute(member: tarfile.TarInfo) -> None:
    member.name = "/a"


def long_name(member: tarfile.TarInfo) -> None:
    member.name = "a" * 300


def extended(member: tarfile.TarInfo) -> None:
    member.pax_headers = {"path": "a", "comment": "b"}


def owned(member: tarfile.TarInfo) -> None:
    member.uname = "root"


def executable(member: tarfile.TarInfo) -> None:
    member.mode = 0o755


@pytest.mark.parametrize(
    "tar_format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]
)
@pytest.mark.parametrize(
    "change",
    [
        as_link,
        as_hard_link,
        as_device,
        as_fifo,
        as_directory,
        as_sparse,
        upwards,
        absolute,
        long_name,
        extended,
        owned,
        executable,
    ],
)
def test_anything_but_our_plain_file_is_refused(
    change: Callable[[tarfile.TarInfo], None], tar_format: int
) -> None:
    if change is long_name and tar_format == tarfile.USTAR_FORMAT:
        tar_format = tarfile.GNU_FORMAT  # ustar has no spelling for it
    with pytest.raises(ArtifactRejected) as caught:
        read(foreign(change, tar_format), ["a"])
    assert caught.value.code == "TG-BAK-001"


def test_the_same_file_by_another_program_has_our_header() -> None:
    # control for the test above: it is the change that is refused
    assert foreign(lambda _: None, tarfile.USTAR_FORMAT)[:512] == header_of("a", 2)


def test_other_name_order_or_size_is_refused() -> None:
    data = written({"a": b"ab", "b": b"cd"})
    assert read(data, ["a", "b"]), "control"
    for names in (["b", "a"], ["a"], ["a", "b", "c"], ["a", "a"]):
        with pytest.raises(ArtifactRejected):
            read(data, names)
    with pytest.raises(ArtifactRejected, match="2 bytes, 1 are expected"):
        read(data, ["a", "b"], max_bytes=1)


def test_foreign_name_in_a_message_is_visible() -> None:
    block = b"\x1b[2J\x1b[31mevil".ljust(512, b"\0")
    with pytest.raises(ArtifactRejected) as caught:
        read(block, ["a"])
    assert "\x1b" not in caught.value.message
    assert "evil" in caught.value.message

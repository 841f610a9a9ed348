"""An image on its way to another machine: whole and intact, or refused."""

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.images import kept, manifest_of
from threegate.base.errors import ArtifactRejected, GateUnavailable, UsageError
from threegate.host.images.store import LOCK, Images
from threegate.host.images.transfer import bring, export
from threegate.host.workspace.archive import ArchiveWriter


@pytest.fixture
def exported(tmp_path: Path) -> tuple[str, bytes]:
    """Return the digest of an image and the bytes of its file."""
    image = kept(tmp_path / "here")
    export(image, tmp_path / "image.tar")
    return image.digest, (tmp_path / "image.tar").read_bytes()


def test_an_image_arrives_as_it_left(tmp_path: Path, exported: tuple[str, bytes]) -> None:
    digest, data = exported
    there = Images(tmp_path / "there")
    seen: list[int] = []
    assert bring(io.BytesIO(data), there, expected=digest, told=seen.append).digest == digest
    image = there.find(digest, verify=True)
    assert sum(seen) == image.manifest.size
    export(image, tmp_path / "again.tar")
    assert (tmp_path / "again.tar").read_bytes() == data


@pytest.mark.parametrize("part", range(40))
# claim TG-C-223
def test_a_file_with_a_changed_byte_is_refused_and_leaves_nothing(
    part: int, tmp_path: Path, exported: tuple[str, bytes]
) -> None:
    digest, data = exported
    there = Images(tmp_path / "there")
    assert bring(io.BytesIO(data), Images(tmp_path / "control")).digest == digest, "control"
    # The first twenty fall into headers and manifest, the others anywhere.
    at = part * 97 if part < 20 else len(data) * (part - 20) // 20
    changed = bytearray(data)
    changed[at] ^= 0x10
    with pytest.raises(ArtifactRejected, match="the image is not usable"):
        bring(io.BytesIO(bytes(changed)), there)
    assert there.digests() == []
    assert not there.root.exists() or [path.name for path in there.root.iterdir()] == [LOCK]


# claim TG-C-223
def test_another_image_than_the_one_named_is_refused(
    tmp_path: Path, exported: tuple[str, bytes]
) -> None:
    digest, data = exported
    other = kept(tmp_path / "other", kernel=b"\x7fELF of somebody else")
    export(other, tmp_path / "other.tar")
    there = Images(tmp_path / "there")
    with (tmp_path / "other.tar").open("rb") as file:
        assert bring(file, Images(tmp_path / "control")).digest == other.digest, "control"
        file.seek(0)
        with pytest.raises(ArtifactRejected, match="not the one you named") as caught:
            bring(file, there, expected=digest)
    assert caught.value.code == "TG-IMG-013"
    assert there.digests() == []
    assert bring(io.BytesIO(data), there, expected=digest).digest == digest


def archive(*members: tuple[str, bytes]) -> io.BytesIO:
    out = io.BytesIO()
    writer = ArchiveWriter(out)
    for name, data in members:
        writer.add(name, data)
    writer.end()
    return io.BytesIO(out.getvalue())


def test_files_are_those_of_the_manifest_in_its_order_or_refused(tmp_path: Path) -> None:
    files = {"agent.erofs": b"a", "base.erofs": b"b", "initramfs": b"i", "kernel": b"k"}
    manifest = ("manifest.json", manifest_of(files).data)
    there = Images(tmp_path)
    bring(archive(manifest, *files.items()), there)  # control
    swapped = dict(reversed(files.items()))
    tries = {
        "order": [manifest, *swapped.items()],
        "one less": [manifest, *list(files.items())[:-1]],
        "one more": [manifest, *files.items(), ("evil", b"x")],
        "no manifest": list(files.items()),
        "longer": [manifest, *{**files, "kernel": b"kk"}.items()],
        "shorter": [manifest, *{**files, "kernel": b""}.items()],
        "other bytes": [manifest, *{**files, "kernel": b"K"}.items()],
    }
    for members in tries.values():
        with pytest.raises(ArtifactRejected, match="the image is not usable"):
            bring(archive(*members), Images(tmp_path / "other"))
    assert Images(tmp_path / "other").digests() == []


@given(st.binary(max_size=2000))
def test_any_bytes_are_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    with pytest.raises(ArtifactRejected):
        bring(io.BytesIO(data), Images(tmp_path_factory.mktemp("any")))


def test_a_damaged_image_is_not_exported_and_no_file_is_overwritten(tmp_path: Path) -> None:
    image, out = kept(tmp_path / "here"), tmp_path / "image.tar"
    export(image, out)
    with pytest.raises(UsageError, match="is already there"):
        export(image, out)
    image.initramfs.chmod(0o644)
    data = bytearray(image.initramfs.read_bytes())
    data[-1] ^= 1
    image.initramfs.write_bytes(data)
    with pytest.raises(GateUnavailable, match="initramfs has other bytes"):
        export(image, tmp_path / "second.tar")
    assert not (tmp_path / "second.tar").exists()

"""Images in the cache, and on their way to another machine: digests decide."""

import fcntl
import io
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.images import FILES, kept, manifest_of
from threegate.base.errors import ArtifactRejected, GateUnavailable, UsageError
from threegate.host.images.manifest import layer_file
from threegate.host.images.store import LOCK, MAKING, Images, export_image, import_image
from threegate.host.workspace.archive import ArchiveWriter


def test_an_image_is_found_by_its_digest_and_its_files_are_read_only(tmp_path: Path) -> None:
    made = kept(tmp_path)
    image = Images(tmp_path).find(made.digest, verify=True)
    assert image == made
    assert list(image.layers) == ["base", "agent"]
    assert image.layers["base"].read_bytes() == FILES[layer_file("base")]
    assert image.kernel.read_bytes().startswith(b"\x7fELF")
    modes = {stat.S_IMODE(path.stat().st_mode) for path in image.place.iterdir()}
    assert modes == {0o444}
    assert stat.S_IMODE(image.place.stat().st_mode) == 0o755  # a box of another uid binds it
    assert Images(tmp_path).digests() == [made.digest]


def test_keeping_the_same_image_again_changes_nothing(tmp_path: Path) -> None:
    first = kept(tmp_path)
    inode = first.kernel.stat().st_ino
    assert kept(tmp_path).kernel.stat().st_ino == inode
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([first.digest, LOCK])


@pytest.mark.parametrize("name", [*FILES, "manifest.json"])
# claim TG-C-223
def test_an_image_made_again_takes_the_place_of_a_damaged_one(name: str, tmp_path: Path) -> None:
    image, images = kept(tmp_path), Images(tmp_path)
    data = (image.place / name).read_bytes()
    _write(image.place / name, data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(GateUnavailable, match="has other bytes"):  # control
        images.find(image.digest, verify=True)
    assert kept(tmp_path) == image
    images.find(image.digest, verify=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([image.digest, LOCK])


def test_a_file_with_the_name_of_an_image_is_in_nobodys_way(tmp_path: Path) -> None:
    digest = kept(tmp_path / "elsewhere").digest
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / digest).write_bytes(b"no image")
    kept(tmp_path / "here")
    Images(tmp_path / "here").find(digest, verify=True)


def _write(path: Path, data: bytes) -> None:
    path.chmod(0o644)
    path.write_bytes(data)


def _replace(path: Path, target: Path) -> None:
    path.unlink()
    path.symlink_to(target)


@pytest.mark.parametrize("name", [*FILES, "manifest.json"])
# claim TG-C-223
def test_one_changed_byte_of_any_file_is_noticed(name: str, tmp_path: Path) -> None:
    image, images = kept(tmp_path), Images(tmp_path)
    images.find(image.digest, verify=True)  # control
    data = bytearray((image.place / name).read_bytes())
    data[len(data) // 2] ^= 1
    _write(image.place / name, bytes(data))
    with pytest.raises(GateUnavailable, match="has other bytes") as caught:
        images.find(image.digest, verify=True)
    assert caught.value.code == "TG-IMG-012"


@pytest.mark.parametrize("name", [*FILES, "manifest.json"])
def test_a_file_that_is_missing_cut_or_a_link_is_noticed_without_reading_it(
    name: str, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    for number, meddle in enumerate(("gone", "cut", "link")):
        images = Images(tmp_path / str(number))
        image = kept(images.root)
        path = image.place / name
        copy.write_bytes(path.read_bytes())
        if meddle == "gone":
            path.unlink()
        elif meddle == "cut":
            _write(path, path.read_bytes()[:-1])
        else:
            _replace(path, copy)  # the same bytes, and somebody else's file
        with pytest.raises(GateUnavailable, match="damaged"):
            images.find(image.digest)


@pytest.mark.parametrize("name", ["", ".", "..", "0" * 63, "A" * 64, "../" + "0" * 61, "0" * 64])
def test_what_is_no_digest_or_not_here_is_no_image(name: str, tmp_path: Path) -> None:
    kept(tmp_path)
    with pytest.raises(GateUnavailable, match="there is no image") as caught:
        Images(tmp_path).find(name)
    assert caught.value.code == "TG-IMG-011"


def test_the_start_of_a_digest_is_enough_for_people(tmp_path: Path) -> None:
    image, images = kept(tmp_path), Images(tmp_path)
    assert images.resolve(image.digest[:12]) == image.digest
    for text in (image.digest[:11], "0" * 12, ""):
        with pytest.raises(UsageError):
            images.resolve(text)


def test_an_image_that_is_removed_is_gone_whole(tmp_path: Path) -> None:
    image, images = kept(tmp_path), Images(tmp_path)
    other = kept(tmp_path, kernel=b"\x7fELF another")
    assert images.remove(image.digest) > image.manifest.size
    assert images.digests() == [other.digest]
    assert images.remove(image.digest) == 0


def test_what_was_left_in_mid_work_is_removed_and_one_waits_for_the_other(tmp_path: Path) -> None:
    images = Images(tmp_path)
    left = tmp_path / f"{MAKING}left"
    (left / "made").mkdir(parents=True)
    waited: list[str] = []
    with images.making() as work:
        assert not left.exists()
        assert work.is_dir()
        with (tmp_path / LOCK).open("w") as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    held = (tmp_path / LOCK).open("w")
    fcntl.flock(held, fcntl.LOCK_EX)

    def wait() -> None:
        waited.append("waited")
        held.close()  # the other one is done

    with images.making(wait=wait):
        assert waited == ["waited"]
    assert [path.name for path in tmp_path.iterdir()] == [LOCK]


def test_a_cache_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert Images(tmp_path / "none").digests() == []
    assert not os.path.exists(tmp_path / "none")


@pytest.fixture
def exported(tmp_path: Path) -> tuple[str, bytes]:
    """Return the digest of an image and the bytes of its file."""
    image = kept(tmp_path / "here")
    export_image(image, tmp_path / "image.tar")
    return image.digest, (tmp_path / "image.tar").read_bytes()


def test_an_image_arrives_as_it_left(tmp_path: Path, exported: tuple[str, bytes]) -> None:
    digest, data = exported
    there = Images(tmp_path / "there")
    seen: list[int] = []
    assert (
        import_image(io.BytesIO(data), there, expected=digest, progress=seen.append).digest
        == digest
    )
    image = there.find(digest, verify=True)
    assert sum(seen) == image.manifest.size
    export_image(image, tmp_path / "again.tar")
    assert (tmp_path / "again.tar").read_bytes() == data


@pytest.mark.parametrize("part", range(40))
# claim TG-C-223
def test_a_file_with_a_changed_byte_is_refused_and_leaves_nothing(
    part: int, tmp_path: Path, exported: tuple[str, bytes]
) -> None:
    digest, data = exported
    there = Images(tmp_path / "there")
    assert import_image(io.BytesIO(data), Images(tmp_path / "control")).digest == digest, "control"
    # The first twenty fall into headers and manifest, the others anywhere.
    at = part * 97 if part < 20 else len(data) * (part - 20) // 20
    changed = bytearray(data)
    changed[at] ^= 0x10
    with pytest.raises(ArtifactRejected, match="the image is not usable"):
        import_image(io.BytesIO(bytes(changed)), there)
    assert there.digests() == []
    assert not there.root.exists() or [path.name for path in there.root.iterdir()] == [LOCK]


# claim TG-C-223
def test_another_image_than_the_one_named_is_refused(
    tmp_path: Path, exported: tuple[str, bytes]
) -> None:
    digest, data = exported
    other = kept(tmp_path / "other", kernel=b"\x7fELF of somebody else")
    export_image(other, tmp_path / "other.tar")
    there = Images(tmp_path / "there")
    with (tmp_path / "other.tar").open("rb") as file:
        assert import_image(file, Images(tmp_path / "control")).digest == other.digest, "control"
        file.seek(0)
        with pytest.raises(ArtifactRejected, match="not the one you named") as caught:
            import_image(file, there, expected=digest)
    assert caught.value.code == "TG-IMG-013"
    assert there.digests() == []
    assert import_image(io.BytesIO(data), there, expected=digest).digest == digest


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
    import_image(archive(manifest, *files.items()), there)  # control
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
            import_image(archive(*members), Images(tmp_path / "other"))
    assert Images(tmp_path / "other").digests() == []


@given(st.binary(max_size=2000))
def test_any_bytes_are_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    with pytest.raises(ArtifactRejected):
        import_image(io.BytesIO(data), Images(tmp_path_factory.mktemp("any")))


def test_a_damaged_image_is_not_exported_and_no_file_is_overwritten(tmp_path: Path) -> None:
    image, out = kept(tmp_path / "here"), tmp_path / "image.tar"
    export_image(image, out)
    with pytest.raises(UsageError, match="is already there"):
        export_image(image, out)
    image.initramfs.chmod(0o644)
    data = bytearray(image.initramfs.read_bytes())
    data[-1] ^= 1
    image.initramfs.write_bytes(data)
    with pytest.raises(GateUnavailable, match="initramfs has other bytes"):
        export_image(image, tmp_path / "second.tar")
    assert not (tmp_path / "second.tar").exists()

"""Images in the cache: found by digest, whole or not at all, and what was changed is noticed."""

import fcntl
import os
import stat
from pathlib import Path

import pytest

from tests.support.images import FILES, kept
from threegate.base.errors import GateUnavailable, UsageError
from threegate.host.images.manifest import layer_file
from threegate.host.images.store import LOCK, MAKING, Images


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

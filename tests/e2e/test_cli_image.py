"""`threegate image` as a user calls it, with a cache of its own."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.cli import Cli
from tests.support.guests import AGENT, SECONDS, copied_packages
from tests.support.images import kept
from threegate.host.images.lock import SHIPPED, Lock, parse_lock
from threegate.host.images.recipe import LAYERS


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path, seconds=SECONDS)  # one of them builds


def images(tmp_path: Path) -> Path:
    return tmp_path / ".cache/threegate/images"


def test_images_are_listed_compared_and_removed(cli: Cli, tmp_path: Path) -> None:
    assert cli("image", "list").out == "none; `threegate image build` makes one\n"
    image = kept(images(tmp_path))
    assert image.digest in cli("image", "list").out
    (listed,) = cli("image", "list", "--json").json["images"]
    assert listed == {
        "digest": image.digest,
        "bytes": image.manifest.size,
        "kernel_version": "6.1.0-1-cloud-amd64",
        "layers": ["base", "agent"],
        "lock_sha256": "0" * 64,
        "agent_sha256": "1" * 64,
    }
    assert cli("image", "verify", image.digest[:12]).out == f"{image.digest}  intact\n"
    removed = cli("image", "remove", image.digest[:12])
    assert removed.out == f"{image.digest}  3 MB removed\n"
    refused = cli("image", "remove", image.digest[:12], code=2)
    assert "not the digest of one image here" in refused.err
    assert not image.place.exists()


def test_a_damaged_image_ends_with_69_and_the_others_are_compared_all_the_same(
    cli: Cli, tmp_path: Path
) -> None:
    good = kept(images(tmp_path), kernel=b"\x7fELF another")
    bad = kept(images(tmp_path))
    assert cli("image", "verify").out.count("intact") == 2, "control"
    bad.kernel.chmod(0o644)
    bad.kernel.write_bytes(b"\x7fELF kernem")
    told = cli("image", "verify", "--json", code=os.EX_UNAVAILABLE)
    states = {item["digest"]: item["state"] for item in told.json["images"]}
    assert states[good.digest] == "intact"
    assert "kernel has other bytes" in states[bad.digest]
    assert "[TG-IMG-012]" in told.err
    bad.kernel.unlink()
    assert "damaged" in cli("image", "list").out


# claim TG-C-223
def test_an_image_travels_and_a_changed_one_is_refused(tmp_path: Path) -> None:
    image = kept(tmp_path / "a/.cache/threegate/images")
    (tmp_path / "b").mkdir()
    here, there = Cli(tmp_path / "a"), Cli(tmp_path / "b")
    file = tmp_path / "image.tar"
    here("image", "export", image.digest[:12], file)
    again = here("image", "export", image.digest[:12], file, code=2)
    assert "is already there" in again.err
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "changed.tar").write_bytes(data)
    refused = there("image", "import", tmp_path / "changed.tar", "--yes", code=os.EX_DATAERR)
    assert "initramfs is not the file its manifest names [TG-IMG-010]" in refused.err
    other = there("image", "import", file, "--digest", "0" * 64, code=os.EX_DATAERR)
    assert "[TG-IMG-013]" in other.err
    assert there("image", "list", "--json").json["images"] == []
    brought = there("image", "import", file, "--digest", image.digest)
    assert brought.out.startswith(f"{image.digest}  3 MB, layers base agent")
    assert there("image", "verify").out == f"{image.digest}  intact\n"
    missing = there("image", "import", tmp_path / "none.tar", code=2)
    assert "cannot read" in missing.err


# claim TG-C-229
def test_an_image_nobody_named_is_kept_only_if_a_person_takes_it(tmp_path: Path) -> None:
    image = kept(tmp_path / "a/.cache/threegate/images")
    (tmp_path / "b").mkdir()
    file, there = tmp_path / "image.tar", Cli(tmp_path / "b")
    Cli(tmp_path / "a")("image", "export", image.digest, file)
    alone = there("image", "import", file, code=os.EX_TEMPFAIL)
    assert f"whether the image {image.digest} is the right one" in alone.err
    assert "--digest DIGEST if you got it by another way" in alone.err
    asked = there.in_terminal("image", "import", str(file), typed=b"n\n", code=os.EX_NOPERM)
    assert f"the file holds the image {image.digest}; take it? [y/N]".encode() in asked
    assert there("image", "list", "--json").json["images"] == [], "nothing was kept"
    taken = there("image", "import", file, "--yes")
    assert f"nobody named the image {image.digest}; it is taken as it is" in taken.err
    there("image", "remove", image.digest)
    assert image.digest.encode() in there.in_terminal("image", "import", str(file), typed=b"y\n")
    assert there("image", "verify").out == f"{image.digest}  intact\n"


def test_the_lock_is_shown_and_a_new_one_is_what_apt_offers(cli: Cli, tmp_path: Path) -> None:
    shown = cli("image", "lock", "--json").json
    assert shown["file"] == str(SHIPPED)
    assert {item["name"] for item in shown["packages"]} > set(LAYERS["base"])
    updated = cli("image", "lock", "--update", "--json").json
    own = tmp_path / ".config/threegate/image.lock"
    assert updated["file"] == str(own)
    lock = parse_lock(own.read_bytes())
    assert lock.digest == updated["digest"]
    assert [p.name for p in lock.of_layer("science")] == sorted(LAYERS["science"])
    assert cli("image", "lock", "--json").json["file"] == str(own)
    assert cli("image", "lock", "--update", "--to", "other.lock").out.endswith("other.lock\n")
    assert (tmp_path / "other.lock").read_bytes() == own.read_bytes()
    assert "add --update" in cli("image", "lock", "--to", "x", code=2).err


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the program whose guest agent is the one of the tests."""
    place = tmp_path_factory.mktemp("program")
    source = SHIPPED.parents[2]
    shutil.copytree(source, place / "threegate", ignore=shutil.ignore_patterns("__pycache__"))
    guest = place / "threegate/gates/tool_exec/era/guest"
    shutil.rmtree(guest, ignore_errors=True)
    shutil.copytree(AGENT, guest)
    return place


def own(cli: Cli, program: Path, patch: str = "") -> Cli:
    """Return the command of that copy of the program."""
    return cli.patched(f"import sys\nsys.path.insert(0, {str(program)!r})\n{patch}")


def test_an_image_is_built_from_the_lock_and_said_to_be(
    cli: Cli, program: Path, tmp_path: Path
) -> None:
    copied_packages(tmp_path / ".cache/threegate/debs", "base")
    built = own(cli, program)("image", "build", "--layer", "base", "--json")
    assert built.json["layers"] == ["base", "agent"]
    assert built.json["lock_sha256"] == parse_lock(SHIPPED.read_bytes()).digest
    assert "threegate: making the layer base\n" in built.err
    assert cli("image", "verify").out == f"{built.json['digest']}  intact\n"
    left = [path.name for path in images(tmp_path).iterdir()]
    assert sorted(left) == sorted([built.json["digest"], "lock"])


def test_a_version_that_vanished_is_named_and_nothing_is_left(
    cli: Cli, program: Path, tmp_path: Path
) -> None:
    old = [
        replace(item, version="0.1-1", sha256="0" * 64) if item.name == "libc6" else item
        for item in parse_lock(SHIPPED.read_bytes()).packages
    ]
    (tmp_path / "old.lock").write_text(Lock.of(old).text, "ascii")
    argv = ("image", "build", "--layer", "base", "--lock", "old.lock")
    refused = own(cli, program)(*argv, code=os.EX_UNAVAILABLE)
    assert "libc6 0.1-1 is no longer offered: apt offers" in refused.err
    assert "`threegate image lock --update`" in refused.err
    assert "[TG-IMG-021]" in refused.err
    assert not images(tmp_path).exists()


def test_without_apt_the_way_to_an_image_is_said(cli: Cli, program: Path, tmp_path: Path) -> None:
    nothing = f"from threegate.sandbox import programs\nprograms.SEARCH = ({str(tmp_path)!r},)\n"
    refused = own(cli, program, nothing)("image", "build", code=os.EX_UNAVAILABLE)
    assert "there is no apt-cache here" in refused.err
    assert "`threegate image export`" in refused.err

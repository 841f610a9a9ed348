"""Packages count by the lock's digest, and a version that is no longer offered is named."""

from pathlib import Path

import pytest

from tests.support.images import ShelfApt, deb, locked, member
from threegate.base.errors import GateUnavailable
from threegate.host.images.packages import Apt, Packages, resolve
from threegate.host.images.recipe import KERNEL_NAMED_BY, LAYERS

GOOD = deb(member("./usr/a", b"good"))
EVIL = deb(member("./usr/a", b"evil"))


# claim TG-C-220
def test_a_package_of_another_digest_is_never_kept_or_opened(tmp_path: Path) -> None:
    wanted = locked("libgood", GOOD)
    honest = Packages(tmp_path / "honest", ShelfApt(shelf={"libgood": ("1.0-1", GOOD)}))
    honest.bring([wanted])
    assert honest.path(wanted).read_bytes() == GOOD, "control: the locked one is kept"
    lying = Packages(tmp_path / "lying", ShelfApt(shelf={"libgood": ("1.0-1", EVIL)}))
    with pytest.raises(GateUnavailable, match="does not have the locked digest") as caught:
        lying.bring([wanted])
    assert caught.value.code == "TG-IMG-023"
    assert list(lying.root.iterdir()) == []


def test_what_is_here_is_not_asked_for_again_and_what_was_changed_is(tmp_path: Path) -> None:
    wanted, apt = locked("libgood", GOOD), ShelfApt(shelf={"libgood": ("1.0-1", GOOD)})
    packages = Packages(tmp_path, apt)
    seen: list[int] = []
    packages.bring([wanted], seen.append)
    packages.bring([wanted], seen.append)
    assert apt.asked == ["libgood"]
    assert seen == [len(GOOD)] * 2, "progress counts what was here"
    packages.path(wanted).write_bytes(EVIL)
    packages.bring([wanted])
    assert apt.asked == ["libgood"] * 2
    assert packages.path(wanted).read_bytes() == GOOD


def test_a_locked_version_that_vanished_is_named_with_what_to_do(tmp_path: Path) -> None:
    apt = ShelfApt(shelf={"libgood": ("2.0-1", EVIL)})
    wanted = [locked("libgood", GOOD), locked("libgone", GOOD)]
    with pytest.raises(GateUnavailable) as caught:
        Packages(tmp_path, apt).bring(wanted)
    message = "libgood 1.0-1 is no longer offered: apt offers 2.0-1 now, and 1 more"
    assert caught.value.message == message
    assert "threegate image lock --update" in caught.value.hint
    assert apt.asked == [], "nothing is downloaded when something is missing"
    with pytest.raises(GateUnavailable, match="apt does not know the package"):
        Packages(tmp_path, apt).bring(wanted[1:])


def whole_shelf() -> dict[str, tuple[str, bytes]]:
    names = [name for packages in LAYERS.values() for name in packages]
    kernel = "linux-image-6.1.0-9-cloud-amd64"
    return dict.fromkeys((*names, KERNEL_NAMED_BY, kernel), ("1:2.3~4-5+b1", GOOD))


def test_a_lock_is_made_of_what_apt_offers_now() -> None:
    kernel = "linux-image-6.1.0-9-cloud-amd64"
    apt = ShelfApt(shelf=whole_shelf(), depends={KERNEL_NAMED_BY: f"{kernel} (= 6.1.9-1)"})
    lock = resolve(apt)
    assert [item.name for item in lock.of_layer("kernel")] == [kernel]
    assert len(lock.packages) == 1 + sum(map(len, LAYERS.values()))
    less = {name: item for name, item in whole_shelf().items() if name != "libc6"}
    with pytest.raises(GateUnavailable, match="apt does not offer libc6 for amd64"):
        resolve(ShelfApt(shelf=less, depends=apt.depends))
    with pytest.raises(GateUnavailable, match=f"does not offer {KERNEL_NAMED_BY}"):
        resolve(ShelfApt())


def test_a_machine_without_apt_is_told_how_to_get_an_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threegate.sandbox.programs.SEARCH", (str(tmp_path),))
    with pytest.raises(GateUnavailable, match="no apt-cache here") as caught:
        Apt({}).records(["libc6"])
    assert "threegate image export" in caught.value.hint


@pytest.mark.parametrize("said", ["E: something broke\n", "first\nE: something broke\n"])
def test_what_apt_says_is_passed_on_cut_and_spelled_out(
    tmp_path: Path, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threegate.sandbox.programs.SEARCH", (str(tmp_path),))
    program = tmp_path / "apt-get"
    program.write_text(f"#!/bin/sh\nprintf '%s' '{said}\x1b[2J' >&2\nexit 100\n", "utf-8")
    program.chmod(0o755)
    with pytest.raises(GateUnavailable, match="something broke") as caught:
        Apt({}).download([locked("a", GOOD)], tmp_path)
    assert "\x1b" not in caught.value.message
    assert caught.value.code == "TG-IMG-022"

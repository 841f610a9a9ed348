"""The lock: one spelling, and a reason for every other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threegate.base.errors import ArtifactRejected
from threegate.host.images.lock import (
    HEAD,
    MAX_LOCK_BYTES,
    SHIPPED,
    Lock,
    Package,
    differences,
    parse_lock,
)
from threegate.host.images.recipe import KERNEL, LAYERS

KERNEL_LINE = f"kernel linux-image-6.1.0-1-cloud-amd64 6.1.1-1 amd64 10 {'a' * 64}"
BASE_LINE = f"base libc6 2.36-9+deb12u1 amd64 2759320 {'b' * 64}"


def text(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in (HEAD, *lines)).encode()


def test_a_lock_is_read_and_spelled_alike() -> None:
    lock = parse_lock(text(BASE_LINE, KERNEL_LINE))
    assert lock.text.encode() == text(BASE_LINE, KERNEL_LINE)
    libc = Package("base", "libc6", "2.36-9+deb12u1", "amd64", 2759320, "b" * 64)
    assert lock.of_layer("base") == (libc,)
    assert Lock.of(reversed(lock.packages)) == lock


REJECTED = {
    b"": "does not start with",
    text(BASE_LINE, KERNEL_LINE)[:-1]: "its last line is not whole",
    text(BASE_LINE): "must name one kernel",
    text(KERNEL_LINE, BASE_LINE): "not sorted",
    text(BASE_LINE, BASE_LINE.replace("2.36", "2.37"), KERNEL_LINE): "it names libc6 twice",
    text(KERNEL_LINE, BASE_LINE.replace("base", "other", 1)): "names an unknown layer",
    text(BASE_LINE.replace(" ", "  ", 1), KERNEL_LINE): "line 2 does not describe a package",
    text(BASE_LINE + " ", KERNEL_LINE): "line 2 does not describe a package",
    text(BASE_LINE.replace("libc6", "--option"), KERNEL_LINE): "line 2 does not describe a package",
    text(BASE_LINE.replace("libc6", "../libc6"), KERNEL_LINE): "line 2 does not describe a package",
    text(BASE_LINE.replace("amd64", "arm64"), KERNEL_LINE): "line 2 does not describe a package",
    text(BASE_LINE.replace("2759320", "0"), KERNEL_LINE): "line 2 does not describe a package",
    text(BASE_LINE.replace("2759320", "9999999999"), KERNEL_LINE): "at most",
    text(BASE_LINE.upper(), KERNEL_LINE): "line 2 does not describe a package",
    text("bäse", KERNEL_LINE): "not plain ASCII",
    b"x" * (MAX_LOCK_BYTES + 1): "limit",
}


@pytest.mark.parametrize("data", REJECTED)
def test_what_is_not_exactly_a_lock_is_refused(data: bytes) -> None:
    parse_lock(text(BASE_LINE, KERNEL_LINE))  # control
    with pytest.raises(ArtifactRejected, match=REJECTED[data]) as caught:
        parse_lock(data)
    assert caught.value.code == "TG-IMG-001"


@given(st.binary() | st.text().map(str.encode).map(lambda data: HEAD.encode() + b"\n" + data))
def test_any_bytes_are_a_lock_or_refused(data: bytes) -> None:
    try:
        lock = parse_lock(data)
    except ArtifactRejected:
        return
    assert lock.text.encode() == data


def test_the_shipped_lock_has_every_package_of_the_recipe_and_no_other() -> None:
    lock = parse_lock(SHIPPED.read_bytes())
    for layer, names in LAYERS.items():
        assert sorted(p.name for p in lock.of_layer(layer)) == sorted(names)
    (kernel,) = lock.of_layer(KERNEL)
    assert kernel.name.endswith("-cloud-amd64")
    assert "://" not in lock.text


def test_differences_name_what_changed_came_and_went() -> None:
    old = parse_lock(text(BASE_LINE, KERNEL_LINE))
    newer = BASE_LINE.replace("deb12u1", "deb12u2")
    new = parse_lock(text(newer, BASE_LINE.replace("libc6", "zlib1g"), KERNEL_LINE))
    assert differences(old, old) == []
    assert differences(old, new) == [
        ("libc6", "2.36-9+deb12u1", "2.36-9+deb12u2"),
        ("zlib1g", "-", "2.36-9+deb12u1"),
    ]

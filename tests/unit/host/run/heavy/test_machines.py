"""A machine whose files are not to be had: one clear error, and nothing is started."""

import errno
import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.images import kept
from tests.support.policies import policy
from threegate.base import canonical
from threegate.base.errors import StorageFailed
from threegate.gates.tool_exec.era import guest_messages as guest
from threegate.gates.tool_exec.era.messages import Prepare
from threegate.host.run.heavy import channels, machines
from threegate.host.run.heavy.engine import EMULATION, Qemu, Shape
from threegate.host.run.heavy.lane import NOTHING
from threegate.host.run.heavy.machines import Parts, Place, Use, converse
from threegate.sandbox.machine import find_machine

USE = Use(lambda ends, _: Prepare(ends, (), NOTHING, 1), 1)


def talk(tmp_path: Path) -> None:
    image = kept(tmp_path / "images")
    parts = Parts(Qemu(), image.kernel, image.initramfs, (*image.layers.values(),), tmp_path)
    converse(
        Place(find_machine(), policy().bundle()), parts, Shape(EMULATION, 1, 128), USE, tsc_khz=1
    )


class Started(Exception):
    """The engine would be started now."""


@pytest.fixture(autouse=True)
def _no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*_: object, **__: object) -> None:
        raise Started

    monkeypatch.setattr(machines, "Companion", started)


# claim TG-C-320
def test_every_clone_is_greeted_with_a_nonce_and_entropy_of_its_own() -> None:
    seen: list[tuple[str, str]] = []
    for _ in range(2):
        with ExitStack() as stack:
            ours, theirs = channels.pair(stack, stack)
            nonce = channels.greet_guest(ours)
            said = os.read(theirs, 65536)
        kind, length = guest.HEADER.unpack(said[: guest.HEADER.size])
        told = canonical.decode(said[guest.HEADER.size :])
        assert (kind, length) == (guest.HELLO, len(said) - guest.HEADER.size)
        assert told["nonce"] == nonce
        seen.append((nonce, told["entropy"]))
    (one, other) = zip(*seen, strict=True)
    assert len({*one}) == len({*other}) == 2
    assert {len(bytes.fromhex(entropy)) for entropy in other} == {64}


def test_an_image_that_somebody_removed_is_a_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Started):  # control
        talk(tmp_path)

    def gone(stack: ExitStack, path: Path) -> int:
        del stack
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))

    monkeypatch.setattr(channels, "read_only", gone)
    with pytest.raises(StorageFailed, match="cannot open the image: No such file"):
        talk(tmp_path)


def test_a_cache_without_nameless_files_is_a_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = os.open

    def refuses(path: object, flags: int, *more: int) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")
        return opened(path, flags, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", refuses)
    words = "cannot make a disk without a name in the cache: Operation not supported"
    with pytest.raises(StorageFailed, match=words):
        talk(tmp_path)

"""QEMU: a snapshot counts when a clone has answered; the command line is reviewed data."""

import errno
import os
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.images import kept
from tests.support.policies import policy
from threegate.base import canonical
from threegate.base.errors import GateUnavailable, StorageFailed
from threegate.base.untrusted import Untrusted
from threegate.gates.tool_exec.era import guest_messages as guest
from threegate.gates.tool_exec.era.messages import (
    Channels,
    GuestFailed,
    GuestPrepared,
    Prepare,
    Probe,
    Probed,
)
from threegate.host.images.store import Images
from threegate.host.run.heavy import backend, channels, qemu
from threegate.host.run.heavy.backend import (
    EMULATION,
    KVM,
    NOT_USABLE,
    Conversation,
    EnginePlace,
    Use,
    Want,
)
from threegate.host.run.heavy.lane import NOTHING
from threegate.host.run.heavy.qemu import (
    Handed,
    MachineShape,
    Parts,
    Qemu,
    QemuBackend,
    command,
    converse,
)
from threegate.sandbox import machine
from threegate.sandbox.launch import Evidence
from threegate.sandbox.machine import find_machine
from threegate.sandbox.supervise import Ended

PLACE = EnginePlace(find_machine(), policy().bundle())
WANT = Want(1, 128, ("base", "agent"), (), NOTHING)
DONE = Ended("done", 0, True, 1, 1, 1, 1, Untrusted(b""))
PROOF = Evidence("tool-heavy", "0" * 64, "0" * 64, "6.1", 4, mdwe=True, own_uid=False, proofs=())
USE = Use(lambda ends, _: Prepare(ends, (), NOTHING, 1), 1)


@dataclass
class Engines:
    """Stands in for both boxes: boots write a number each, clones of the mute ones fail."""

    mute: set[bytes] = field(default_factory=set)
    booted: int = 0
    probed: list[bytes] = field(default_factory=list)

    def converse(
        self, _: EnginePlace, __: object, ___: object, use: Use, **____: int
    ) -> Conversation:
        asked = use.ask(Channels(10, 11), 0)
        if isinstance(asked, Prepare):
            assert use.snapshot_to is not None
            self.booted += 1
            os.write(use.snapshot_to, b"%d" % self.booted)
            return Conversation(GuestPrepared(()).to_bytes(), DONE, DONE, (PROOF, PROOF))
        assert isinstance(asked, Probe)
        assert use.snapshot is not None
        state = os.pread(use.snapshot, 10, 0)
        self.probed.append(state)
        answer = GuestFailed("no answer") if state in self.mute else Probed(("guest-cpus",))
        return Conversation(answer.to_bytes(), DONE, DONE, (PROOF, PROOF))


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> Engines:
    found = Engines()
    monkeypatch.setattr(qemu, "converse", found.converse)
    monkeypatch.setattr(qemu, "tsc_khz", lambda: 1)
    return found


def opened(tmp_path: Path) -> QemuBackend:
    """Return what a new command has: it knows of the cache only."""
    image = kept(tmp_path / "images")
    return QemuBackend(EMULATION, place=PLACE, qemu=Qemu(), image=image, cache=tmp_path / "cache")


def found(tmp_path: Path, digest: str) -> QemuBackend:
    """Return the same with the image that is there, whatever became of it."""
    image = Images(tmp_path / "images").find(digest)
    return QemuBackend(EMULATION, place=PLACE, qemu=Qemu(), image=image, cache=tmp_path / "cache")


def of_another_boot(tmp_path: Path) -> None:
    """Have the machine booted again: what was probed before says nothing."""
    for note in (tmp_path / "cache" / "templates").glob("*/probed-*"):
        note.unlink()


# claim TG-C-240
def test_an_image_with_one_changed_byte_starts_no_guest(tmp_path: Path, engines: Engines) -> None:
    ready = opened(tmp_path)
    ready.prepare(WANT)
    assert engines.booted == 1, "control: it boots as it is"
    layer = ready.image.layers["base"]
    layer.chmod(0o644)
    layer.write_bytes(b"evil" * 1024)  # of the same size, which is all that is looked at else
    found(tmp_path, ready.image.digest).prepare(WANT)
    assert engines.probed == [b"1"], "compared and proved since the last boot: not read again"
    of_another_boot(tmp_path)
    for want in (WANT, Want(1, 256, ("base", "agent"), (), NOTHING)):
        with pytest.raises(GateUnavailable, match=r"base.erofs has other bytes") as caught:
            found(tmp_path, ready.image.digest).prepare(want)
        assert caught.value.code == "TG-IMG-012"
    assert (engines.booted, engines.probed) == (1, [b"1"]), "nothing was started from it"


def test_another_processor_has_another_snapshot(
    tmp_path: Path, engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(tmp_path).prepare(WANT)
    opened(tmp_path).prepare(WANT)
    assert engines.booted == 1, "control: here one is enough"
    with monkeypatch.context() as patched:
        patched.setattr(qemu, "tsc_khz", lambda: 2_900_000)
        opened(tmp_path).prepare(WANT)
    assert engines.booted == 2, "another rate of its clock"
    info = tmp_path / "cpuinfo"
    info.write_text("vendor_id : Other\nflags : a b\n\nvendor_id : ...\n", "utf-8")
    monkeypatch.setattr(machine, "_CPUINFO", info)
    opened(tmp_path).prepare(WANT)
    assert engines.booted == 3, "another model"
    info.write_text("vendor_id : Other\nflags : b a\n\n", "utf-8")
    opened(tmp_path).prepare(WANT)
    assert engines.booted == 3, "in another order it is the same"


# claim TG-C-230
def test_a_kept_snapshot_that_does_not_answer_is_made_anew_once(
    tmp_path: Path, engines: Engines
) -> None:
    opened(tmp_path).prepare(WANT)
    of_another_boot(tmp_path)
    opened(tmp_path).prepare(WANT)
    assert (engines.booted, engines.probed) == (1, [b"1", b"1"]), "control: one is kept"
    of_another_boot(tmp_path)
    engines.mute.add(b"1")  # it is intact, and no clone of it wakes up
    said: list[str] = []
    opened(tmp_path).prepare(WANT, said.append)
    assert (engines.booted, engines.probed[2:]) == (2, [b"1", b"2"])
    assert [text.partition(" (")[0] for text in said] == [
        "the kept snapshot does not answer",
        "booting a guest of 128 MiB for a snapshot, once",
    ]
    opened(tmp_path).prepare(WANT)
    assert (engines.booted, len(engines.probed)) == (2, 4), "the new one is kept and noted"


def test_a_new_snapshot_that_does_not_answer_is_refused(tmp_path: Path, engines: Engines) -> None:
    engines.mute = {b"1", b"2", b"3"}
    for booted in (1, 2):
        with pytest.raises(GateUnavailable, match="no answer") as caught:
            opened(tmp_path).prepare(WANT)
        assert (caught.value.code, engines.booted) == (NOT_USABLE, booted)


def test_a_box_that_cannot_be_had_costs_no_snapshot(
    tmp_path: Path, engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(tmp_path).prepare(WANT)
    of_another_boot(tmp_path)

    def no_box(*_: object, **__: object) -> Conversation:
        raise GateUnavailable("no box")

    with monkeypatch.context() as patched:
        patched.setattr(qemu, "converse", no_box)
        with pytest.raises(GateUnavailable, match="no box"):
            opened(tmp_path).prepare(WANT)
    opened(tmp_path).prepare(WANT)
    assert engines.booted == 1


def talk(tmp_path: Path) -> None:
    image = kept(tmp_path / "images")
    parts = Parts(Qemu(), image.kernel, image.initramfs, (*image.layers.values(),), tmp_path)
    converse(
        EnginePlace(find_machine(), policy().bundle()),
        parts,
        MachineShape(EMULATION, 1, 128),
        USE,
        tsc_khz=1,
    )


class Started(Exception):
    """The engine would be started now."""


@pytest.fixture(autouse=True)
def _no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*_: object, **__: object) -> None:
        raise Started

    monkeypatch.setattr(backend, "Companion", started)


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


def words(engine: str = EMULATION, snapshot: int | None = None) -> list[str]:
    handed = Handed(10, 11, (12, 13), 14, snapshot)
    return list(command(MachineShape(engine, 2, 512), handed, tsc_khz=2_600_000))


@pytest.mark.parametrize("engine", [EMULATION, KVM])
@pytest.mark.parametrize("snapshot", [None, 15])
# claim TG-C-232
def test_the_machine_has_disks_and_one_channel_and_nothing_else(
    engine: str, snapshot: int | None
) -> None:
    found = words(engine, snapshot)
    devices = [found[at + 1] for at, word in enumerate(found) if word == "-device"]
    assert [device.partition(",")[0] for device in devices] == [
        *("virtio-blk-device",) * 3,
        "virtio-serial-device",
        "virtserialport",
    ]
    assert {"-nodefaults", "-no-user-config", "-no-reboot"} <= set(found)
    for option in ("-netdev", "-nic", "-net", "-virtfs", "-fsdev", "-usb", "-vnc", "-monitor"):
        assert option not in found
    drives = [found[at + 1] for at, word in enumerate(found) if word == "-drive"]
    assert len(drives) == 3
    assert all("readonly=on" in drive and "file=/dev/fdset/" in drive for drive in drives)
    assert found[found.index("-sandbox") + 1].startswith("on,")


def test_a_clone_is_given_no_kernel_and_a_boot_no_snapshot() -> None:
    assert "-kernel" in words()
    assert "-incoming" not in words()
    assert "-kernel" not in words(snapshot=15)
    assert words(snapshot=15)[words(snapshot=15).index("-incoming") + 1] == "fd:15"


def test_the_accelerator_is_the_one_that_was_named() -> None:
    accel = {
        engine: words(engine)[words(engine).index("-accel") + 1] for engine in (EMULATION, KVM)
    }
    assert accel == {EMULATION: "tcg,thread=multi,tb-size=256", KVM: "kvm"}

"""What the lane keeps of an engine: a snapshot counts when a clone of it has answered."""

import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.images import kept
from tests.support.policies import policy
from threegate.base.errors import GateUnavailable
from threegate.base.untrusted import Untrusted
from threegate.gates.tool_exec.era.messages import (
    Channels,
    GuestFailed,
    GuestPrepared,
    Prepare,
    Probe,
    Probed,
)
from threegate.host.images.store import Images
from threegate.host.run.heavy import backend, processor
from threegate.host.run.heavy.backend import NOT_USABLE, QemuBackend, Want
from threegate.host.run.heavy.engine import EMULATION, Qemu
from threegate.host.run.heavy.lane import NOTHING
from threegate.host.run.heavy.machines import Conversation, Place, Use
from threegate.sandbox.launch import Evidence
from threegate.sandbox.machine import find_machine
from threegate.sandbox.supervise import Ended

PLACE = Place(find_machine(), policy().bundle())
WANT = Want(1, 128, ("base", "agent"), (), NOTHING)
DONE = Ended("done", 0, True, 1, 1, 1, 1, Untrusted(b""))
PROOF = Evidence("tool-heavy", "0" * 64, "0" * 64, "6.1", 4, mdwe=True, own_uid=False, proofs=())


@dataclass
class Engines:
    """Stands in for both boxes: boots write a number each, clones of the mute ones fail."""

    mute: set[bytes] = field(default_factory=set)
    booted: int = 0
    probed: list[bytes] = field(default_factory=list)

    def converse(self, _: Place, __: object, ___: object, use: Use, **____: int) -> Conversation:
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
    monkeypatch.setattr(backend, "converse", found.converse)
    monkeypatch.setattr(backend, "tsc_khz", lambda: 1)
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
        patched.setattr(backend, "tsc_khz", lambda: 2_900_000)
        opened(tmp_path).prepare(WANT)
    assert engines.booted == 2, "another rate of its clock"
    info = tmp_path / "cpuinfo"
    info.write_text("vendor_id : Other\nflags : a b\n\nvendor_id : ...\n", "utf-8")
    monkeypatch.setattr(processor, "_INFO", info)
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
        "the snapshot that was kept does not answer",
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
        patched.setattr(backend, "converse", no_box)
        with pytest.raises(GateUnavailable, match="no box"):
            opened(tmp_path).prepare(WANT)
    opened(tmp_path).prepare(WANT)
    assert engines.booted == 1

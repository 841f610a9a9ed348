"""The machine's command line is reviewed data: what is on it, and what is not."""

import pytest

from threegate.host.run.heavy.engine import EMULATION, KVM, Handed, Shape, command


def words(engine: str = EMULATION, snapshot: int | None = None) -> list[str]:
    handed = Handed(10, 11, (12, 13), 14, snapshot)
    return list(command(Shape(engine, 2, 512), handed, tsc_khz=2_600_000))


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

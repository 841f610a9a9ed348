"""Attacks by root inside a guest: what it says, what it touches, how it ends.

The agent of these guests hands its place to the request's own code, which is therefore root,
holds the channel to the gate and may say anything on it.
"""

import hashlib
import json
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support import rings
from tests.support.guests import ANY
from tests.support.heavy import MIB, Lab, Task, hostile, lab
from threegate.base.errors import GateUnavailable
from threegate.host.run.heavy.backend import HeavyRun
from threegate.host.run.heavy.qemu import BINARY, QemuBackend
from threegate.host.run.heavy.snapshots import STATE

# How QEMU 7.2 ends when a device writes into its own registers: it stands still, or goes on.
ENDS = {"data": "limit:time", "header and status": "ok", "ring": "ok"}
EROFS_MAGIC = struct.pack("<I", 0xE0F5E1E2)
PORTS_REFUSED = ("beyond memory", "huge, beyond memory", "write")
DONE = "port.tell(EXIT, {'code': 0, 'oom': False, 'signal': 0})\n"


@pytest.fixture(scope="module")
def owned(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return hostile(ANY, tmp_path_factory.mktemp("owned"))


def told(ran: HeavyRun) -> tuple[str, str]:
    return ran.outcome.exit, ran.outcome.note or ""


# claim TG-C-234
def test_a_guest_that_breaks_the_protocol_is_crashed_with_the_reason(owned: Lab) -> None:
    lies = {
        "os.write(port._fd, bytes([99]) + bytes(4))": "not a frame of this protocol",
        "os.write(port._fd, HEADER.pack(STDOUT, 2**31))": "a frame is too large",
        "port.tell(FILE, {'bytes': 1, 'name': '../../etc/x'})": "name is not a plain file name",
        "port.tell(FILE, {'bytes': 1, 'name': 'other'})": "a file that was not asked for",
        "port.tell(FILE, {'bytes': 1, 'name': 'x'}); port.say(DATA, b'22')": "more of a file",
        "port.tell(FILE, {'bytes': 9, 'name': 'x'}); port.tell(EXIT, {})": "a file ended early",
        "port.tell(EXIT, {'code': 0, 'oom': False, 'signal': 0, 'more': 1})": "unexpected fields",
        "port.tell(EXIT, {'code': 256, 'oom': False, 'signal': 0})": "not within 0..255",
        "port.tell(EXIT, {'code': True, 'oom': False, 'signal': 0})": "not a whole number",
        "port.say(EXIT, b'{\"code\": 0}')": "not canonical JSON",
        "port.say(EXIT, b'[' * 100000)": "not canonical JSON",
        "port.tell(READY, {})": "a frame that is not due",
    }
    honest = "port.say(STDOUT, b'fine'); port.tell(FILE, {'bytes': 1, 'name': 'x'})\n"
    honest += f"port.say(DATA, b'1'); {DONE}"
    outcome = owned.run(Task(honest, outputs={"x": 9})).outcome
    assert (outcome.exit, outcome.stdout) == ("ok", b"fine"), "control"
    assert outcome.files == (("x", b"1"),), "control"
    for attack, reason in lies.items():
        state, why = told(owned.run(Task(attack, outputs={"x": 9})))
        assert (state, reason in why) == ("crashed", True), (attack, state, why)


# claim TG-C-234
def test_a_guest_that_lies_about_its_exit_gets_no_more_than_its_limits(owned: Lab) -> None:
    more = Task("port.tell(FILE, {'bytes': 2**39, 'name': 'x'})", outputs={"x": 2**40})
    assert owned.run(more).outcome.exit == "limit:disk"
    flood = Task("while True: port.say(STDOUT, bytes(60000))").limited(output_bytes=300_000)
    outcome = owned.run(flood).outcome
    assert (outcome.exit, len(outcome.stdout)) == ("limit:output", 300_000)
    silent = Task("import time\nwhile True: time.sleep(1)").limited(wall_ms=6_000)
    assert owned.run(silent).outcome.exit == "limit:time"
    drip = "import time\nwhile True: os.write(port._fd, bytes([13])); time.sleep(3600)"
    assert owned.run(Task(drip).limited(wall_ms=6_000)).outcome.exit == "limit:time"
    # A lie within the protocol is the guest's word: results are untrusted.
    lie = owned.run("port.say(STDOUT, b'all is well'); " + DONE).outcome
    assert (lie.exit, lie.exit_code, lie.stdout) == ("ok", 0, b"all is well")


# claim TG-C-234
def test_panic_reboot_and_power_off_end_the_machine_and_are_told(owned: Lab) -> None:
    panic = "open('/proc/sysrq-trigger', 'w').write('c')"
    reboot = "LIBC.reboot(0x1234567)"
    halt = "LIBC.reboot(0x4321fedc)"
    for act in (panic, reboot, halt):
        limited = Task(f"port.say(STDOUT, b'before'); {act}\nimport time; time.sleep(20)")
        outcome = owned.run(limited.limited(wall_ms=60_000)).outcome
        # A machine that was told to halt may just stand still, until its time is over.
        assert outcome.exit in ("crashed", "limit:time"), (act, outcome)
        assert outcome.stdout == b"before"
    state, why = told(owned.run(Task(reboot).limited(wall_ms=60_000)))
    assert (state, "the guest stopped" in why) == ("crashed", True)


NETWORK = """
import socket
found = {}
for name, family, kind, where in (
    ("inet", socket.AF_INET, socket.SOCK_STREAM, ("1.1.1.1", 443)),
    ("loopback", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 22)),
    ("metadata", socket.AF_INET, socket.SOCK_STREAM, ("169.254.169.254", 80)),
    ("datagram", socket.AF_INET, socket.SOCK_DGRAM, ("8.8.8.8", 53)),
    ("inet6", socket.AF_INET6, socket.SOCK_STREAM, ("2606:4700:4700::1111", 443)),
    ("vsock-host", 40, socket.SOCK_STREAM, (2, 1024)),
):
    try:
        with socket.socket(family, kind) as s:
            s.settimeout(5); s.connect(where)
        found[name] = "connected"
    except OSError as exc:
        found[name] = exc.strerror or str(exc)
try:
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x300) as s:
        found["interfaces"] = [n for _, n in socket.if_nameindex()]
        s.bind(("eth0", 0)); found["packet"] = "bound"
except OSError as exc:
    found["packet"] = exc.strerror
found["pci"] = os.listdir("/sys/bus/pci/devices") if os.path.isdir("/sys/bus/pci/devices") else []
found["virtio"] = sorted(
    read_text(f"/sys/bus/virtio/devices/{name}/device").strip()
    for name in os.listdir("/sys/bus/virtio/devices"))
found["ports"] = sorted(os.listdir("/sys/class/virtio-ports"))
"""


# claim TG-C-232
def test_root_in_the_guest_finds_no_network_of_any_kind(owned: Lab) -> None:
    code = NETWORK + "port.say(STDOUT, json.dumps(found).encode())\n" + DONE
    outcome = owned.run(code).outcome
    assert outcome.exit == "ok", outcome.stderr
    found = json.loads(outcome.stdout)
    unreachable = "Network is unreachable"
    for name in ("inet", "loopback", "metadata", "datagram", "inet6"):
        assert found[name] in (unreachable, "Cannot assign requested address"), (name, found)
    assert found["vsock-host"] in (
        "Address family not supported by protocol",
        "Network is unreachable",
        "No such device",
    ), found
    # Control: sockets as such work there, and lo is the only interface.
    assert set(found.get("interfaces", ["lo"])) <= {"lo"}
    assert found["packet"] != "bound"
    assert found["pci"] == []
    # Disks (2) and the serial channel (3); no network (1), 9p (9), vsock (19) or folder (26).
    assert set(found["virtio"]) == {"0x0002", "0x0003"}
    assert len(found["ports"]) == 1


WRITES = """
found = {}
for name in sorted(os.listdir("/sys/block")):
    if not name.startswith("vd"): continue
    serial = read_text(f"/sys/block/{name}/serial").strip()
    try:
        fcntl.ioctl(os.open(f"/dev/{name}", os.O_RDONLY), 0x125d, struct.pack("i", 0))  # BLKROSET
        fd = os.open(f"/dev/{name}", os.O_RDWR | os.O_DIRECT)
        import mmap
        page = mmap.mmap(-1, 4096); page.write(b"E" * 4096)
        os.pwritev(fd, [page], 0)
        found[serial] = "written"
    except OSError as exc:
        found[serial] = exc.strerror
for place in ("/usr/bin/new", "/in/new"):
    try: open(place, "w"); found[place] = "made"
    except OSError as exc: found[place] = exc.strerror
"""


# claim TG-C-236
def test_root_in_the_guest_cannot_write_to_its_disks(owned: Lab) -> None:
    before = {name: path.read_bytes() for name, path in owned.backend.image.layers.items()}
    code = WRITES + "port.say(STDOUT, json.dumps(found).encode())\n" + DONE
    outcome = owned.run(Task(code)).outcome
    assert outcome.exit == "ok", outcome.stderr
    found = json.loads(outcome.stdout)
    assert set(found) >= {"layer0", "layer1", "in"}, "control: it found the disks"
    assert "written" not in found.values(), found
    assert "made" not in found.values(), found
    for name, path in owned.backend.image.layers.items():
        assert path.read_bytes() == before[name]
    again = lab().run("print('next')").outcome
    assert again.stdout == b"next\n"


ODD = """
import os
os.symlink("/etc/passwd", "/out/link"); os.mkfifo("/out/fifo"); os.mkdir("/out/directory")
os.link("/out/plain", "/out/hard") if os.path.exists("/out/plain") else None
open("/out/plain", "w").write("plain")
"""


def test_links_pipes_and_directories_in_out_are_not_files() -> None:
    outputs = {"link": MIB, "fifo": MIB, "directory": MIB, "plain": MIB}
    outcome = lab().run(Task(ODD, outputs=outputs)).outcome
    assert outcome.exit == "ok", outcome.stderr
    assert outcome.files == (("plain", b"plain"),)


# What a ring must not look like: the device takes no notice of it until it is reset.
REFUSED = (
    *("address beyond memory", "huge length", "huge lengths all over", "next beyond the table"),
    *("chain that bites its tail", "chain of two in a circle", "head beyond the table"),
    *("more heads than the ring has", "nothing at all", "no room for a status"),
    *("indirect of a crooked size", "indirect, huge", "indirect beyond memory"),
)


def driven(owned: Lab, code: str, **limits: int) -> HeavyRun:
    """Have root in a guest drive the disk of inputs by itself; the next run must be as ever."""
    assert isinstance(owned.backend, QemuBackend)
    state = owned.backend._template(owned.want(Task("1"))).place / STATE
    before = hashlib.sha256(state.read_bytes()).hexdigest()
    ran = owned.run(Task(code + rings.REPORT + DONE, inputs={"a": b"x" * 5000}).limited(**limits))
    assert hashlib.sha256(state.read_bytes()).hexdigest() == before
    after = owned.run("port.say(STDOUT, b'next'); " + DONE).outcome
    assert (after.exit, after.stdout) == ("ok", b"next")
    return ran


def reported(ran: HeavyRun) -> dict[str, Any]:
    assert ran.outcome.exit == "ok", ran.outcome
    found: dict[str, Any] = json.loads(ran.outcome.stdout)
    assert "failed" not in found, found["failed"]
    return found


# claim TG-C-213
def test_malformed_rings_of_a_guests_own_driver_end_at_the_device(owned: Lab) -> None:
    found = reported(driven(owned, rings.ALL))
    assert found["with drivers"] == "Operation not permitted", "so it takes the drivers off"
    assert found["magic"] == "virt", "control: these are the registers of a device"
    disk = bytes.fromhex(found["before"])
    assert disk[:4] == EROFS_MAGIC, "control: a well-formed ring is answered, with the inputs"
    assert len(found["after"]) > 30
    for name, (answers, after) in found["after"].items():
        assert after == "as before", (name, after)
        assert answers == 0 or name not in REFUSED, name


@pytest.mark.slow
@pytest.mark.parametrize("what", [*ENDS])
# claim TG-C-213
def test_a_device_that_writes_to_itself_stops_its_own_machine_alone(owned: Lab, what: str) -> None:
    attack = (
        f"port = driving(lambda disk: (disk.read(), disk.begin(), INTO_REGISTERS[{what!r}](disk)))"
    )
    code = f"port.say(STDOUT, b'before')\n{rings.DRIVE}{rings.MALFORMED}{attack}\n"
    outcome = driven(owned, code, wall_ms=60_000).outcome
    assert outcome.stdout.startswith(b"before")
    told = subprocess.run([BINARY, "--version"], capture_output=True, text=True, check=True).stdout
    seen = "version 7.2" in told  # what another version does nobody has looked at
    assert outcome.exit in ((ENDS[what],) if seen else ("limit:time", "crashed", "ok")), outcome


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
# claim TG-C-213
def test_rings_and_registers_of_chance_end_at_the_device(owned: Lab, seed: int) -> None:
    code = f"SEED, ROUNDS = {seed}, 500\n{rings.DRIVE}{rings.CHANCE}"
    found = reported(driven(owned, code))
    assert bytes.fromhex(found["before"])[:4] == EROFS_MAGIC, "control"
    assert found["after"] == found["before"]


@pytest.mark.slow
# claim TG-C-213
def test_transfers_asked_for_by_port_stay_in_the_guest(owned: Lab) -> None:
    found = reported(driven(owned, rings.DRIVE + rings.PORTS))
    assert found["iopl"] == 0, "control: root in the guest has the ports"
    assert found["signature"] == [0, "QEMU"], "control: a proper transfer is made"
    refused = {name: told & 1 for name, told in found["transfers"].items() if name in PORTS_REFUSED}
    assert refused == dict.fromkeys(PORTS_REFUSED, 1), found
    assert found["again"] == [0, "QEMU"]


@pytest.mark.slow
def test_a_guest_that_is_not_as_promised_gets_no_job(tmp_path: Path) -> None:
    proud = ANY.replace("**self._ring_facts()}", '**self._ring_facts(), "routes": 1}')
    assert proud != ANY
    with pytest.raises(GateUnavailable, match="not what was promised: guest-no-route"):
        hostile(proud, tmp_path).run("print('never')")

"""The guest as its agent sees and prepares it: facts, places of the job, entropy and time.

SECURITY
    Runs as root inside the guest, beside the agent.
"""

import fcntl
import os
import struct
import time
from collections.abc import Callable
from typing import Any

from threegate.gates.tool_exec.era.guest.kernel import (
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_RDONLY,
    MS_REMOUNT,
    mount,
)

MAX_MOUNTS = 64
IN_SERIAL = "in"
JOB_UID = 1000
IFF_UP, BLKFLSBUF = 1, 0x1261
PLAIN = MS_NOSUID | MS_NODEV | MS_NOEXEC
Message = dict[str, Any]


def read_text(path: str) -> str:
    """Return a small file as text, or nothing if there is none."""
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def facts() -> Message:
    """Return what the guest looks like from inside, just before a job."""
    mounts = [line.split(" ") for line in read_text("/proc/mounts").splitlines()]
    return {
        "cpus": os.sysconf("SC_NPROCESSORS_ONLN"),
        "environment": len(os.environ),
        "interfaces": interfaces(),
        "memory_kib": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 1024,
        "mounts": [[place, kind, options.split(",")[0]] for _, place, kind, options, *_ in mounts][
            :MAX_MOUNTS
        ],
        "resolver": os.path.exists("/etc/resolv.conf"),
        "routes": routes(),
    }


def interfaces() -> list[list[Any]]:
    """Return every network interface, and whether it is up."""
    place = "/sys/class/net"
    names = set(os.listdir(place)) if os.path.isdir(place) else set()
    names |= {line.split(":")[0].strip() for line in read_text("/proc/net/dev").splitlines()[2:]}
    # An interface without flags may be up.
    flags = {name: read_text(f"{place}/{name}/flags") or "1" for name in names}
    return [[name, bool(int(flags[name], 16) & IFF_UP)] for name in sorted(names)]


def routes() -> int:
    """Return the number of routes, without those of IPv6 to lo."""
    four = read_text("/proc/net/route").splitlines()[1:]
    six = read_text("/proc/net/ipv6_route").splitlines()
    return sum(bool(line.strip()) for line in four) + sum(not line.endswith("lo") for line in six)


def take_input(hear: Callable[[], tuple[int, bytes]], message: Message) -> None:
    """Write one input to /in, which only root can change."""
    if not os.path.ismount("/in"):
        mount("in", "/in", "tmpfs", PLAIN, "mode=0755")
    left = message["bytes"]
    with open(f"/in/{message['name']}", "xb", buffering=0) as file:
        while left:
            _, piece = hear()
            file.write(piece)
            left -= len(piece)
        os.fchmod(file.fileno(), 0o444)


def prepare_places(job: Message, *, clone: bool) -> None:
    """Mount the inputs, and two writable places that are no larger than allowed."""
    if clone and job["inputs"]:
        _bring_inputs()
    if clone:
        _cap_places(job["disk_bytes"])
        return
    size, plain = f"size={max(job['disk_bytes'], 4096)}", PLAIN
    mount("tmp", "/tmp", "tmpfs", plain, f"mode=1777,{size}")  # noqa: S108
    closed = 0 if job["disk_bytes"] else MS_RDONLY
    mount("out", "/out", "tmpfs", plain | closed, f"mode=0755,uid={JOB_UID},gid={JOB_UID},{size}")


def _bring_inputs() -> None:
    for name in os.listdir("/sys/block"):
        if read_text(f"/sys/block/{name}/serial").strip() == IN_SERIAL:
            fd = os.open(f"/dev/{name}", os.O_RDONLY)
            fcntl.ioctl(fd, BLKFLSBUF, 0)  # the snapshot has cached another disk
            os.close(fd)
            mount(f"/dev/{name}", "/in", "erofs", MS_RDONLY | PLAIN)


def _cap_places(disk_bytes: int) -> None:
    """Give the job its two places to write to, no larger than its files may be."""
    size = f"size={max(disk_bytes, 4096)}"  # 0 would mean no cap
    mount("", "/tmp", "", MS_REMOUNT | PLAIN, size)  # noqa: S108
    os.chown("/out", JOB_UID, JOB_UID)
    mount("", "/out", "", MS_REMOUNT | PLAIN | (0 if disk_bytes else MS_RDONLY), size)


RNDADDENTROPY, RNDRESEEDCRNG = 0x40085203, 0x5207


def take_time(job: Message) -> None:
    """Set the clock to the host's, last of all: a resumed clock shows the time of the snapshot."""
    time.clock_settime_ns(time.CLOCK_REALTIME, job["now_ns"])


def take_entropy(message: Message) -> None:
    """Add the host's entropy: every clone resumes with the same random state."""
    seed = bytes.fromhex(message["entropy"])
    with open("/dev/urandom", "r+b", buffering=0) as device:
        room = struct.pack("ii", len(seed) * 8, len(seed)) + seed
        fcntl.ioctl(device, RNDADDENTROPY, room)
        fcntl.ioctl(device, RNDRESEEDCRNG, 0)

"""A clone wakes up: it takes the host's entropy, and with its job the host's time.

SECURITY
    Runs as root inside the guest.
"""

import fcntl
import struct
import time

from threegate.gates.tool_exec.era.guest.places import Message

RNDADDENTROPY, RNDRESEEDCRNG = 0x40085203, 0x5207


def take_time(job: Message) -> None:
    """Take the host's clock, last of all: the snapshot has that of its own moment."""
    time.clock_settime_ns(time.CLOCK_REALTIME, job["now_ns"])


def take_entropy(message: Message) -> None:
    """Take entropy of the host: what the snapshot has, every clone of it has."""
    seed = bytes.fromhex(message["entropy"])
    with open("/dev/urandom", "r+b", buffering=0) as device:
        room = struct.pack("ii", len(seed) * 8, len(seed)) + seed
        fcntl.ioctl(device, RNDADDENTROPY, room)
        fcntl.ioctl(device, RNDRESEEDCRNG, 0)

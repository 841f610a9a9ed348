"""Payload for the doctor: use /dev/kvm from inside the engine's own sandbox, as a run does."""

import errno
import os

from threegate.sandbox.channel import read_message, write_message
from threegate.sandbox.kernel import syscall
from threegate.sandbox.syscalls import architecture

WORKS = b"works"
_DEVICE = "/dev/kvm"
_GET_API_VERSION, _CREATE_VM, _API_VERSION = 0xAE00, 0xAE01, 12
_IOCTL = architecture().numbers["ioctl"]


def main() -> None:
    """Answer whether a machine can be made, or which step is refused and how."""
    read_message(0, 16)
    write_message(3, _tried())


def _tried() -> bytes:
    step = "opening it"
    try:
        device = os.open(_DEVICE, os.O_RDWR | os.O_CLOEXEC)
        step = "asking for its version"
        if syscall(_IOCTL, device, _GET_API_VERSION, 0) != _API_VERSION:
            return b"it has another version"
        step = "making a machine"
        os.close(syscall(_IOCTL, device, _CREATE_VM, 0))
        os.close(device)
    except OSError as exc:
        return f"{step}: {errno.errorcode.get(exc.errno or 0, 'unknown')}".encode()
    return WORKS

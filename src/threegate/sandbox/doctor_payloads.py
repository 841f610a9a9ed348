"""Payloads of the doctor: use /dev/kvm in the engine's sandbox, and a Monty worker in tool-lite."""

import errno
import json
import os

from threegate.sandbox.channel import read_message, write_message
from threegate.sandbox.kernel import syscall
from threegate.sandbox.payload import LAUNCHER
from threegate.sandbox.syscalls import architecture

WORKS = b"works"
_DEVICE = "/dev/kvm"
_GET_API_VERSION, _CREATE_VM, _API_VERSION = 0xAE00, 0xAE01, 12
_IOCTL = architecture().numbers["ioctl"]


def use_kvm() -> None:
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


def use_worker() -> None:
    """Answer with the value that the worker computes."""
    import pydantic_monty  # only in tool-lite, whose profile imports it before the lock

    code = (read_message(0, 65536) or b"").decode("utf-8")
    with (
        pydantic_monty.Monty(
            binary_path=LAUNCHER, min_processes=1, max_processes=1, max_checkouts_per_worker=1
        ) as pool,
        pool.checkout(limits={"max_memory": 64 * 2**20, "max_feed_duration_secs": 1.0}) as session,
    ):
        value = session.feed_run(code)
    write_message(3, json.dumps(value).encode("utf-8"))

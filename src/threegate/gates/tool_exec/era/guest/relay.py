"""`inference.local`: the socket in a guest through which a run may ask its listed hosts.

A socket of the guest's own, served by a process that passes each ask to the port that leads
out and brings the answer back, one after the other.  Without a network in the ring there is no
port, no process and no socket.

SECURITY
    Runs inside the guest, beside the job.  It keeps frames of several processes apart, so that
    their asks arrive whole; what may be asked is decided outside.
"""

import os
import socket
import stat
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

PLACE = "/run/inference.local"
PORT_NAME = "threegate.gates.run_gateway"
PORTS = "/sys/class/virtio-ports"
RELAY_UID = 1001  # not the job's, which could otherwise kill or trace the relay
HEADER = struct.Struct(">BI")
ANSWER = 11
MAX_FRAME_BYTES = 1 << 28
PIECE_BYTES = 64 * 1024
STREAM_FD = 1  # of a guest without ports: the channel it was started with
GONE_SECONDS = 5.0


def way_out(*, clone: bool) -> str | None:
    """Return the port that leads to a gateway, if this guest has one."""
    if not clone:
        return str(STREAM_FD) if stat.S_ISSOCK(os.fstat(STREAM_FD).st_mode) else None
    for name in os.listdir(PORTS) if os.path.isdir(PORTS) else []:
        with open(f"{PORTS}/{name}/name", encoding="ascii") as file:
            if file.read().strip() == PORT_NAME:
                return f"/dev/{name}"
    return None


def is_offline(*, clone: bool) -> bool:
    """Tell whether there is no port to a gateway and no socket for one."""
    return way_out(clone=clone) is None and not os.path.exists(PLACE)


def start(*, clone: bool) -> None:
    """Serve the socket in a process of its own, from now to the end of the guest."""
    way = way_out(clone=clone)
    if way is None:
        raise OSError("the ring has a gateway and the guest has none")
    port = os.open(way, os.O_RDWR | os.O_CLOEXEC) if clone else int(way)
    os.set_blocking(port, True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(PLACE)
    os.chmod(PLACE, 0o666)  # noqa: S103  # the guest's own; its job has another uid
    listening.listen(8)
    if os.fork() == 0:
        try:
            _become(port, listening)
            serve(port, listening)
        finally:
            os._exit(1)
    listening.close()
    if clone:
        os.close(port)


def _become(port: int, listening: socket.socket) -> None:
    kept = sorted((port, listening.fileno()))
    for low, high in zip((3, *(fd + 1 for fd in kept)), (*kept, 1024), strict=True):
        os.closerange(low, high)
    os.setgroups([])
    os.setresgid(RELAY_UID, RELAY_UID, RELAY_UID)
    os.setresuid(RELAY_UID, RELAY_UID, RELAY_UID)


def serve(port: int, listening: socket.socket) -> None:
    """Carry one question at a time."""
    while True:
        client, _ = listening.accept()
        with client:
            try:
                asked = [_frame(partial(_received, client)) for _ in range(2)]
            except (OSError, ValueError):
                continue  # the client sent no whole question
            for part in asked:
                _write(port, part)
            answer = _frame(partial(_read, port))
            if answer[0] == ANSWER:  # its body comes behind it
                answer += _frame(partial(_read, port))
            with suppress(OSError):
                client.sendall(answer)


def _frame(read: Callable[[int], bytes]) -> bytes:
    head = read(HEADER.size)
    _, length = HEADER.unpack(head)
    if length > MAX_FRAME_BYTES:
        raise ValueError("a frame is too large")
    return bytes(head + read(length))


def _received(client: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = client.recv(min(size - len(data), PIECE_BYTES))
        if not piece:
            raise ValueError("it broke off")
        data += piece
    return bytes(data)


def _read(port: int, size: int) -> bytes:
    """Read from the port, which may be empty for a moment after a resume."""
    data = bytearray()
    end = time.monotonic() + GONE_SECONDS
    while len(data) < size:
        piece = os.read(port, min(size - len(data), PIECE_BYTES))
        if not piece:
            if time.monotonic() > end:
                raise ValueError("the gateway is gone")
            time.sleep(0.02)
        data += piece
    return bytes(data)


def _write(port: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(port, left[:PIECE_BYTES]) :]
